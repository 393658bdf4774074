#!/bin/bash
# Ids of texts by Cistron beside those of Hugging Face's tokenizers and of tiktoken.
. "$abs_top_srcdir/tests/lib.sh"
needs python3
python=$(transformers_python)

"$python" "$abs_top_srcdir/tests/interop/bpe_ids.py" "$abs_top_builddir/tests/tokenize" ${CISTRON_LLAMA3_TOKENIZER:-} \
    >"$work/out" 2>&1
status=$?
[ $status -eq 0 ] || cat "$work/out"
[ $status -eq 77 ] && exit 77
check "no ids differ" test $status -eq 0
tail -n 1 "$work/out"
finish
