#!/bin/bash
# Ids of 6 MB of text match Hugging Face's tokenizers and tiktoken, for 20 pre-tokenizers and vocabularies that lack
# bytes, vocab.json with merges.txt, WordPiece, tables of words and k-mers, vocab.txt, and models of SentencePiece.
# CISTRON_LLAMA3_TOKENIZER=FILE adds Llama 3's tokenizer.model. Skipped where Python lacks tokenizers.
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
"$python" "$abs_top_srcdir/tests/interop/word_ids.py" "$abs_top_builddir/tests/tokenize" >"$work/out" 2>&1
status=$?
[ $status -eq 0 ] || cat "$work/out"
check "no ids of words differ" test $status -eq 0
tail -n 1 "$work/out"
"$python" "$abs_top_srcdir/tests/interop/spm_ids.py" "$abs_top_builddir/tests/tokenize" >"$work/out" 2>&1
status=$?
[ $status -eq 0 ] || [ $status -eq 77 ] || cat "$work/out"
check "no ids of SentencePiece differ" test $status -eq 0 -o $status -eq 77
tail -n 1 "$work/out"
finish
