#!/bin/bash
# Runs on random data need no store: every rank count learns the same, and a restart resumes to the bit. Contradictory
# settings are refused on every rank.
. "$abs_top_srcdir/tests/lib.sh"
small_deck || exit 1 # its store serves a run that changes over to it
cat >"$work/random.cfg" <<END
model = { layers = 2; hidden = 32; ffn = 64; heads = 4; };
data = { source = "random"; random_median = 40; random_mean = 70; row_tokens = 64; };
train = { steps = 8; global_batch = 7; micro_batch = 2; };
schedule = { warmup = 3; decay = 20; };
log = { every = 1; };
device = { threads = 1; };
output = { folder = "$work/run"; };
END

# train N FOLDER ARGUMENTS...
train()
{
    local count=$1 folder=$2
    shift 2
    ranks "$count" train "$work/random.cfg" output.folder="$work/$folder" "$@"
}

llama="data.format=packed"
nosplit="data.split=false model.vocabulary=600"
proteins="model.family=esm2 data.format=padded data.mask_probability=0.3"
amplify="model.family=amplify data.special_tokens=sequence data.random_median=0 data.random_mean=0"
for keys in "$llama" "$nosplit" "$proteins" "$amplify"; do
    rm -rf "$work"/whole "$work"/parts "$work"/three
    # shellcheck disable=SC2086
    {
        train 2 whole $keys
        check "$keys: a run ends with 0" codes_are 0 2
        check "$keys: it says what it learns from" says "# random data: "
        check "$keys: 8 losses" test "$(losses "$work/whole" | wc -l)" -eq 8
        train 2 parts $keys train.steps=5
        train 2 parts $keys
        check "$keys: restarted, the same losses to the bit" cmp <(losses "$work/whole") <(losses "$work/parts")
        check "$keys: restarted, the same digest" test "$(digest "$work/whole" 8)" = "$(digest "$work/parts" 8)"
        train 3 three $keys
    }
    check "$keys: on 3 ranks the same" close_losses <(losses "$work/three") <(losses "$work/whole") 1e-6
done

# a deck that names stores, which are not there, as shipped decks do; the training's log names lengths
train 2 named data.train="$work/none.h5" data.weights=1 data.valid="$work/none.h5" validation.every=4
check "random data in a deck that names stores" codes_are 0 2
check "the lengths are named" says "# random data: lengths of median 40 and mean 70 tokens, 7 rows of 64 tokens a step"
check "what is not read is named" says "the stores of data.train and data.valid are not read"
for deck in quickstart esm2_tiny_proteins esm2_l0_sanity llama3_l0_sanity; do
    ranks 1 train $deck data.source=random data.random_median=2200 data.random_mean=4000 train.steps=1 \
        train.global_batch=1 train.micro_batch=1 output.folder="$work/$deck"
    check "$deck on random data, as README has it" codes_are 0 1
    check "$deck: the log says which file it is" says "# deck $deck is $abs_top_srcdir/input/$deck.cfg"
done

"$CISTRON" plan "$work/random.cfg" >"$work/out"
check "a plan says why it counts no epochs" says "random data has no end"
check "a plan has the vocabulary" grep -Eq '^  vocabulary +256$' "$work/out"
"$CISTRON" plan "$work/random.cfg" model.layers=0 >"$work/out" 2>&1
check "what is missing is not the data" says "key model.layers: not set, and neither model.preset nor data.train determines it; set it"
check "and nothing more is said" test -z "$(grep 'no end' "$work/out")"

# refuse TEXT ARGUMENTS...: one line, exit code 2
refuse()
{
    local text=$1
    shift
    "$CISTRON" plan "$work/random.cfg" "$@" >"$work/out" 2>&1
    check "$*: exit code 2" test $? -eq 2
    check "$*: says why" says "$text"
    check "$*: in one line" test "$(wc -l <"$work/out")" -eq 1
}
refuse "keys data.random_median = 40, data.random_mean = 39" data.random_mean=39
refuse "keys data.random_median = 40, data.random_mean = 0" data.random_mean=0
refuse "keys data.random_median = 0, data.random_mean = 70" data.random_median=0
refuse "key model.vocabulary = 4:" model.vocabulary=4
refuse "key data.source = noise: must be one of" data.source=noise
refuse "key data.random_median = -1" data.random_median=-1

# refuse_training TEXT ARGUMENTS...: the same of a training, whose folder holds a run, on both ranks
refuse_training()
{
    local text=$1
    shift
    train 2 named "$@"
    check "$*: refused" codes_are 2 2
    check "$*: says why" says "$text"
}
refuse_training "key data.train: not set" data.source=store
refuse_training "key data.random_mean: 70 in the checkpoint, 71 now" train.steps=9 data.random_mean=71
refuse_training 'key data.source: "random" in the checkpoint, "store" now' train.steps=9 data.source=store \
    data.train="$work/g.train.h5"
finish
