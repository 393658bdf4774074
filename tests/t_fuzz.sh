#!/bin/bash
# Each fuzz target survives a short seeded run, and the target with a deliberate fault is caught. tests/fuzz/libfuzzer
# is for long runs.
. "$abs_top_srcdir/tests/lib.sh"

# fuzz TARGET INPUTS: output in $work/out; what ended the target is kept in $work
fuzz()
{
    timeout 120 "$abs_top_builddir/tests/fuzz/fuzz_$1" -n "$2" -s 1 -o "$work" >"$work/out" 2>&1
}

survives()
{
    fuzz "$@" && return
    tail -n 40 "$work/out" >&2
    return 1
}

check "FASTA, FASTQ, GenBank, 2bit, JSON lines, text" survives records 2000
check "Parquet files" survives parquet 100000
check "decks" survives deck 6000
check "side files" survives side 10000
check "logs" survives log 1500
check "checkpoints" survives checkpoint 3000
check "token stores" survives store 3000
check "tokenizers" survives tokenizer 5000
check "Megatron data sets" survives megatron 20000
check "safetensors" survives safetensors 100000

fuzz planted 3000
check "a planted fault is found" test $? -eq 1
kept=$(ls "$work" | grep -m 1 planted-fault)
check "and its input kept" test -n "$kept"
"$abs_top_builddir/tests/fuzz/fuzz_planted" -n 0 -o "$work" "$work/$kept" >"$work/out" 2>&1
check "which finds it again" test $? -eq 1
finish
