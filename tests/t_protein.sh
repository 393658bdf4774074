#!/bin/bash
# `cistron prepare` handles proteins: stop symbols, lower case, unknown characters, empty records, files of the wrong
# kind, special tokens in FASTA. Count models of real proteins have independently computed values; RNA gives the store
# of DNA.
# shellcheck source=tests/lib.sh
. "${srcdir:-.}/tests/lib.sh"

# prepare NAME ARGUMENTS...: a store $work/NAME.h5; all output in $work/out.
prepare()
{
    local name=$1
    shift
    "$CISTRON" prepare --force -o "$work/$name.h5" "$@" >"$work/out" 2>&1
}

# checksum NAME: of its store, as the last prepare said.
checksum()
{
    sed -n "s/.*$1.h5: .*checksum //p" "$work/out"
}

# same_store TEXT FILE ARGUMENTS...: FILE gives the store that $work/plain.fa gives.
same_store()
{
    local text=$1
    shift
    prepare other --tokenizer esm2 "$@"
    check "$text" test "$(checksum other)" = "$plain"
}

quiet()
{
    ! grep -q 'warning:' "$work/out"
}

printf '>a one\nMKTAYIAKQR\nQISFVKSHFS\n>b\nGAVLMFWPSTCYNQDEKRH\n>c\nXBZUO\n' >"$work/plain.fa"
prepare plain --tokenizer esm2 "$work/plain.fa"
plain=$(checksum plain)
check "a sum is printed" test -n "$plain"
check "residues are counted" says "44 residues (100.00 %) in 3 sequences"
check "nothing to complain about" quiet

gzip -c "$work/plain.fa" >"$work/plain.fa.gz"
same_store "gzip" "$work/plain.fa.gz"
printf '{"record":"a","seq":"MKTAYIAKQRQISFVKSHFS"}\n{"record":"b","seq":"GAVLMFWPSTCYNQDEKRH"}\n{"record":"c","seq":"XBZUO"}\n' \
    >"$work/plain.jsonl"
same_store "JSON lines" --field seq "$work/plain.jsonl"
printf '>a\nMKTAYIAKQR\nQISFVKSHFS*\n>b\nGAVLMFWPSTCYNQDEKRH\n*\n>none\n*\n>c\nXBZUO\n>empty\n' >"$work/stops.fa"
same_store "stop symbols at ends are dropped" "$work/stops.fa"
check "dropped stops are counted" says "3 stop symbols '*' at ends of records dropped"
check "records without residues are counted" says "2 empty records skipped"
check "a dropped stop is no unknown character" quiet
tr 'A-Z' 'a-z' <"$work/plain.fa" >"$work/lower.fa"
same_store "--case upper" --case upper "$work/lower.fa"
check "--case upper leaves nothing unknown" quiet

prepare lower --tokenizer esm2 "$work/lower.fa"
check "lower case is no token" says "44 of 44 characters are not tokens of esm2 and became <unk>: 44 lower-case letters (--case upper"
printf '>a\nMK*LV1J\nmk\n>b\nAV*\nJ\n' >"$work/odd.fa"
prepare odd --tokenizer esm2 "$work/odd.fa"
check "each unknown character is named" says \
    "7 of 13 characters are not tokens of esm2 and became <unk>: 2 '*', 1 '1', 2 'J', 2 lower-case letters (--case upper"
check "records of little else are named" says \
    "unknown characters (no token of the model) are 56 % of a, and more than 10 % of 1 other records"
odd=$(checksum odd)
sed 's/[*1mk]/J/g' "$work/odd.fa" >"$work/unknown.fa"
prepare unknown --tokenizer esm2 "$work/unknown.fa"
check "all of them are one token" test "$(checksum unknown)" = "$odd"
prepare amplify --tokenizer amplify "$work/plain.fa"
check "AMPLIFY has no X, Z, U, O" says "4 of 44 characters are not tokens of amplify and became <unk>: 1 'O', 1 'U', 1 'X', 1 'Z'"
printf '>a\n*\n>b\n\n' >"$work/nothing.fa"
prepare nothing --tokenizer esm2 "$work/nothing.fa"
check "a file of stops alone is refused" test $? -eq 2
check "it says why" says "no record has a sequence"

genome 1 3000 50 >"$work/genome.fa"
prepare genome --tokenizer esm2 "$work/genome.fa"
check "a genome is no protein" says "100.0 % of the residues are A, C, G, T, U or N"
prepare genome --tokenizer nucleotide "$work/genome.fa"
check "it is one for nucleotide" quiet
genome_sum=$(checksum genome)
sed '/>/!s/.\{7\}$/\L&/' "$work/genome.fa" >"$work/masked.fa"
prepare masked --tokenizer nucleotide "$work/masked.fa"
check "a soft-masked genome is read as capitals" test "$(checksum masked)" = "$genome_sum"
lower=$(grep -v '>' "$work/masked.fa" | tr -cd a-z | wc -c)
check "they are counted" says "$lower of 3050 letters"
check "that is no warning" quiet
prepare masked --tokenizer nucleotide --case keep "$work/masked.fa"
check "--case keep keeps them" test "$(checksum masked)" != "$genome_sum"
check "and is silent" quiet
check "about their number, too" test "$(grep -c 'lower case' "$work/out")" -eq 0
prepare masked --tokenizer nucleotide --case lower "$work/masked.fa"
check "another case is refused" test $? -eq 2
check "the two are named" says "--case lower: must be upper"
printf '>a\nACGTNRYACGT\n>odd\nACG@@ACG@ACG-\n>gap\nNNNNNNNNNNNN\n' >"$work/codes.fa"
prepare codes --tokenizer nucleotide "$work/codes.fa"
check "a record of unknown letters is named" says "the ambiguity codes of DNA) are 31 % of odd;"
check "all letters but A C G T N are counted and named" says \
    "6 of 36 bases are not A, C, G, T or N: 1 '-', 3 '@', 1 'R', 1 'Y'; each keeps its own token, which is a label only with data.mask_degenerate = false"
{ cat "$work/genome.fa" && printf '>few\nACGTrACGT\n'; } >"$work/few.fa"
prepare few --tokenizer nucleotide "$work/few.fa"
check "a single one, too, as it is read" says "1 of 3059 bases are not A, C, G, T or N: 1 'R';"
prepare few --tokenizer nucleotide --case keep "$work/few.fa"
check "and with its case where that is kept" says "1 of 3059 bases are not A, C, G, T or N: 1 'r';"
tr Tt Uu <"$work/masked.fa" >"$work/rna.fa"
prepare rna --tokenizer nucleotide "$work/rna.fa"
check "RNA is read as DNA" test "$(checksum rna)" = "$genome_sum"
check "its letters are counted" says "$(grep -v '>' "$work/rna.fa" | tr -cd Uu | wc -c) of 3050 bases are U, as in RNA, and read as T"
check "that is no warning" quiet
prepare rna --tokenizer nucleotide --case keep "$work/rna.fa"
rna_kept=$(checksum rna)
prepare masked --tokenizer nucleotide --case keep "$work/masked.fa"
check "RNA in two cases is DNA in two cases" test "$rna_kept" = "$(checksum masked)"
prepare protein_u --tokenizer esm2 "$work/plain.fa"
check "U of proteins stays selenocysteine" test "$(checksum protein_u)" = "$plain"
printf '>a\nMKT<mask>AYI\n' >"$work/special.fa"
for tokenizer in esm2 nucleotide; do
    prepare special --tokenizer $tokenizer "$work/special.fa"
    check "a special token in FASTA is refused" test $? -eq 2
    check "it is named" says "special.fa:2: \"<mask>\" within a line of sequence: special tokens cannot be written in FASTA"
    prepare special --tokenizer $tokenizer --input-format lines "$work/special.fa"
    check "in other formats its characters are taken one by one, and that is said" says \
        "; special tokens such as <mask> are not read in sequences, but character by character"
done
prepare proteins --tokenizer nucleotide "$work/plain.fa"
check "proteins are no genome" says "of the bases have letters of no nucleotide"
check "and neither has the other's words" says "44 bases"

"$CISTRON" baseline "$work/plain.h5" "$work/genome.h5" >"$work/out" 2>&1
check "a baseline of two kinds is refused" test $? -eq 2
check "both are named" says "plain.h5 has esm2 tokens, but $work/genome.h5 has nucleotide tokens"
"$CISTRON" baseline --orders 5 "$work/plain.h5" "$work/plain.h5" >"$work/out" 2>&1
check "too high an order is refused" test $? -eq 2
check "the highest is named" says "between 0 and 4 for esm2 tokens"
"$CISTRON" baseline "$work/genome.h5" "$work/genome.h5" >"$work/out" 2>&1
check "orders of a genome" test "$(sed 's/ .*//' "$work/out" | tr '\n' ' ')" = "order-3 order-6 composition "
check "bases are called bases" says "nats per base over 3050 bases"

# Ten thousand proteins, the first 500 held out. The figures were computed apart, from the letters, in Python.
uniref=${CISTRON_SHARED:-../shared}/data/uniref_train.fasta.gz
if [ -r "$uniref" ]; then
    zcat "$uniref" | awk -v work="$work" '/^>/ { n++ } { print > (work (n <= 500 ? "/valid.fa" : "/train.fa")) }'
    prepare valid --tokenizer esm2 "$work/valid.fa"
    check "the held-out proteins" says "169751 residues (100.00 %) in 500 sequences"
    check "real proteins hold nothing odd" quiet
    prepare train --tokenizer esm2 "$work/train.fa"
    "$CISTRON" baseline "$work/train.h5" "$work/valid.h5" >"$work/out" 2>&1
    check "unigrams" says "order-0 2.8691 nats per residue over 169751 residues"
    check "bigrams" says "order-1 2.8631 nats per residue over 169751 residues"
    check "composition" says "composition 2.8208 nats per residue over 169751 residues"
    check "unigrams that know how it is masked" says "masked-order-0 2.6699 nats per residue over 169751 residues"
else
    echo "$uniref is not at hand: its part is skipped"
fi
finish
