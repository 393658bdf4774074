#!/bin/bash
# `cistron score` writes the same bytes on every rank count, also where ranks share the weights, and the likelihood ratios
# of transformers (tests/golden/make_score.py), on one strand and on both. Tables, VCF, scans, positions and HDF5 agree
# with each other; whole records have transformers' pseudo-log-likelihoods. Mistakes are one line with file, line and
# value, and leave no file.
. "$abs_top_srcdir/tests/lib.sh"
export OMP_NUM_THREADS=1
golden=$abs_top_srcdir/tests/golden
every=masked-marginals,masked-together,wt-marginals,pseudo-log-likelihood,pseudo-perplexity
"$CISTRON" import "$golden/esm2_tiny" -o "$work/esm.h5" >"$work/out" 2>&1
check "a model" test $? -eq 0
cp "$golden/embed_esm2.fa" "$work/p.fa"
cut -d, -f1-3 "$golden/score_esm2.csv" >"$work/m.csv"
cut -d, -f1-3 "$golden/score_esm2_windows.csv" >"$work/w.csv" # changes that are near each other

# near FILE COLUMN GOLDEN COLUMN BOUND: two columns, relative to their largest number
near()
{
    paste -d, <(cut -d, -f"$2" "$1" | tail -n +2) <(cut -d, -f"$4" "$3" | tail -n +2) | awk -F, -v bound="$5" '
        { d = $1 - $2; d = d < 0 ? -d : d; m = $2 < 0 ? -$2 : $2; worst = d > worst ? d : worst; most = m > most ? m : most
          bad += NF != 2 || $1 == "" }
        END { exit bad > 0 || NR < 3 || !(worst <= bound * most) }'
}

# -- masked models -------------------------------------------------------------------------------------------------
score=(score --checkpoint "$work/esm.h5" --fasta "$work/p.fa")
for n in 1 2 3; do
    ranks $n "${score[@]}" --mutations "$work/w.csv" --method $every -o "$work/s$n.csv" --context 66 --batch 300
    check "score on $n ranks ends with 0" codes_are 0 $n
    check "score on $n ranks: the bytes of 1" cmp "$work/s$n.csv" "$work/s1.csv"
done
ranks 2 "${score[@]}" --mutations "$work/w.csv" --method $every -o "$work/shard.csv" --context 66 --batch 300 --shard
check "ranks that share the weights end with 0" codes_are 0 2
check "ranks that share the weights: the bytes of 1" cmp "$work/shard.csv" "$work/s1.csv"
ranks 2 "${score[@]}" --mutations "$work/m.csv" -o "$work/one.csv" --measured measured
check "masked-marginals is the default" near "$work/one.csv" 4 "$golden/score_esm2.csv" 4 1e-6
check "one method: column score" grep -q '^name,mutation,measured,score$' "$work/one.csv"
check "Spearman and AUC are printed" says "masked-marginals: Spearman -0.1000, AUC 0.3784"
check "the rows are those of the table" cmp <(cut -d, -f1-3 "$work/one.csv") "$work/m.csv"
ranks 2 "${score[@]}" --mutations "$work/m.csv" -o "$work/tensor.csv" --tensor 2
check "a part of each layer on each rank: near" near "$work/tensor.csv" 4 "$work/one.csv" 4 1e-6
for n in 2 3; do # attention by heads, by a ring
    ranks $n "${score[@]}" --mutations "$work/w.csv" --method $every -o "$work/part.csv" --context 66 --batch 300 --force \
        --context-parallel $n
    check "a part of each sequence on $n ranks ends with 0" codes_are 0 $n
    for column in 4 5 6 7 8; do
        check "a part of each sequence on $n ranks: near, column $column" near "$work/part.csv" $column "$work/s1.csv" $column 1e-6
    done
done

# a scan agrees with the table, and positions with the scan; ProteinGym's columns, CRLF, tabs, quotes
awk '/^>/ { on = /insulin/ } on' "$work/p.fa" >"$work/b.fa"
scan=(score --checkpoint "$work/esm.h5" --fasta "$work/b.fa")
"$CISTRON" "${scan[@]}" --scan -o "$work/scan.csv" --positions "$work/pos.csv" >"$work/out" 2>&1
check "a scan" test $? -eq 0
check "all changes of 30 residues" test "$(wc -l <"$work/scan.csv")" -eq 571
# F1A and N3W of FVN...; the letters of the header are tokens
position() { awk -F, -v p="$1" -v t="$2" '$2 == p && $4 == t { print $5 }' "$work/pos.csv"; }
for change in F1A N3W A30C; do
    from=${change:0:1} to=${change: -1} at=${change:1:-1}
    [ "$change" = A30C ] && from=$(sed -n 2p "$work/b.fa" | cut -c30) change=$from${change:1}
    check "$change: the difference of its log-probabilities" awk -v a="$(position "$at" "$to")" -v b="$(position "$at" "$from")" \
        -v s="$(grep ",$change," "$work/scan.csv" | cut -d, -f3)" 'BEGIN { d = a - b - s; exit !(s != "" && d * d < 1e-10) }'
done
printf 'mutant\tDMS_score\tnote\r\nF1A\t0.5\t"a\t""b"""\r\nF1A:N3W\t\t-\r\nWT\t1.5\tc\r\n' >"$work/dms.tsv"
"$CISTRON" "${scan[@]}" --mutations "$work/dms.tsv" -o "$work/dms.out" >"$work/out" 2>&1
check "ProteinGym's columns, tabs and CRLF" test $? -eq 0
check "DMS_score is the measured column" says "of 2 variants with DMS_score"
check "a quoted cell stays" grep -qF $'F1A\t0.5\t"a\t""b"""\t' "$work/dms.out"
check "a line for each" test "$(wc -l <"$work/dms.out")" -eq 4
check "the record itself: 0" test "$(tail -n 1 "$work/dms.out")" = $'WT\t1.5\tc\t0'
printf '>a,b "c"\nMA\n' >"$work/comma.fa"
"$CISTRON" score --checkpoint "$work/esm.h5" --fasta "$work/comma.fa" --scan -o - >"$work/out" 2>&1
check "an output called -" test $? -eq 2
"$CISTRON" score --checkpoint "$work/esm.h5" --fasta "$work/comma.fa" --scan -o /dev/stdout 2>/dev/null >"$work/out"
check "a comma in a name, to standard output" says '"a,b",M1A,'
gzip -c "$work/m.csv" >"$work/m.csv.gz"
"$CISTRON" "${score[@]}" --mutations "$work/m.csv.gz" -o "$work/gz.csv" >"$work/out" 2>&1
check "a compressed table" cmp "$work/gz.csv" "$work/one.csv"
"$CISTRON" "${score[@]}" --mutations "$work/m.csv" -o "$work/half.csv" --precision bf16 >"$work/out" 2>&1
check "bf16: near" near "$work/half.csv" 4 "$work/one.csv" 4 3e-2
check "bf16: not the same" test "$(cmp "$work/half.csv" "$work/one.csv" 2>&1)"

# whole records: pseudo-log-likelihoods of transformers, whole and in windows of 66
for n in 1 2; do
    ranks $n score --checkpoint "$work/esm.h5" --input "$work/p.fa" -o "$work/r$n.csv"
    check "whole records on $n ranks end with 0" codes_are 0 $n
done
check "whole records on 2 ranks: the bytes of 1" cmp "$work/r1.csv" "$work/r2.csv"
"$CISTRON" score --checkpoint "$work/esm.h5" --input "$work/p.fa" --context 66 -o "$work/r66.csv" >"$work/out" 2>&1
for table in r1:score_esm2 r66:score_esm2_windows; do
    grep -E '^name|,WT,' "$golden/${table#*:}.csv" >"$work/wt.csv"
    check "${table%:*}: log-likelihoods of whole records" near "$work/${table%:*}.csv" 3 "$work/wt.csv" 7 1e-6
    check "${table%:*}: perplexities of whole records" near "$work/${table%:*}.csv" 4 "$work/wt.csv" 8 1e-6
done
printf '>a\nMKT*AY\n>b\nMKTAY*\n>c\nMKTAY\n' >"$work/stops.fa"
"$CISTRON" score --checkpoint "$work/esm.h5" --input "$work/stops.fa" -o "$work/stops.csv" >"$work/out" 2>&1
check "a stop codon at the end is dropped" test "$(sed -n 's/^b//p' "$work/stops.csv")" = "$(sed -n 's/^c//p' "$work/stops.csv")"
check "a stop codon inside is a token" grep -q '^a,6,' "$work/stops.csv"

# HDF5
python=$(transformers_python)
"$CISTRON" "${score[@]}" --mutations "$work/m.csv" --method masked-marginals,wt-marginals --measured measured \
    -o "$work/s.h5" --positions "$work/pos.h5" >"$work/out" 2>&1
check "HDF5" test $? -eq 0
"$CISTRON" inspect "$work/s.h5" >"$work/out" 2>&1
check "HDF5 is described" says "f64 scores [32, 2]"
if "$python" -c 'import h5py' 2>/dev/null; then
    check "HDF5 agrees with the table" "$python" - "$work" <<'END'
import csv, sys
import h5py
work = sys.argv[1]
rows = list(csv.DictReader(open(work + "/one.csv")))
with h5py.File(work + "/s.h5") as f:
    assert [n.decode() for n in f["methods"]] == ["masked-marginals", "wt-marginals"]
    assert [n.decode() for n in f["names"]] == [r["name"] for r in rows]
    assert all(abs(a - float(r["score"])) < 1e-6 for a, r in zip(f["scores"][:, 0], rows))
    assert all(abs(a - float(r["measured"])) < 1e-6 for a, r in zip(f["measured"], rows))
    assert [m.decode() for m in f["mutations"]] == [r["mutation"] for r in rows]
    assert any(m.split(":") != sorted(m.split(":"), key=lambda p: int(p[1:-1])) for m in f["mutations"].asstr() if m != "WT")
with h5py.File(work + "/pos.h5") as f:
    tokens = [t.decode() for t in f["tokens"]]
    names, offsets = [n.decode() for n in f["names"]], f["offsets"][:]
    logs, letters = f["log_probabilities"][:], f["wild_type"][:]
    assert logs.shape == (275, 33) and f.attrs["method"] == b"masked-marginals" or f.attrs["method"] == "masked-marginals"
    for r in rows:
        total = 0
        for part in [] if r["mutation"] == "WT" else r["mutation"].split(":"):
            row = offsets[names.index(r["name"])] + int(part[1:-1]) - 1
            assert letters[row].decode() == part[0]
            total += logs[row, tokens.index(part[-1])] - logs[row, tokens.index(part[0])]
        assert abs(total - float(r["score"])) < 1e-4
END
fi

# -- causal models -------------------------------------------------------------------------------------------------
causal=(score --checkpoint "$golden/eval_llama.h5" --fasta "$golden/eval_llama.fa" --mutations "$golden/score_llama.vcf")
for n in 1 2; do
    ranks $n "${causal[@]}" -o "$work/ratio$n.csv"
    check "likelihood ratios on $n ranks end with 0" codes_are 0 $n
    ranks $n "${causal[@]}" -o "$work/both$n.csv" --both-strands --batch 2000
    check "both strands on $n ranks end with 0" codes_are 0 $n
done
# A ratio of at most 22 nats is the difference of two log-likelihoods of up to 2,800 nats. In fp32 it is at most 2.2e-5
# nats from float64 on a CPU with AVX-512, 2.4e-5 on one without.
check "likelihood ratios: those of transformers" near "$work/ratio1.csv" 6 "$golden/score_llama.csv" 6 2e-6
check "both strands: those of transformers" near "$work/both1.csv" 6 "$golden/score_llama.csv" 7 2e-6
check "one strand is not both" test "$(near "$work/ratio1.csv" 6 "$golden/score_llama.csv" 7 1e-3 || echo apart)" = apart
check "2 ranks: the bytes of 1" cmp "$work/ratio1.csv" "$work/ratio2.csv"
check "2 ranks, both strands: the bytes of 1" cmp "$work/both1.csv" "$work/both2.csv"
check "columns of the VCF" grep -q '^chrom,pos,id,ref,alt,score$' "$work/ratio1.csv"

# -- mistakes ------------------------------------------------------------------------------------------------------
# mistake TEXT MUTATION SAYS: a table with this second row is refused
mistake()
{
    printf 'name,mutation\nP42212,M1A\n%s\n' "$2" >"$work/bad.csv"
    refused "$1" "$work/bad.csv:3: $3" "${score[@]}" --mutations "$work/bad.csv" -o "$work/none.csv"
    check "$1: no file" test -z "$(compgen -G "$work/none.csv*")"
}
mistake "another letter" P42212,A2G "mutation A2G: position 2 of record P42212 of $work/p.fa is S, not A"
mistake "a position too far" P42212,K300G "mutation K300G: position 300 is not in record P42212 of $work/p.fa, which has 238 residues"
mistake "position 0" P42212,M0G "mutation M0G: position 0 is not in record P42212"
mistake "an unknown name" Q1,M1A "name Q1: $work/p.fa does not have a record of this name"
mistake "an unknown letter" P42212,M1J "mutation M1J: 'J' is not a letter of tokenizer esm2"
mistake "a position twice" P42212,M1A:M1C "mutation M1A:M1C: has two changes of position 1"
mistake "no mutation" P42212, "mutation : must be letter, position, letter (A42G)"
mistake "not a mutation" P42212,M1A: "mutation M1A:: must be letter, position, letter (A42G)"
mistake "cells" P42212,M1A,3 "has 3 cells, the header has 2"
mistake "a quote" '"P42212,M1A' "a cell that begins with a quote here does not end"
printf 'name,mutation\n' >"$work/bad.csv"
refused "an empty list" "$work/bad.csv: does not list a variant" "${score[@]}" --mutations "$work/bad.csv" -o "$work/none.csv"
printf 'name,change\nP42212,M1A\n' >"$work/bad.csv"
refused "no column" "$work/bad.csv:1: has neither a column \"mutation\" nor \"mutant\"" "${score[@]}" --mutations "$work/bad.csv" -o "$work/none.csv"
printf 'mutation\nM1A\n' >"$work/bad.csv"
refused "no names" "$work/bad.csv:1: does not have a column \"name\", and $work/p.fa has 4 records" "${score[@]}" --mutations "$work/bad.csv" -o "$work/none.csv"
printf 'name,mutation,DMS_score\nP42212,M1A,high\n' >"$work/bad.csv"
refused "not a number" "$work/bad.csv:2: DMS_score = high: is not a number" "${score[@]}" --mutations "$work/bad.csv" -o "$work/none.csv"
printf 'name,mutation,score\nP42212,M1A,1\n' >"$work/bad.csv"
refused "a column score" "$work/bad.csv:1: has a column \"score\" already" "${score[@]}" --mutations "$work/bad.csv" -o "$work/none.csv"
refused "a method of other models" "--method log-likelihood-ratio: needs another kind of model; masked models have: masked-marginals" \
    "${score[@]}" --mutations "$work/m.csv" --method log-likelihood-ratio -o "$work/none.csv"
refused "an unknown method" "--method best: unknown; masked models have:" "${score[@]}" --scan --method best -o "$work/none.csv"
refused "a method of masked models" "causal models have: log-likelihood-ratio" "${causal[@]}" --method wt-marginals -o "$work/none.csv"
refused "both strands of proteins" "--both-strands: applies to causal models of bases only" "${score[@]}" --scan --both-strands -o "$work/none.csv"
printf 'name,mutation\nP42212,M1A:G200S\n' >"$work/bad.csv"
sed -n '2,5p' "$work/p.fa" | tr -d '\n' | cut -c200 >"$work/letter"
printf 'name,mutation\nP42212,M1A:%s200%s\n' "$(cat "$work/letter")" W >"$work/bad.csv"
refused "too far apart" "its changes do not fit into one window of 66 tokens (--context)" \
    "${score[@]}" --mutations "$work/bad.csv" --method masked-together --context 66 -o "$work/none.csv"
printf '#CHROM\tPOS\tID\tREF\tALT\nP42212\t1\t.\tMS\tM\n' >"$work/bad.vcf"
refused "a deletion in a masked model" "masked models score substitutions only" "${score[@]}" --mutations "$work/bad.vcf" -o "$work/none.csv"
printf '#CHROM\tPOS\tID\tREF\tALT\nshort\t1\t.\tG\t<DEL>\n' >"$work/bad.vcf"
refused "a symbolic allele" "$work/bad.vcf:2: POS 1 REF G ALT <DEL>: REF and ALT must be letters" \
    "${causal[@]:0:5}" --mutations "$work/bad.vcf" -o "$work/none.csv"
refused "an output that is there" "$work/one.csv" "${score[@]}" --mutations "$work/m.csv" -o "$work/one.csv"
refused "an input as output" "$work/m.csv" "${score[@]}" --mutations "$work/m.csv" -o "$work/m.csv" --force
records=(score --checkpoint "$work/esm.h5" --input "$work/p.fa")
for option in "--fasta $work/p.fa|--fasta and --input: give only one of them" "--scan|apply to --fasta FILE, not to --input FILE" \
    "--context 2|--context 2: must be 3 to" "--precision fp8|--precision fp8: must be fp32 or bf16" "--batch -1|--batch -1: must be 1 to"; do
    # shellcheck disable=SC2086 # an option and its value
    "$CISTRON" "${records[@]}" -o "$work/none.csv" ${option%%|*} >"$work/out" 2>&1
    check "whole records, ${option%% *}: exit code 2" test $? -eq 2
    check "whole records, ${option%% *}: is said" says "${option#*|}"
done
"$CISTRON" "${records[@]}" -o "$work/none.h5" >"$work/out" 2>&1
check "whole records as HDF5 are refused" says "--output: with --input it is CSV, not HDF5"
"$CISTRON" "${score[@]}" --scan --field text -o "$work/none.csv" >"$work/out" 2>&1
check "a field of variants is refused" says "--input-format, --field and --skip-bad: need --input FILE"
"$CISTRON" "${score[@]}" -o "$work/none.csv" >"$work/out" 2>&1
check "nothing to score" test $? -eq 2
check "nothing to score: is said" says "missing: --mutations FILE, --scan or --positions FILE"
check "no file of these" test -z "$(compgen -G "$work/none.csv*")"
finish
