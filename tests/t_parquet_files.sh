#!/bin/bash
# Parquet files: the small ones that lie here, what pyarrow writes in every combination, the recipes' own; in a store,
# what the same records as FASTA are.
. "$abs_top_srcdir/tests/lib.sh"
python=$(transformers_python)
records=$abs_top_builddir/tests/records

# held: the small files hold what `expected` says, which python wrote without reading them.
held()
{
    local field pairs=()
    cd "$abs_top_srcdir/tests/golden/parquet" || return
    for file in dictionary_snappy PLAIN_gzip DELTA_BYTE_ARRAY_zstd DELTA_LENGTH_BYTE_ARRAY_lz4; do
        for field in plain null all_null list document.text messages.content maybe.parts; do
            pairs+=("$file.parquet" "$field")
        done
    done
    "$records" bytes - "${pairs[@]}" | cmp - expected
}
check "the small files hold what was written" held

# as_fasta PARQUET FASTA FIELD TOKENIZER: one store from both.
as_fasta()
{
    "$CISTRON" prepare --tokenizer "$4" --field "$3" --force -o "$work/p.h5" "$1" >"$work/p" &&
        "$CISTRON" prepare --tokenizer "$4" --force -o "$work/f.h5" "$2" >"$work/f" &&
        [ "$(sed -n 's/.*checksum //p' "$work/p")" = "$(sed -n 's/.*checksum //p' "$work/f")" ]
}
data=$CISTRON_SHARED/data
if [ -r "$data/uniref_train.parquet" ]; then
    check "UniRef's records" as_fasta "$data/uniref_train.parquet" "$data/uniref_train.fasta.gz" sequence esm2
else
    echo "the recipes' own files are not at hand"
fi

"$CISTRON" prepare --tokenizer nucleotide -o "$work/x.h5" - \
    <"$abs_top_srcdir/tests/golden/parquet/PLAIN_gzip.parquet" >"$work/out" 2>&1
check "standard input is refused" says "<stdin>: a file of this format is read from its end: give its path, not a pipe"

"$python" "$abs_top_srcdir/tests/interop/parquet_files.py" "$records" "$work"
status=$?
check "every combination that pyarrow writes" test $status -eq 0 -o $status -eq 77
finish
