#!/bin/bash
# An adapter of peft is imported with its base: the scores are peft's, with the adapter beside the weights and merged
# into them. Exported again, the tensors have the same bits; peft, where it is installed, loads the folder with the same
# logits. Refused: an adapter of another base, with NaN, of a kind that is not computed, on a base that has one, and a
# folder without --base.
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

python=$(transformers_python)
if "$python" -c 'import peft, transformers' 2>/dev/null; then
    "$CISTRON" export --checkpoint base.h5 -o base >out 2>&1
    "$python" - base "$golden/lora_llama" adapter >out 2>&1 <<END
import sys, torch, transformers, peft
def logits(adapter):
    model = transformers.LlamaForCausalLM.from_pretrained(sys.argv[1])
    return peft.PeftModel.from_pretrained(model, adapter)(torch.arange(65, 85)[None]).logits
assert torch.equal(logits(sys.argv[2]), logits(sys.argv[3]))
END
    check "peft loads it, with the same logits" test $? -eq 0
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
