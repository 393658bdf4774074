#!/bin/bash
# JSON and CSV files of Python's own modules and of pyarrow give the records that were written.
. "$abs_top_srcdir/tests/lib.sh"
needs python3
check "JSON and CSV that Python writes" "$(transformers_python)" "$abs_top_srcdir/tests/interop/record_files.py" \
    "$abs_top_builddir/tests/records" "$work"
finish
