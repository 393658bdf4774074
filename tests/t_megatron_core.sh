#!/bin/bash
# Large Megatron data sets have the order and blends of megatron-core itself, where Python has it (PYTHONPATH may name
# the unpacked wheel); tests/golden/megatron holds small ones.
. "$abs_top_srcdir/tests/lib.sh"
needs python3

"$(transformers_python)" "$abs_top_srcdir/tests/golden/make_megatron.py" "$work" large 2>"$work/err"
status=$?
[ $status -eq 77 ] && exit 77
check "megatron-core makes its data sets: $(tail -1 "$work/err")" test $status -eq 0
check "the same rows come of them" "$abs_top_builddir/tests/t_megatron" "$work"
finish
