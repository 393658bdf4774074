#!/bin/bash
# An adapter of peft is imported with its base: the scores are peft's, with the adapter beside the weights and merged
# into them. Exported again, the tensors have the same bits; peft, where it is installed, loads the folder with the same
# logits. An adapter of a classifier brings its head (modules_to_save): its loss is peft's. Refused: an adapter of
# another base, with NaN, of a kind that is not computed, on a base that has one, a folder without --base, and a head
# without its output layer.
. "$abs_top_srcdir/tests/lib.sh"
golden="$abs_top_srcdir/tests/golden"
cd "$work" || exit 1
cp "$golden/eval_llama.h5" base.h5

# scores FILE: each record's name and sum of log-probabilities
scores()
{
    "$CISTRON" eval --force --checkpoint "$1" --fasta "$golden/eval_llama.fa" --context 512 --overlap 200 --case keep \
        -o out.json >out 2>&1
    sed -n 's/.*"seq_name": "\([a-z]*\)",/\1/p; s/.*"sum_log_prob": \([-0-9.e]*\),/\1/p' out.json |
        awk '/^[a-z]/ { name = $1 } /^[-0-9]/ { print name, $1 }'
}

# near WANTED FOUND: two lists of names and numbers, to 1e-6
near()
{
    LC_ALL=C awk 'NR == FNR { want[$1] = $2; n++; next }
        { d = $2 - want[$1]; if (d < 0) d = -d; if (!($1 in want) || !(d <= 1e-6 * (1 - want[$1]))) wrong++; n-- }
        END { exit wrong > 0 || n != 0 }' "$1" "$2"
}

# content FILE: the bytes of a safetensors file's data, in hexadecimal
content()
{
    od -An -tx1 -v -j $((8 + $(od -An -tu8 -N8 "$1" | tr -d ' '))) "$1"
}

# rejected TEXT WORDS ARGUMENTS...: cistron import ends with code 2 and the words, and makes no file
rejected()
{
    local text=$1 words=$2
    shift 2
    "$CISTRON" import "$@" -o odd.h5 >out 2>&1
    check "$text: code 2" test $? -eq 2
    check "$text: is said" says "$words"
    check "$text: no file" test ! -e odd.h5
}

"$CISTRON" import "$golden/lora_llama" --base base.h5 -o both.h5 >out 2>&1
check "imported" test $? -eq 0
check "says how many" says "and 2048 of adapters of rank 4"
scores both.h5 >found
check "the scores are peft's" near "$golden/lora_llama/scores.txt" found
scores base.h5 >plain
check "the base's are not" test "$(near "$golden/lora_llama/scores.txt" plain; echo $?)" -eq 1
"$CISTRON" export --checkpoint both.h5 -o merged >out 2>&1
check "merged" test $? -eq 0
"$CISTRON" import merged -o merged.h5 >out 2>&1
scores merged.h5 >found
check "merged, the scores are peft's" near "$golden/lora_llama/scores.txt" found

"$CISTRON" export --checkpoint both.h5 --adapter -o adapter >out 2>&1
check "exported as an adapter" test $? -eq 0
check "it has two files" test "$(cd adapter && echo *)" = "adapter_config.json adapter_model.safetensors"
"$CISTRON" import adapter --base base.h5 -o again.h5 >out 2>&1
check "that imports" test $? -eq 0
"$CISTRON" export --checkpoint again.h5 --adapter -o again >out 2>&1
check "the tensors have the same bits" cmp <(content adapter/adapter_model.safetensors) \
    <(content again/adapter_model.safetensors)
scores again.h5 >found
check "the scores are still peft's" near "$golden/lora_llama/scores.txt" found

sed 's/"lora_dropout": 0.0/"lora_dropout": 0.25/' adapter/adapter_config.json >config.json
cp -r adapter dropped && cp config.json dropped/adapter_config.json
"$CISTRON" import dropped --base base.h5 -o dropped.h5 >out 2>&1
check "an adapter with dropout imports" test $? -eq 0
"$CISTRON" export --checkpoint dropped.h5 --adapter -o dropped_again >out 2>&1
check "its dropout is exported" grep -q '"lora_dropout": 0.25' dropped_again/adapter_config.json

# A classifier, whose head peft saved with the adapter.
head="$golden/lora_esm2_head"
"$CISTRON" import "$golden/esm2_tiny" -o esm2.h5 >out 2>&1
"$CISTRON" import "$head" --base esm2.h5 -o classifier.h5 >out 2>&1
check "an adapter with a head imports" test $? -eq 0
"$CISTRON" prepare --tokenizer esm2 --field sequence --labels kind -o labels.h5 "$head/labels.csv" >out 2>&1
cat >deck.cfg <<END
model = { initialise_from = "classifier.h5"; };
data = { train = "labels.h5"; format = "padded"; row_tokens = 64; };
train = { steps = 1; global_batch = 8; micro_batch = 4; };
lora = { rank = 4; alpha = 6.0; targets = "query,value"; };
log = { every = 1; };
device = { kind = "cpu"; threads = 1; };
END
"$CISTRON" train deck.cfg output.folder=tuned >out 2>&1
check "it is trained" test $? -eq 0
check "its loss is peft's" close_losses <(losses tuned) <(sed 's/^/1 /' "$head/loss.txt") 1e-5
"$CISTRON" export --checkpoint classifier.h5 --adapter -o head >out 2>&1
check "exported with its head" says "adapters of rank 4, 1024 parameters in fp32, and the head, for peft"
check "the head's modules are named" test "$(tr -d ' \n' <head/adapter_config.json | grep -o '"modules_to_save":[^]]*]')" = \
    '"modules_to_save":["esm.encoder.emb_layer_norm_after","classifier"]'
check "its task is named" grep -q '"task_type": "SEQ_CLS"' head/adapter_config.json
"$CISTRON" import head --base esm2.h5 -o head.h5 >out 2>&1
"$CISTRON" export --checkpoint head.h5 --adapter -o head_again >out 2>&1
check "with the head the tensors have the same bits" cmp <(content head/adapter_model.safetensors) \
    <(content head_again/adapter_model.safetensors)
"$CISTRON" export --checkpoint tuned --adapter -o tuned_adapter >out 2>&1
check "a trained head is exported" test $? -eq 0
cp -r "$head" tokens && sed 's/"SEQ_CLS"/"TOKEN_CLS"/' "$head/adapter_config.json" >tokens/adapter_config.json
rejected "a head without its output layer" \
    "is an adapter of a classifier without its base_model.model.classifier.weight; its head would be random" tokens --base esm2.h5
rejected "a head of another base" "it is an adapter of another base" head --base base.h5

python=$(transformers_python)
"$CISTRON" export --checkpoint base.h5 -o base >out 2>&1
"$python" - base "$golden/lora_llama" adapter "$golden/esm2_tiny" "$head" head >out 2>&1 <<END
import sys
try:
    import torch, transformers, peft
except ImportError:
    sys.exit(77)
def same(family, folder, tokens, adapters, **options):
    def logits(adapter):
        model = family.from_pretrained(folder, **options)
        return peft.PeftModel.from_pretrained(model, adapter).eval()(tokens[None]).logits
    return torch.equal(*map(logits, adapters))
llama, of_llama, own_llama, esm, of_esm, own_esm = sys.argv[1:]
print("language model", same(transformers.LlamaForCausalLM, llama, torch.arange(65, 85), (of_llama, own_llama)))
print("head", same(transformers.EsmForSequenceClassification, esm, torch.arange(4, 24), (of_esm, own_esm), num_labels=3))
END
if [ $? -ne 77 ]; then
    check "peft loads it, with the same logits" grep -qx "language model True" out
    check "peft loads a head, with the same logits" grep -qx "head True" out
fi

rejected "without its base" "is an adapter; name the checkpoint of its base with --base" "$golden/lora_llama"
rejected "on a base with adapters" "has adapters already" adapter --base both.h5
"$CISTRON" import "$golden/esm2_tiny" -o esm2.h5 >out 2>&1
rejected "on another family" "is an adapter of another base" adapter --base esm2.h5
cat >deck.cfg <<END
model = { layers = 3; hidden = 32; ffn = 48; heads = 4; kv_heads = 2; vocabulary = 256; };
data = { source = "random"; row_tokens = 64; };
train = { steps = 1; global_batch = 1; micro_batch = 1; };
device = { threads = 1; };
END
"$CISTRON" train deck.cfg output.folder=three >out 2>&1
rejected "on another number of layers" "model.layers.2.self_attn.q_proj.lora_A.weight: is missing" adapter --base three
"$CISTRON" train deck.cfg model.layers=2 output.folder=two >out 2>&1
rejected "on other weights" "is an adapter of another base: the weights of --base two are not those" adapter --base two
for key in '"use_dora": true' '"modules_to_save": ["lm_head"]' '"rank_pattern": {"q_proj": 8}' '"bias": "all"' \
    '"init_lora_weights": "pissa"'; do
    rm -rf changed && cp -r adapter changed
    name=${key%%:*}
    sed "/$name:/d; s/\"peft_type\"/$key, \"peft_type\"/" adapter/adapter_config.json >changed/adapter_config.json
    rejected "$key" "key ${name//\"/}:" changed --base base.h5
done
rm -rf changed && cp -r adapter changed
end=$(stat -c %s adapter/adapter_model.safetensors)
printf '\x00\x00\xc0\x7f' | dd of=changed/adapter_model.safetensors bs=1 seek=$((end - 8)) conv=notrunc 2>/dev/null
rejected "NaN" "has NaN or infinite values" changed --base base.h5
"$CISTRON" export --checkpoint base.h5 --adapter -o none >out 2>&1
check "an export of no adapters: code 2" test $? -eq 2
check "is said" says "has no adapters"
finish
