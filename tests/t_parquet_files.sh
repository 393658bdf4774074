#!/bin/bash
# Parquet files give the records that were written: files in tests/golden, files that pyarrow writes in every
# combination, and the recipes' own; with integer ids of every type, empty row groups and nulls.
. "$abs_top_srcdir/tests/lib.sh"
python=$(transformers_python)
records=$abs_top_builddir/tests/records

# held: the small files hold what `expected` says, which python wrote without reading them.
held()
{
    local field pairs=()
    cd "$abs_top_srcdir/tests/golden/parquet" || return
    for file in dictionary_snappy PLAIN_gzip DELTA_BYTE_ARRAY_zstd DELTA_LENGTH_BYTE_ARRAY_lz4 \
        dictionary_uint32 PLAIN_int16 DELTA_BYTE_ARRAY_int64 DELTA_LENGTH_BYTE_ARRAY_uint64; do
        for field in plain null all_null list document.text messages.content maybe.parts; do
            pairs+=("$file.parquet" "$field")
        done
    done
    "$records" skip - "${pairs[@]}" | cmp - expected
}
check "the small files hold what was written, integers as ids" held

# reads WAY FILE WORDS: what the program says of a small file that is odd in one way
reads()
{
    (cd "$abs_top_srcdir/tests/golden/parquet" && "$records" "$1" - "$2.parquet" plain >"$work/out")
    says "$3"
}
must="names the records: it must contain strings or integers, but contains"
(cd "$abs_top_srcdir/tests/golden/parquet" && "$records" bytes - PLAIN_gzip.parquet null >"$work/out")
check "a null is an error" says 'PLAIN_gzip.parquet: row 1: column "null" is null; --skip-bad skips such records'
check "row groups without rows" reads bytes empty_groups "end empty_groups.parquet"
check "the records of the others" test "$(tr '\n' ' ' <"$work/out")" = "0 2 AC 1 2 GT end empty_groups.parquet "
check "no row group" reads bytes no_group "error 2 no_group.parquet: has no record"
check "no row group among others" reads skip no_group "end no_group"
check "two columns of one name" reads bytes twice 'twice.parquet: has two columns "plain"'
check "two columns of ids" reads bytes two_ids 'two_ids.parquet: has two columns "id"'
check "ids that are floats" reads bytes float_id "column \"id\" $must DOUBLE"
check "ids that are times" reads bytes time_id "column \"id\" $must decimal numbers, dates or times"
check "ids that are decimal numbers" reads bytes decimal_id "column \"id\" $must decimal numbers, dates or times"
check "ids that are lists" reads bytes list_id "column \"id\" $must a group"
check "ids that are structs" reads bytes struct_id "column \"id\" $must a group"
cp "$abs_top_srcdir"/tests/golden/parquet/{no_group,empty_groups}.parquet "$work"
: >"$work/none.jsonl"
"$CISTRON" prepare --tokenizer nucleotide --field plain -o "$work/x.h5" "$work"/{none.jsonl,no_group.parquet,empty_groups.parquet} \
    >"$work/out" 2>&1
check "shards without a record among others: exit code 0" test $? -eq 0
check "their records" says "4 bases"
check "one warning" says "warning: 2 of 3 files have no record; the first of these files is $work/none.jsonl"

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

"$CISTRON" prepare --tokenizer nucleotide --force -o "$work/x.h5" - \
    <"$abs_top_srcdir/tests/golden/parquet/PLAIN_gzip.parquet" >"$work/out" 2>&1
check "standard input is refused" says "<stdin>: a file of this format is read from its end: give its path, not a pipe"

"$python" "$abs_top_srcdir/tests/interop/parquet_files.py" "$records" "$work"
status=$?
check "every combination that pyarrow writes" test $status -eq 0 -o $status -eq 77
finish
