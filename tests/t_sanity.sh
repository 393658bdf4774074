#!/bin/bash
# The recipes' sanity runs learn. A tiny Llama overfits five periodic sequences within 250 steps: under 0.1 nats on
# their second halves, where a model without memory stays at 1.1. ESM-2's deck, made tiny, learns the frequencies of
# residues within 60 steps: under 2.93 nats on masked residues, where a uniform guess has ln 33 = 3.5.
. "$abs_top_srcdir/tests/lib.sh"

# periods 4, 4, 4, 4, 2 and lengths 1200 to 5000, as test_genomic_sequences of the recipes
periodic()
{
    awk -v from="$1" 'BEGIN {
        split("ATCG GCTA TTAA CCGG AT", unit, " "); split("1200 1800 2400 3000 5000", length_of, " ")
        for (r = 1; r <= 5; r++) {
            print ">sequence" r; line = ""
            for (i = int(from * length_of[r]); i < length_of[r]; i++) line = line substr(unit[r], i % length(unit[r]) + 1, 1)
            print line
        } }'
}
periodic 0 >"$work/whole.fa"
periodic 0.5 >"$work/second.fa"
if [ -f "$CISTRON_SHARED/data/test_genomic_sequences.fasta" ]; then
    check "the sequences are the recipe's" \
        test "$(grep -v '>' "$work/whole.fa")" = "$(awk '/^>/ { if (s) print s; s = ""; next } { s = s $0 } END { print s }' \
            "$CISTRON_SHARED/data/test_genomic_sequences.fasta")"
fi
"$CISTRON" prepare --tokenizer nucleotide -o "$work/whole.h5" "$work/whole.fa" >/dev/null || exit 1
"$CISTRON" prepare --tokenizer nucleotide -o "$work/second.h5" "$work/second.fa" >/dev/null || exit 1
cat >"$work/deck.cfg" <<END
model = { layers = 2; hidden = 64; ffn = 128; heads = 2; };
data = { train = "$work/whole.h5"; valid = "$work/second.h5"; row_tokens = 256; overlap = 200; };
train = { steps = 250; global_batch = 4; micro_batch = 2; };
optimizer = { lr = 3e-3; };
schedule = { warmup = 10; };
validation = { rows = 0; };
log = { every = 50; };
output = { folder = "$work/run"; };
END
ranks 2 train "$work/deck.cfg"
check "the run ends with 0" codes_are 0 2
first=$(losses "$work/run" | head -n 1 | cut -d ' ' -f 2)
loss=$(sed -n 's/.*"event":"validation".*"loss":\([^,]*\),.*/\1/p' "$work/run/log.jsonl")
echo "loss $first at the first step, $loss nats on second halves after 250"
check "it starts from ignorance" awk -v x="$first" 'BEGIN { exit !(x > 4) }'
check "under 0.1 nats on the second halves" awk -v x="$loss" 'BEGIN { exit !(x < 0.1) }'

proteins="$CISTRON_SHARED/data/uniref_train.fasta.gz"
if [ ! -f "$proteins" ]; then
    echo "not run: ESM-2's part needs $proteins"
    finish
fi
deck="$abs_top_srcdir/input/esm2_l0_sanity.cfg"
"$CISTRON" prepare --tokenizer esm2 --split train:0.95,valid:0.05 -o "$work/p.h5" "$proteins" >/dev/null || exit 1
"$CISTRON" prepare --tokenizer esm2 -o "$work/all.h5" "$proteins" >/dev/null || exit 1
"$CISTRON" plan "$deck" data.train="$work/all.h5" device.memory=100 >"$work/out"
check "the tokens of an epoch are the recipe's" grep -Eq '^  tokens an epoch +3187864$' "$work/out"
ranks 2 train "$deck" data.train="$work/p.train.h5" data.valid="$work/p.valid.h5" output.folder="$work/masked" \
    model.layers=2 model.hidden=64 model.ffn=256 model.heads=4 model.kv_heads=4 data.row_tokens=256 \
    train.steps=60 train.global_batch=8 train.micro_batch=4 optimizer.lr=4e-3 schedule.warmup=10 device.threads=1
check "ESM-2's deck ends with 0" codes_are 0 2
first=$(losses "$work/masked" | head -n 1 | cut -d ' ' -f 2)
loss=$(sed -n 's/.*"event":"validation".*"loss":\([^,]*\),.*/\1/p' "$work/masked/log.jsonl")
echo "masked residues: loss $first at the first step, $loss nats on others after 60"
check "it starts from ignorance" awk -v x="$first" 'BEGIN { exit !(x > 3.4 && x < 3.7) }'
check "under 2.93 nats, and not so low as if it saw the answers" awk -v x="$loss" 'BEGIN { exit !(x > 2.7 && x < 2.93) }'
finish
