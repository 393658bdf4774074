#!/bin/bash
# model.initialise_from starts a run from another model's weights: the first loss is that model's; with the optimizer's
# state a run continues like the other; a stopped run resumes without the file. Mismatches are named, and carried
# tensors are in every checkpoint. The test also checks that models and tokens fit.
. "$abs_top_srcdir/tests/lib.sh"
edit="$abs_top_builddir/tests/hdf5_edit"
cd "$work" || exit 1

# One step's rows are the whole store, so every step of every run sees the same batch.
genome 3 62 62 62 62 62 62 62 >same.fa
"$CISTRON" prepare --tokenizer nucleotide -o same.h5 same.fa >/dev/null || exit 1
cat >new.cfg <<END
data = { train = "$work/same.h5"; row_tokens = 64; shuffle = false; };
train = { steps = 6; global_batch = 7; micro_batch = 2; };
optimizer = { lr = 1e-2; };
schedule = { kind = "constant"; };
log = { every = 1; };
device = { threads = 1; };
output = { folder = "$work/new"; };
END
{ cat new.cfg && echo 'model = { layers = 2; hidden = 32; ffn = 64; heads = 4; kv_heads = 2; norm_eps = 1e-6; };'; } >first.cfg
ranks 2 train first.cfg output.folder=first train.steps=10
check "the first run ends" codes_are 0 2
ranks 2 train first.cfg output.folder=on train.resume=first/step_00000010.h5 train.steps=16
losses on | sed 's/^[0-9]* //' >on.losses
file=$work/first/final_model.h5

# weights alone
ranks 2 train new.cfg model.initialise_from="$file"
check "a run from weights ends" codes_are 0 2
check "it says where from" says "starting from the weights of $file (step 10)"
losses new >new.losses
check "6 steps" test "$(wc -l <new.losses)" -eq 6
check "the first loss is that of the weights, bit for bit" test "$(head -n 1 new.losses)" = "1 $(head -n 1 on.losses)"
check "and far below that of new ones" awk -v a="$(losses first | sed -n '1s/.* //p')" -v b="$(head -n 1 on.losses)" \
    'BEGIN { exit !(b < a - 0.5) }'
check "the second step knows no moments" test "$(sed -n '3s/.* //p' new.losses)" != "$(sed -n 3p on.losses)"
check "it took the model" grep -q 'kv_heads = 2;' new/deck.cfg
check "and what has no shape" grep -Eq 'norm_eps = (1e-06|9.9999999999999995e-07);' new/deck.cfg
ranks 1 train new.cfg model.initialise_from=first output.folder=one
check "one rank, from a run folder" codes_are 0 1
losses one >one.losses
check "one rank: the losses of two" close_losses one.losses new.losses 1e-6
ranks 1 train new/deck.cfg output.folder=again
losses again >again.losses
check "its own deck starts it again" cmp one.losses again.losses
"$CISTRON" plan new.cfg model.initialise_from="$file" >out 2>&1
check "a plan knows the model too" test "$(sed -n 's/^  parameters *//p' out)" -gt 10000

# with the optimizer's state
ranks 2 train new.cfg model.initialise_from=first model.initialise_optimizer=true output.folder=moments
check "a run from weights and moments ends" codes_are 0 2
check "it goes on as the first run would have" cmp on.losses <(losses moments | sed 's/^[0-9]* //')

# stopped, and the file gone
for how in false true; do
    ranks 2 train new.cfg model.initialise_from="$work/first/step_00000010.h5" model.initialise_optimizer=$how \
        output.folder=stopped train.steps=2
    mv first away
    ranks 2 train new.cfg model.initialise_from="$work/first/step_00000010.h5" model.initialise_optimizer=$how \
        output.folder=stopped
    check "resumed without the file" codes_are 0 2
    mv away first
    whole=$([ $how = true ] && echo moments || echo new)
    check "stopped and resumed: the same losses" cmp <(losses stopped) <(losses $whole)
    check "and digest" test "$(digest stopped 6)" = "$(digest $whole 6)"
    rm -r stopped
done

# keys that the weights leave open may differ, and that is said
ranks 1 train new.cfg model.initialise_from="$file" model.rope_theta=20000 output.folder=theta
check "another theta" codes_are 0 1
check "is said" says "model.rope_theta = 20000.0, where $file has 10000.0"
check "and used" test "$(losses theta | head -n 1)" != "$(head -n 1 one.losses)"

# what does not fit
"$CISTRON" prepare --tokenizer esm2 -o protein.h5 <(awk 'BEGIN { srand(5); for (r = 0; r < 60; r++) { print ">p" r
    s = ""; for (i = 0; i < 40; i++) s = s substr("ACDEFGHIKLMNPQRSTVWY", 1 + int(20 * rand()), 1); print s } }') >/dev/null || exit 1
cp "$file" damaged.h5 && cp "$file.xxh3" damaged.h5.xxh3
printf 'XXXX' | dd of=damaged.h5 bs=1 seek=30000 conv=notrunc 2>/dev/null
mkdir nothing
# refuse N TEXT OVERRIDE...: exit code 2 on all N ranks, and TEXT said once.
refuse()
{
    local count=$1 text=$2
    shift 2
    rm -rf refused
    ranks "$count" train new.cfg output.folder=refused "$@"
    check "$*: code 2" codes_are 2 "$count"
    check "$*: is named" says "$text"
    check "$*: once" test "$(grep -cF -- "$text" out)" -eq 1
    check "$*: no checkpoint" test -z "$(find refused -name '*.h5')"
}
refuse 2 "key model.hidden: 32 in the file, 64 in the deck" model.initialise_from="$file" model.hidden=64
refuse 1 "key model.heads: 4 in the file, 8 in the deck" model.initialise_from="$file" model.heads=8
refuse 1 "key model.heads: 4 in the file, 1 in the deck" model.initialise_from="$file" model.heads=1
refuse 1 "key model.vocabulary: 256 in the file, 300 in the deck" model.initialise_from="$file" model.vocabulary=300
refuse 1 'key model.tied: "no" in the file, "yes" in the deck' model.initialise_from="$file" model.tied=yes
refuse 1 "key model.norm_zero_centered: false in the file, true in the deck" model.initialise_from="$file" \
    model.norm_zero_centered=true
refuse 1 "key model.mlp_bias: false in the file, true in the deck" model.initialise_from="$file" model.mlp_bias=true
refuse 1 "key model.layers: 2 in the file, 32 in the deck" model.initialise_from="$file" model.preset=og2_7b
refuse 1 "has a model of family llama, but the deck has esm2" model.initialise_from="$file" model.preset=esm2_8m
refuse 1 "has a model of family llama, but the deck has amplify" model.initialise_from="$file" model.family=amplify
refuse 2 "key model.initialise_optimizer = true: $file has no optimizer state" model.initialise_from="$file" \
    model.initialise_optimizer=true
refuse 2 'key model.initialise_from = "nowhere.h5": cannot find a checkpoint or run folder' model.initialise_from=nowhere.h5
refuse 1 "same.h5: is not a checkpoint" model.initialise_from=same.h5
refuse 1 'key model.initialise_from = "nothing": has no checkpoint' model.initialise_from=nothing
refuse 1 "damaged.h5: is damaged" model.initialise_from=damaged.h5
refuse 2 'protein.h5": has esm2 tokens, but' model.initialise_from="$file" data.train=protein.h5
refuse 1 "without a mask token" model.preset=esm2_8m
refuse 1 "has a vocabulary of 27, but the token store data.train has ids up to 32; set model.vocabulary = 33" \
    model.preset=amplify_120m data.train=protein.h5
refuse 1 "has esm2 tokens, but data.train has nucleotide tokens" model.preset=og2_sanity data.valid=protein.h5

# carried along, also where a run goes on from its own checkpoint
cp "$file" carries.h5
"$edit" carries.h5 head.bias=U8 'not to be trained' || exit 1
for steps in 2 3; do
    ranks 2 train new.cfg model.initialise_from="$work/carries.h5" output.folder=carried train.steps=$steps
    check "carried, $steps steps" codes_are 0 2
    rm -f carries.h5
    for name in step_0000000$steps final_model; do
        "$CISTRON" inspect carried/$name.h5 >out
        check "$name carries it" says "carried tensors 1 elements 17"
        check "$name: its bytes" grep -qa 'not to be trained' carried/$name.h5
    done
done

# a masked model
cat >masked.cfg <<END
@include "new.cfg"
model = { family = "esm2"; layers = 1; hidden = 32; ffn = 64; heads = 4; };
END
ranks 2 train masked.cfg data.train=protein.h5 output.folder=masked train.steps=4
check "a masked model learns" codes_are 0 2
ranks 2 train new.cfg data.train=protein.h5 model.initialise_from=masked output.folder=masked2 train.steps=4
check "and is started from" codes_are 0 2
ranks 1 train new.cfg data.train=protein.h5 model.initialise_from=masked output.folder=masked1 train.steps=2
ranks 1 train new.cfg data.train=protein.h5 model.initialise_from=masked output.folder=masked1 train.steps=4
check "the same on one rank, stopped between" close_losses <(losses masked1) <(losses masked2) 1e-6
check "from where it was" awk -v a="$(losses masked | sed -n '1s/.* //p')" -v b="$(losses masked2 | sed -n '1s/.* //p')" \
    'BEGIN { exit !(b < a) }'
finish
