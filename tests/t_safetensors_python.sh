#!/bin/bash
# The Python package safetensors reads the files that bridge/safetensors_writer.h writes. Skipped without it.
. "$abs_top_srcdir/tests/lib.sh"
needs python3
python=$(transformers_python)

check "models are written" "$abs_top_builddir/tests/t_safetensors_writer" "$work"
"$python" "$abs_top_srcdir/tests/interop/read_safetensors.py" "$work"
status=$?
[ $status -eq 77 ] && [ "$failures" -eq 0 ] && exit 77
check "the Python package reads what was written" test $status -eq 0
finish
