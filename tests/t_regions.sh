#!/bin/bash
# `cistron prepare --regions` takes the regions of a BED file as records, on their strands, of FASTA and 2bit alike: the
# stores are those of the regions cut out by hand. Other lines are refused with their number.
. "$abs_top_srcdir/tests/lib.sh"

# prepare NAME ARGUMENTS...
prepare()
{
    local name=$1
    shift
    "$CISTRON" prepare --tokenizer nucleotide --case keep -o "$work/$name.h5" "$@" >"$work/out" 2>&1
}
golden=$abs_top_srcdir/tests/golden/sequences
cp "$golden/2bit.fa" "$work/genome.fa"
chr1=$(sed -n 2p "$work/genome.fa") chr3=$(sed -n 8p "$work/genome.fa")
{
    printf '# of no use\ntrack name=x\n\nbrowser position chr1\n'
    printf 'chr3_random\t0\t67\nchr1\t10\t40\tgene1\t0\t-\nchr1\t0\t1\t.\t0\t+\n'
    printf 'chr1 5 15 gene2\r\nchr1\t10\t40\tagain\t3.5\t.\textra\tcolumns\n'
} >"$work/r.bed"
turned()
{
    rev <<<"$1" | tr ACGTacgt TGCAtgca
}
# in the order of the records, and in a record in that of the BED file
{
    printf '>gene1\n%s\n' "$(turned "${chr1:10:30}")"
    printf '>chr1:0-1\n%s\n' "${chr1:0:1}"
    printf '>gene2\n%s\n' "${chr1:5:10}"
    printf '>again\n%s\n' "${chr1:10:30}"
    printf '>chr3_random:0-67\n%s\n' "$chr3"
} >"$work/wanted.fa"
prepare wanted "$work/wanted.fa"
# a store without the names and checksums of its sources, and without its own: what inspect says, and its arrays
arrays()
{
    grep -aoE "gene[12]|again|chr1:0-1|chr3_random:0-67|${chr1:10:30}|$(turned "${chr1:10:30}")" "$1"
    "$CISTRON" inspect --json "$1" | grep -E '"(tokens|sequences|bases)"'
}
for input in "$work/genome.fa" "$golden/genome.2bit"; do
    prepare regions --force --regions "$work/r.bed" "$input"
    check "${input##*.}: ends with 0" test $? -eq 0
    check "${input##*.}: nothing to warn of" test -z "$(grep warning "$work/out" | grep -v lower)"
    check "${input##*.}: five records" grep -qE ' 138 bases .* in 5 sequences' "$work/out"
    check "${input##*.}: the names and letters" cmp <(arrays "$work/regions.h5") <(arrays "$work/wanted.h5")
done
gzip -c "$work/r.bed" >"$work/r.bed.gz"
prepare zipped --regions "$work/r.bed.gz" "$work/genome.fa"
check "compressed regions" cmp <(arrays "$work/zipped.h5") <(arrays "$work/wanted.h5")
printf 'chr9\t1\t2\nchr2\t1\t4\n' >"$work/some.bed"
prepare some --regions "$work/some.bed" "$work/genome.fa"
check "missing records are warned of" says "warning: $work/some.bed: 1 of 2 regions are of records that the input does not have"

# wrong WORDS BED [ARGUMENT]...
wrong()
{
    local words=$1
    printf "$2" >"$work/wrong.txt"
    shift 2
    prepare bad --regions "$work/wrong.txt" "$@" "$work/genome.fa"
    check "$words: exit code 2" test $? -eq 2
    check "$words: is said" says "$words"
    check "$words: nothing is left" test -z "$(compgen -G "$work/bad.*")"
}
wrong "wrong.txt:1: must be a record, a start from 0 and a larger end" 'chr1\t5\n'
wrong "wrong.txt:2: must be a record, a start from 0 and a larger end" 'chr1\t5\t6\nchr1\t7\t7\n'
wrong "wrong.txt:1: must be a record" 'chr1\t-1\t7\n'
wrong "wrong.txt:1: the sixth column of a BED file is the strand" 'chr1\t1\t7\tx\t0\tforward\n'
wrong "wrong.txt:1: the region ends at 10, but chr2 has 9 bases" 'chr2\t1\t10\n'
wrong "no record of the input has one of its names, such as chr9" 'chr9\t1\t10\n'
wrong "wrong.txt: has no region" '# nothing\n'
"$CISTRON" prepare --tokenizer esm2 -o "$work/bad.h5" --regions "$work/r.bed" "$work/genome.fa" >"$work/out" 2>&1
check "proteins: exit code 2" test $? -eq 2
check "proteins: is said" says "--regions: needs nucleotides, but the tokenizer is esm2"
finish
