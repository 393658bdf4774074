#!/bin/bash
# A Hugging Face folder is imported, trained, and exported at the end (checkpoint.export_final), for ESM-2 and AMPLIFY:
# the weights are the final model's, and untrained tensors are unchanged. A folder that cannot be made is reported.
. "$abs_top_srcdir/tests/lib.sh"
golden="$abs_top_srcdir/tests/golden"
cd "$work" || exit 1
awk 'BEGIN { srand(5); for (r = 0; r < 60; r++) { print ">p" r; s = ""
    for (i = 0; i < 40; i++) s = s substr("ACDEFGHIKLMNPQRSTVWY", 1 + int(20 * rand()), 1); print s } }' >protein.fa
cat >deck.cfg <<END
data = { row_tokens = 64; };
train = { steps = 3; global_batch = 6; micro_batch = 2; };
schedule = { kind = "constant"; };
checkpoint = { export_final = true; };
log = { every = 1; };
device = { threads = 1; };
END

# first_loss STORE FILE: of a run that starts from these weights
first_loss()
{
    rm -rf probe
    "$CISTRON" train deck.cfg data.train="$1" model.initialise_from="$2" train.steps=1 checkpoint.export_final=false \
        output.folder=probe >out 2>&1
    losses probe
}

for family in esm2 amplify; do
    "$CISTRON" prepare --tokenizer $family -o $family.store.h5 protein.fa >/dev/null || exit 1
    "$CISTRON" import "$golden/${family}_tiny" -o $family.h5 >out 2>&1
    check "$family: import" test $? -eq 0
    ranks 2 train deck.cfg data.train=$family.store.h5 model.initialise_from=$family.h5 output.folder=$family
    check "$family: trained on 2 ranks" codes_are 0 2
    check "$family: a folder is left" says "exported to $family/final_model"
    "$CISTRON" import $family/final_model -o $family.back.h5 >out 2>&1
    check "$family: that imports" test $? -eq 0
    check "$family: and is the final model" test "$(first_loss $family.store.h5 $family.back.h5)" = \
        "$(first_loss $family.store.h5 $family/final_model.h5)"
    check "$family: not the first one" test "$(first_loss $family.store.h5 $family.back.h5)" != \
        "$(first_loss $family.store.h5 $family.h5)"
    "$CISTRON" train deck.cfg data.train=$family.store.h5 model.initialise_from=$family.h5 model.gelu=tanh \
        train.steps=1 output.folder=$family.tanh >out 2>&1
    check "$family: GELU's form is spoken of where it matters" test "$(grep -c "computes GELU by erf" out)" -eq \
        "$([ $family = esm2 ] && echo 1 || echo 0)"
    check "$family: that is a number" grep -Eq '^1 [0-9.]+$' <(first_loss $family.store.h5 $family.h5)
done

# A frozen trunk: of AMPLIFY, as ESM-2's head is tied.
frozen()
{
    ranks 2 train deck.cfg data.train=amplify.store.h5 model.initialise_from="$work/amplify.h5" train.freeze=trunk "$@"
}
frozen output.folder=frozen parallel.shard=full train.steps=6
check "frozen: trained on 2 ranks" codes_are 0 2
frozen output.folder=frozen.again parallel.shard=full train.steps=3
frozen output.folder=frozen.again parallel.shard=full train.steps=6
check "frozen: a restart ends with 0" codes_are 0 2
check "frozen: a restart has the same bits" cmp frozen/final_model/model.safetensors \
    frozen.again/final_model/model.safetensors
frozen output.folder=frozen train.steps=7 train.freeze=none
check "frozen: a restart that trains all: code 2" codes_are 2 2
check "frozen: is refused with the reason" says "the checkpoint's tensors are made for it"
"$CISTRON" plan deck.cfg data.train=amplify.store.h5 model.initialise_from=amplify.h5 train.freeze=trunk >out 2>&1
check "frozen: a plan" test $? -eq 0
refused "a frozen trunk and a tied head" 'key train.freeze = "trunk": not with a tied head' train deck.cfg \
    data.train=esm2.store.h5 model.initialise_from=esm2.h5 output.folder=odd train.freeze=trunk

# LoRA, of ESM-2 with its tied head.
adapted()
{
    ranks 2 train deck.cfg data.train=esm2.store.h5 model.initialise_from="$work/esm2.h5" lora.rank=4 optimizer.lr=0.01 "$@"
}
# loss_of FILE: of the proteins
loss_of()
{
    "$CISTRON" eval --force --checkpoint "$1" --fasta protein.fa -o scores.json >out 2>&1
    sed -n 's/.*"token_weighted_ce_loss": \([0-9.]*\),/\1/p' scores.json | cut -c 1-8
}
adapted output.folder=lora parallel.shard=full train.steps=6 lora.dropout=0.1
check "LoRA: trained on 2 ranks" codes_are 0 2
check "LoRA: starts with the loss of its base" test "$(losses lora | head -n 1 | cut -c 1-8)" = \
    "$(first_loss esm2.store.h5 esm2.h5 | cut -c 1-8)"
adapted output.folder=lora.again parallel.shard=full lora.dropout=0.1 train.steps=3
adapted output.folder=lora.again parallel.shard=full lora.dropout=0.1 train.steps=6
check "LoRA: a restart ends with 0" codes_are 0 2
check "LoRA: a restart has the same bits" cmp lora/final_model/model.safetensors lora.again/final_model/model.safetensors
adapted output.folder=lora.split parallel.tensor=2 train.steps=6 lora.dropout=0.1
check "LoRA: dropout does not depend on the layout" close_losses <(losses lora) <(losses lora.split) 1e-5
adapted output.folder=lora.whole parallel.shard=full train.steps=6
check "LoRA: without dropout the losses differ" test "$(losses lora | tail -n 1)" != "$(losses lora.whole | tail -n 1)"
check "LoRA: an export says that adapters are merged" says "with the adapters merged"
"$CISTRON" import lora/final_model -o merged.h5 >out 2>&1
check "LoRA: merged, the loss is the same" test "$(loss_of merged.h5)" = "$(loss_of lora)"
check "LoRA: and not that of the base" test "$(loss_of merged.h5)" != "$(loss_of esm2.h5)"
"$CISTRON" plan deck.cfg data.train=esm2.store.h5 model.initialise_from=esm2.h5 lora.rank=4 >out 2>&1
check "LoRA: a plan has the number of trained parameters" test \
    "$(sed -n 's/^ *trained parameters *//p' out)" = \
    "$("$CISTRON" inspect lora/step_00000006.h5 | sed -n 's/^ *optim\/m tensors .* elements //p')"
adapted output.folder=lora train.steps=7 lora.rank=2
check "LoRA: another rank on a restart: code 2" codes_are 2 2
check "LoRA: is refused with the key" says "key lora.rank: 4 in the checkpoint, 2 now"
"$CISTRON" train deck.cfg data.train=esm2.store.h5 model.initialise_from=lora lora.rank=4 output.folder=lora.more >out 2>&1
check "LoRA: a new run goes on with the adapters" test "$(losses lora.more | head -n 1)" != "$(losses lora | head -n 1)"
# LoRA and a head of sequences, which is trained too
awk 'BEGIN { print "sequence,kind" } NR % 2 == 0 { print $1 "," NR % 3 }' protein.fa >kinds.csv
"$CISTRON" prepare --tokenizer esm2 --field sequence --labels kind -o kinds.h5 kinds.csv >/dev/null || exit 1
headed()
{
    "$CISTRON" "$1" deck.cfg data.train=kinds.h5 model.initialise_from=esm2.h5 model.head=sequence model.num_labels=3 \
        lora.rank=4 "${@:2}" >out 2>&1
}
headed train output.folder=headed
check "LoRA and a head: trained" test $? -eq 0
check "LoRA and a head: a folder is left" says "with the adapters merged"
headed plan
check "LoRA and a head: what is trained" test "$(sed -n 's/^ *trained parameters *//p' out)" = \
    "$("$CISTRON" inspect headed/step_00000003.h5 | sed -n 's/^ *optim\/m tensors .* elements //p')"
"$CISTRON" export --checkpoint headed --adapter -o none >out 2>&1
check "LoRA and a head: an adapter folder" test $? -eq 0
check "LoRA and a head: the head is in it" grep -q '"modules_to_save"' none/adapter_config.json
refused "LoRA: adapters, and a run without them" "key lora.rank: the file has adapters of rank 4" train deck.cfg \
    data.train=esm2.store.h5 model.initialise_from=lora output.folder=odd
refused "LoRA: adapters of other settings" "key lora.alpha: 8 in the file, 9 in the deck" train deck.cfg \
    data.train=esm2.store.h5 model.initialise_from=lora output.folder=odd lora.rank=4 lora.alpha=9
refused "LoRA: an unknown target" 'key lora.targets: "q_proj" is not a linear layer of a block of ESM-2' train deck.cfg \
    data.train=esm2.store.h5 model.initialise_from=esm2.h5 output.folder=odd lora.rank=4 lora.targets=q_proj
refused "LoRA: a target outside of blocks too" 'key lora.targets: "dense" also means lm_head.dense' train deck.cfg \
    data.train=esm2.store.h5 model.initialise_from=esm2.h5 output.folder=odd lora.rank=4 lora.targets=dense
refused "LoRA: optimizer state of a base" "has no adapters, and so no optimizer state of adapters" train deck.cfg \
    data.train=esm2.store.h5 model.initialise_from=esm2 output.folder=odd lora.rank=4 model.initialise_optimizer=true

# tensor FILE NAME: the bytes of a tensor in a safetensors file, in hexadecimal.
tensor()
{
    local header offsets
    header=$(od -An -tu8 -N8 "$1" | tr -d ' ')
    offsets=$(head -c $((header + 8)) "$1" | tail -c +9 | grep -o "\"$2\": *{[^}]*}" |
        sed 's/.*"data_offsets": *\[\([0-9]*\), *\([0-9]*\)\].*/\1 \2/')
    # shellcheck disable=SC2086
    set -- "$1" $offsets
    od -An -tx1 -v -j $((header + 8 + $2)) -N $(($3 - $2)) "$1"
}

# what is not trained goes through all of it unchanged, what is does not
for name in esm.contact_head.regression.weight esm.contact_head.regression.bias; do
    check "$name is there" test -n "$(tensor "$golden/esm2_tiny/model.safetensors" $name)"
    check "$name is as it was" cmp <(tensor "$golden/esm2_tiny/model.safetensors" $name) \
        <(tensor esm2/final_model/model.safetensors $name)
done
check "lm_head.bias is not" test "$(tensor "$golden/esm2_tiny/model.safetensors" lm_head.bias)" != \
    "$(tensor esm2/final_model/model.safetensors lm_head.bias)"

# all tensors of the trunk are the imported ones, bit for bit; those of the head are not
for name in $(head -c 20000 "$golden/amplify_tiny/model.safetensors" | tail -c +9 | grep -ao '"[a-z_0-9.]*": *{"dtype"' |
    cut -d '"' -f 2); do
    case $name in
        decoder.* | *layer_norm_2*) changed=1 ;;
        *) changed=0 ;;
    esac
    cmp -s <(tensor "$golden/amplify_tiny/model.safetensors" "$name") <(tensor frozen/final_model/model.safetensors "$name")
    check "frozen: $name" test $? -eq $changed
done

# once made it stays, and more steps make it again
again()
{
    ranks 2 train deck.cfg data.train=esm2.store.h5 model.initialise_from=esm2.h5 output.folder="$work/esm2" "$@"
}
cp -a esm2/final_model before
made=$(stat -c %i.%Y esm2/final_model)
(cd esm2 && touch deck.cfg.tmp-1 log.jsonl.tmp-22 final_model.h5.tmp final_model.h5.xxh3.tmp step_00000002.h5.tmp notes.tmp
    mkdir final_model.tmp-3 final_model.old-4 && touch final_model.tmp-3/config.json)
again
check "what killed runs left is removed" test "$(cd esm2 && echo *tmp* *old*)" = "notes.tmp *old*"
check "a finished run leaves the folder alone" test "$(stat -c %i.%Y esm2/final_model)" = "$made"
check "and says nothing of it" test "$(grep -c exported out)" -eq 0
# at the first of its files, and when all of them are there
for failing in 1 6; do
    export SHIM_FOLDER="$work/esm2" SHIM_MATCH=final_model.tmp SHIM_FAIL=rename:$failing:ENOSPC
    LD_PRELOAD="$abs_top_builddir/tests/shim.so" again train.steps=4
    unset SHIM_FOLDER SHIM_MATCH SHIM_FAIL
    check "rename $failing, a folder that cannot be created: code 1" codes_are 1 2
    check "rename $failing, is told" says "No space left on device"
    check "rename $failing, the one before stands" diff -r before esm2/final_model
    check "rename $failing, nothing is beside it" test "$(find esm2 -maxdepth 1 -name 'final_model*' | wc -l)" -eq 3
done
check "the model is there" test -f esm2/step_00000004.h5
again train.steps=4
check "started again, it is made" codes_are 0 2
check "with the new weights" test -n "$(cmp before/model.safetensors esm2/final_model/model.safetensors)"
check "nothing else is left" test "$(find esm2 -maxdepth 1 -name 'final_model*' | wc -l)" -eq 3

# An extended run that fails before its end, and is then found to have no more steps to do: what the run before left as
# final model and folder is made again, however new it looks.
cp -r esm2/final_model old
mkdir esm2/final_model.h5.tmp
again train.steps=5
check "a final model that cannot be written: code 1" codes_are 1 2
"$CISTRON" export --checkpoint esm2 -o newest >out 2>&1
check "export of that folder takes the later checkpoint" test $? -eq 0
rmdir esm2/final_model.h5.tmp
again train.steps=5
check "started again, it ends with 0" codes_are 0 2
check "and has exported" cmp newest/model.safetensors esm2/final_model/model.safetensors
check "that is no model of before" test -n "$(cmp old/model.safetensors newest/model.safetensors)"
"$CISTRON" export --checkpoint esm2/final_model.h5 -o final >out 2>&1
check "the final model is that of the last step" cmp newest/model.safetensors final/model.safetensors
rm -r esm2/final_model
mv old esm2/final_model
touch esm2/final_model
again train.steps=5
check "an older model in a newer folder is noticed" cmp newest/model.safetensors esm2/final_model/model.safetensors

# what no folder can say is refused before a step is done
ranks 2 train deck.cfg data.train=esm2.store.h5 output.folder=odd model.family=esm2 model.layers=1 model.hidden=32 \
    model.ffn=64 model.heads=4 model.norm_zero_centered=true
check "a model that cannot be exported: code 2" codes_are 2 2
check "names both keys" says "key checkpoint.export_final = true: not for this model: key model.norm_zero_centered = true"
ranks 2 train deck.cfg data.train=esm2.store.h5 output.folder=odd checkpoint.at_end=false model.family=esm2 model.layers=1 \
    model.hidden=32 model.ffn=64 model.heads=4
check "a folder of no final model: code 2" codes_are 2 2
check "names both keys of it" says "key checkpoint.export_final = true: needs a final model; set checkpoint.at_end = true"
finish
