#!/bin/bash
# `cistron prepare --split --clusters` keeps each cluster in one part, by files of MMseqs2 and CD-HIT alike, and the parts
# have about their sizes; equal records are counted, and dropped where that is asked for. Files that are not lists of
# clusters are refused with their line. --split-column gives each record the part that a column of its table names.
. "$abs_top_srcdir/tests/lib.sh"

# 60 clusters of 1 to 9 proteins; in file order the members of a cluster are far from each other
awk -v tsv="$work/cluster.tsv" -v clstr="$work/cluster.clstr" 'BEGIN {
    srand(7)
    for (member = 1; member <= 9; member++)
        for (cluster = 1; cluster <= 60; cluster++)
            if (member <= 1 + cluster * 7 % 9) {
                printf ">c%dm%d of no use\n", cluster, member
                line = ""
                for (i = 0; i < 50 + int(50 * rand()); i++) line = line substr("LAGVSERTIDPKQNFYMHWC", int(20 * rand()) + 1, 1)
                print line
            }
    for (cluster = 1; cluster <= 60; cluster++) {
        printf ">Cluster %d\n", cluster - 1 >clstr
        for (member = 1; member <= 1 + cluster * 7 % 9; member++) {
            printf "c%dm1\tc%dm%d\n", cluster, cluster, member >tsv
            printf "%d\t%daa, >c%dm%d... %s\n", member - 1, 80, cluster, member, member == 1 ? "*" : "at 92.00%" >clstr
        }
    }
}' >"$work/p.fa"
records=$(grep -c '>' "$work/p.fa")

# names FILE: the records of a store
names()
{
    grep -aoE 'c[0-9]+m[0-9]+' "$1" | sort
}
# prepare NAME ARGUMENTS...
prepare()
{
    local name=$1
    shift
    "$CISTRON" prepare --tokenizer esm2 -o "$work/$name.h5" "$@" >"$work/out" 2>&1
}
# clusters_of FILE
clusters_of()
{
    names "$1" | cut -d m -f 1 | sort -u
}

prepare plain --split train:0.7,valid:0.3 "$work/p.fa"
check "without clusters some are in both parts" \
    test -n "$(comm -12 <(clusters_of "$work/plain.train.h5") <(clusters_of "$work/plain.valid.h5"))"
for kind in tsv clstr; do
    prepare $kind --split train:0.6,valid:0.25,test:0.15 --clusters "$work/cluster.$kind" "$work/p.fa"
    check "$kind: ends with 0" test $? -eq 0
    check "$kind: nothing to warn of" test -z "$(grep warning "$work/out")"
    check "$kind: all records are there" test "$(names "$work/$kind.train.h5" | wc -l)" -gt 0 -a \
        "$(cat <(names "$work/$kind.train.h5") <(names "$work/$kind.valid.h5") <(names "$work/$kind.test.h5") | sort -u | wc -l)" -eq "$records"
    for pair in "train valid" "train test" "valid test"; do
        # shellcheck disable=SC2086 # two words
        set -- $pair
        check "$kind: no cluster is in $1 and $2" \
            test -z "$(comm -12 <(clusters_of "$work/$kind.$1.h5") <(clusters_of "$work/$kind.$2.h5"))"
    done
    # 25 % of the residues, and less than a cluster (2.7 %) more
    share=$(sed -n 's/.*valid\.h5: .* (\([0-9.]*\) %) in .*/\1/p' "$work/out")
    check "$kind: valid has its share: $share %" awk "BEGIN { exit !($share >= 25 && $share < 28.5) }"
done
gzip -c "$work/cluster.tsv" >"$work/cluster.tsv.gz"
prepare again --split train:0.6,valid:0.25,test:0.15 --clusters "$work/cluster.tsv.gz" "$work/p.fa"
check "compressed: the same split" cmp <(names "$work/tsv.valid.h5") <(names "$work/again.valid.h5")

grep -v 'c5m' "$work/cluster.tsv" >"$work/some.tsv"
prepare some --split train:0.6,valid:0.4 --clusters "$work/some.tsv" "$work/p.fa"
check "records in no cluster are said" \
    says "warning: $work/some.tsv does not name $(grep -c '>c5m' "$work/p.fa") of $records records; each of them is a cluster"

# -- Equal records -----------------------------------------------------------------------------------------------------
{ cat "$work/p.fa"; head -n 20 "$work/p.fa" | sed 's/^>/>copy_/'; printf '>x\nMKV\n>y\nMKVL\n>z\nMK\nV\n'; } >"$work/twice.fa"
prepare counted "$work/twice.fa"
check "equal records are counted" says "11 records with the sequence of an earlier one (--drop-duplicates drops them)"
check "and stay" grep -qE " in $((records + 13)) sequences" "$work/out"
prepare dropped --drop-duplicates "$work/twice.fa"
check "dropped" says "11 records with the sequence of an earlier one dropped"
check "others stay" grep -qE " in $((records + 2)) sequences" "$work/out"
check "of them the first" test "$(grep -ac copy_ "$work/dropped.h5")" -eq 0
{ cat "$work/p.fa"; printf '>x\nMKV\n>y\nMKVL\n'; } >"$work/singl.fa" # a name as long
prepare singled "$work/singl.fa"
# the stores differ in the name and the checksum of their source, and in their own checksums
check "a store as that of the records that stay" \
    test "$(cmp -l "$work/singled.h5" "$work/dropped.h5" 2>&1 | wc -l)" -le 64 -a \
    "$(stat -c %s "$work/singled.h5")" -eq "$(stat -c %s "$work/dropped.h5")"

# -- A column of the table ---------------------------------------------------------------------------------------------
# records of each part, c1m1 ... c6m1; two have no sequence
cat >"$work/table.csv" <<'END'
record,fold,text
c1m1,train,MKVLAAGVSE
c2m1,test,RTIDPKQNFY
c3m1,validation,
c4m1,valid,MHWCLAGVSE
c5m1,train,
c6m1,train,AAGVSERTID
END
tr , '\t' <"$work/table.csv" >"$work/table.tsv"
awk -F, 'NR > 1 { print ">" $1 " fold=" $2 "\n" $3 }' "$work/table.csv" >"$work/table.fa"
tables="csv tsv fa"
python=$(transformers_python)
if "$python" -c 'import pyarrow.parquet' 2>/dev/null; then
    tables="$tables parquet"
    "$python" - "$work" <<'END'
import csv, sys, pyarrow, pyarrow.parquet
rows = list(csv.DictReader(open(sys.argv[1] + "/table.csv")))
table = pyarrow.table({name: [row[name] for row in rows] for name in rows[0]})
pyarrow.parquet.write_table(table, sys.argv[1] + "/table.parquet")
END
fi
for table in $tables; do
    prepare "by-$table" --split-column fold "$work/table.$table"
    check "a column of $table" test $? -eq 0
    check "a column of $table: train" test "$(names "$work/by-$table.train.h5" | tr '\n' ' ')" = "c1m1 c6m1 "
    check "a column of $table: valid" test "$(names "$work/by-$table.valid.h5")" = c4m1
    check "a column of $table: test" test "$(names "$work/by-$table.test.h5")" = c2m1
done
sed '/test/d; s/MHWCLAGVSE/MKVLAAGVSE/' "$work/table.csv" >"$work/two.csv"
prepare two --split-column fold "$work/two.csv"
check "a table without test records" test $? -eq 0
check "a table without test records: two stores" \
    test "$(cd "$work" && echo two.*.h5)" = "two.train.h5 two.valid.h5"
check "a sequence that an earlier part has" says "1 of the 1 in valid"
prepare once --split-column fold --drop-duplicates "$work/two.csv" "$work/table.csv"
check "dropped records keep the others' parts" \
    test "$(names "$work/once.train.h5" | tr '\n' ' ')$(names "$work/once.valid.h5") $(names "$work/once.test.h5")" = \
    "c1m1 c6m1 c4m1 c2m1"
# texts are encoded by threads, and end after others have begun
awk 'BEGIN { print "record,fold,text"
    for (i = 1; i <= 300; i++)
        printf "c%dm1,%s,%s\n", i, i % 7 == 0 ? "test" : "train", i % 5 == 0 ? "" : "a text of its own" }' >"$work/texts.csv"
"$CISTRON" prepare --tokenizer "$abs_top_srcdir/tests/golden/bpe_tiny" --split-column fold --threads 3 \
    -o "$work/texts.h5" "$work/texts.csv" >"$work/out" 2>&1
check "a column of texts" test $? -eq 0
check "a column of texts: the parts" \
    test "$(names "$work/texts.test.h5" | sort -V | tr '\n' ' ')" = "$(seq 7 7 300 | awk '$1 % 5 { printf "c%dm1 ", $1 }')"

# -- Mistakes ----------------------------------------------------------------------------------------------------------
# wrong WORDS ARGUMENTS...
wrong()
{
    local words=$1
    shift
    prepare bad "$@"
    check "$words: exit code 2" test $? -eq 2
    check "$words: is said" says "$words"
    check "$words: nothing is left" test -z "$(compgen -G "$work/bad.*")"
}
printf 'a\tb\nonly one\n' >"$work/one.tsv"
printf '>Cluster 0\n0\t80aa, >c1m1... *\nc1m1 c1m2\n' >"$work/not.clstr"
printf 'a\tc1m1\nb\tc1m1\n' >"$work/two.tsv"
printf 'a\tb\n' >"$work/other.tsv"
: >"$work/empty.tsv"
wrong "--clusters: needs --split" --clusters "$work/cluster.tsv" "$work/p.fa"
wrong "one.tsv: line 2: is not REPRESENTATIVE<TAB>MEMBER" --split a:0.5,b:0.5 --clusters "$work/one.tsv" "$work/p.fa"
wrong "clstr: line 3: is not a line of a CD-HIT" --split a:0.5,b:0.5 --clusters "$work/not.clstr" "$work/p.fa"
wrong "two.tsv: a record is in two clusters" --split a:0.5,b:0.5 --clusters "$work/two.tsv" "$work/p.fa"
wrong "other.tsv: names none of the records" --split a:0.5,b:0.5 --clusters "$work/other.tsv" "$work/p.fa"
wrong "empty.tsv: names no member" --split a:0.5,b:0.5 --clusters "$work/empty.tsv" "$work/p.fa"
sed 's/.*\t/c1m1\t/' "$work/cluster.tsv" >"$work/same.tsv"
wrong "part b would be empty" --split b:0.5,a:0.5 --clusters "$work/same.tsv" "$work/p.fa"
sed 's/c4m1,valid/c4m1,holdout/' "$work/table.csv" >"$work/other.csv"
wrong 'record number 4 has "holdout"; it must be train, valid' --split-column fold "$work/other.csv"
wrong 'has no column "part" (--labels or --split-column)' --split-column part "$work/table.csv"
wrong "--split and --split-column: give only one" --split-column fold --split a:0.5,b:0.5 "$work/table.csv"
finish
