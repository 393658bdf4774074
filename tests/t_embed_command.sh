#!/bin/bash
# `cistron embed` writes the same bytes on every rank count, also where ranks share the weights, and reports odd input;
# `cistron eval` of a masked model repeats the training's validation loss. Mistakes, full disks and signals leave no
# unfinished file.
. "$abs_top_srcdir/tests/lib.sh"
export OMP_NUM_THREADS=1

# proteins SEED LENGTHS...: FASTA of random residues, one record of each length.
proteins()
{
    local seed=$1
    shift
    awk -v seed="$seed" -v lengths="$*" 'BEGIN {
        srand(seed); records = split(lengths, length_of, " ")
        for (r = 1; r <= records; r++) {
            print ">protein" r " of chance"; line = ""
            for (i = 0; i < length_of[r]; i++) {
                line = line substr("LAGVSERTIDPKQNFYMHWC", int(20 * rand() * rand()) + 1, 1)
                if (length(line) == 60) { print line; line = "" }
            }
            if (line != "") print line
        } }'
}

# trained FOLDER DATA MODEL: a small model
trained()
{
    cat >"$work/deck.cfg" <<END
model = { $3 layers = 2; hidden = 32; ffn = 64; heads = 4; };
data = { train = "$2"; valid = "$2"; row_tokens = 64; window = 64; split = false; };
train = { steps = 20; global_batch = 8; micro_batch = 4; };
schedule = { warmup = 3; decay = 20; };
validation = { every = 20; rows = 0; };
device = { threads = 1; };
output = { folder = "$1"; };
END
    "$CISTRON" train "$work/deck.cfg" >"$work/out" 2>&1
}

proteins 1 62 1 40 17 62 33 5 60 61 30 >"$work/short.fa" # a window each
proteins 2 62 500 1 3 90 62 63 124 125 700 40 9 >"$work/p.fa"
"$CISTRON" prepare --tokenizer esm2 -o "$work/p.h5" "$work/short.fa" >"$work/out"
trained "$work/esm" "$work/p.h5" 'family = "esm2"; positions = 1000000000;'
check "a trained ESM-2" test $? -eq 0

# rows FILE: rows and columns of its vectors
rows()
{
    "$CISTRON" inspect "$1" | sed -n 's/.*f32 vectors //p'
}

# -- embed ---------------------------------------------------------------------------------------------------------
# 12 records of 1779 residues, and two special tokens each
for pool in mean first last none; do
    for n in 1 2 3; do
        ranks $n embed --checkpoint "$work/esm" --fasta "$work/p.fa" -o "$work/$pool$n.h5" --pool $pool
        check "embed --pool $pool on $n ranks ends with 0" codes_are 0 $n
        check "embed --pool $pool on $n ranks: the bytes of 1" cmp "$work/$pool$n.h5" "$work/${pool}1.h5"
    done
    check "embed --pool $pool: what it wrote" says "12 records, 1779 residues"
    check "embed --pool $pool: of what was trained on less" says "more than the context of 64 that the model was trained with"
done
check "mean: a row for each record" test "$(rows "$work/mean1.h5")" = "[12, 32]"
check "last: a row for each record" test "$(rows "$work/last1.h5")" = "[12, 32]"
check "none: a row for each token" test "$(rows "$work/none1.h5")" = "[1803, 32]"
check "other vectors" test "$(cmp "$work/mean1.h5" "$work/last1.h5" 2>&1)"
# more than one batch for each of 3 ranks
proteins 3 $(seq 10 110) $(seq 20 120) $(seq 30 130) $(seq 40 140) >"$work/many.fa"
ranks 1 embed --checkpoint "$work/esm" --fasta "$work/many.fa" -o "$work/many1.h5"
ranks 3 embed --checkpoint "$work/esm" --fasta "$work/many.fa" -o "$work/many3.h5"
check "many batches: ends with 0" codes_are 0 3
check "many batches: the bytes of 1" cmp "$work/many1.h5" "$work/many3.h5"
ranks 3 embed --checkpoint "$work/esm" --fasta "$work/many.fa" -o "$work/shard3.h5" --shard
check "ranks that share the weights: end with 0" codes_are 0 3
check "ranks that share the weights: the bytes of 1" cmp "$work/many1.h5" "$work/shard3.h5"
gzip -c "$work/p.fa" >"$work/p.fa.gz"
ranks 2 embed --checkpoint "$work/esm/final_model.h5" --fasta "$work/p.fa.gz" -o "$work/gz.h5"
check "compressed: the same" cmp "$work/gz.h5" "$work/mean1.h5"
$MPIRUN -n 2 "$CISTRON" embed --checkpoint "$work/esm" --fasta - -o "$work/stdin.h5" <"$work/p.fa" >"$work/out" 2>&1
check "standard input: the same" cmp "$work/stdin.h5" "$work/mean1.h5"

ranks 2 embed --checkpoint "$work/esm" --fasta "$work/p.fa" -o "$work/cut.h5" --max-length 64
check "cut short: ends with 0" codes_are 0 2
check "cut short: how many" says "6 of 12 records are longer than --max-length 64"
awk '/^>/ { name = $0; next } { all[name] = all[name] $0; if (!(name in seen)) { seen[name] = 1; order[++n] = name } }
    END { for (i = 1; i <= n; i++) print order[i] "\n" substr(all[order[i]], 1, 62) }' "$work/p.fa" >"$work/cut.fa"
ranks 1 embed --checkpoint "$work/esm" --fasta "$work/cut.fa" -o "$work/own.h5" --max-length 64
"$CISTRON" inspect --json "$work/own.h5" >"$work/own.json"
check "what is whole is not said to be cut" grep -q '"truncated": 0' "$work/own.json"
"$abs_top_builddir/tests/hdf5_edit" "$work/own.h5" truncated 6
check "cut short: the vectors of what is left" cmp "$work/own.h5" "$work/cut.h5"

# a record's vectors do not depend on the file's other records: 62 residues in a file with one of 700, and alone
awk '/^>/ { n++ } n == 1' "$work/p.fa" >"$work/first.fa"
ranks 1 embed --checkpoint "$work/esm" --fasta "$work/first.fa" -o "$work/first.npy" --layers all
ranks 2 embed --checkpoint "$work/esm" --fasta "$work/p.fa" -o "$work/all.npy" --layers all
check "NumPy and a table of the records" test "$(cat "$work/first.tsv")" = "name	length	row
protein1	62	0"
check "a record has the same bits alone" cmp <(tail -c +193 "$work/first.npy") \
    <(tail -c +193 "$work/all.npy" | head -c $((3 * 32 * 4)))
check "a table of all records" test "$(wc -l <"$work/all.tsv")" -eq 13

# contacts, of a model that was imported with its contact head
"$CISTRON" import "$abs_top_srcdir/tests/golden/esm2_tiny" -o "$work/published.h5" >"$work/out" 2>&1
for n in 1 2 3; do
    ranks $n embed --checkpoint "$work/published.h5" --fasta "$work/many.fa" -o "$work/contacts$n.h5" --contacts
    check "contacts on $n ranks: the bytes of 1" cmp "$work/contacts$n.h5" "$work/contacts1.h5"
done
ranks 2 embed --checkpoint "$work/published.h5" --fasta "$work/many.fa" -o "$work/contacts_shard.h5" --contacts --shard
check "contacts of ranks that share the weights: the bytes of 1" cmp "$work/contacts_shard.h5" "$work/contacts1.h5"
check "contacts: as many as pairs" test "$("$CISTRON" inspect "$work/contacts1.h5" | sed -n 's/.*f32 contacts //p')" = \
    "[$(awk '/^>/ { sum += n * n; n = 0; next } { n += length($0) } END { print sum + n * n }' "$work/many.fa")]"

# the same records in other formats
awk '/^>/ { if (s != "") print "{\"text\": \"" s "\"}"; s = ""; next } { s = s $0 } END { print "{\"text\": \"" s "\"}" }' \
    "$work/p.fa" >"$work/p.jsonl"
sed 's/.*: "\(.*\)"}/\1/; 1i protein' "$work/p.jsonl" >"$work/p.csv"
ranks 2 embed --checkpoint "$work/esm" --input "$work/p.jsonl" -o "$work/jsonl.npy"
ranks 2 embed --checkpoint "$work/esm" --input "$work/p.csv" --field protein -o "$work/csv.npy"
ranks 2 embed --checkpoint "$work/esm" --fasta "$work/p.fa" -o "$work/mean.npy"
check "JSON lines: the same vectors" cmp "$work/jsonl.npy" "$work/mean.npy"
check "CSV: the same vectors" cmp "$work/csv.npy" "$work/mean.npy"

# what is odd is told
printf '>a\nMKV\n>none\n>stop\nMKVLA*\n>inner\nMK*VL\n>low\nmkvl\n' >"$work/odd.fa"
ranks 2 embed --checkpoint "$work/esm" --fasta "$work/odd.fa" -o "$work/odd.h5" --pool none
check "odd records: ends with 0" codes_are 0 2
check "a stop symbol dropped" says "1 stop symbol '*' at ends of records dropped"
check "unknown characters" says "5 of 17 characters are not tokens of esm2 and became <unk>: 1 '*', 4 lower-case letters"
check "a record of them" says "unknown characters (no token of the model) are 20 % of inner, and more than 10 % of 1 other"
check "a record without residues" says "1 record without residues"
check "all of their tokens" test "$(rows "$work/odd.h5")" = "[27, 32]"
printf '>a\nMKV\n>none\n>stop\nMKVLA\n>inner\nMK*VL\n>low\nMKVL\n' >"$work/plain.fa"
ranks 1 embed --checkpoint "$work/esm" --fasta "$work/odd.fa" -o "$work/upper.h5" --case upper
ranks 1 embed --checkpoint "$work/esm" --fasta "$work/plain.fa" -o "$work/plain.h5"
check "upper case and no stop symbol" cmp "$work/upper.h5" "$work/plain.h5"
check "a mean of nothing is said to be none" says "NaN as their mean"
genome 1 300 >"$work/dna.fa"
ranks 2 embed --checkpoint "$work/esm" --fasta "$work/dna.fa" -o "$work/dna.h5"
check "nucleotides for a protein model" says "are these nucleotides?"

# ranks that share each batch's tokens, by heads and by a ring; records that lie on several ranks
# near A B: numbers of two .npy files, to 1e-6 of the largest
near()
{
    paste -d ' ' <(od -An -v -t f4 -w4 -j 192 "$1") <(od -An -v -t f4 -w4 -j 192 "$2") | awk '
        { d = $1 - $2; d = d < 0 ? -d : d; m = $2 < 0 ? -$2 : $2; worst = d > worst ? d : worst; most = m > most ? m : most
          bad += NF != 2 }
        END { exit bad > 0 || NR < 1000 || !(worst <= 1e-6 * most) }'
}
for pool in mean none; do
    ranks 1 embed --checkpoint "$work/esm" --fasta "$work/p.fa" -o "$work/whole.npy" --pool $pool --layers all --force
    check "--pool $pool, all layers: ends with 0" codes_are 0 1
    for how in "2 --context-parallel 2" "3 --context-parallel 3" "4 --context-parallel 2 --tensor 2" \
        "4 --context-parallel 2 --shard"; do
        # shellcheck disable=SC2086
        ranks ${how%% *} embed --checkpoint "$work/esm" --fasta "$work/p.fa" -o "$work/part.npy" --pool $pool --layers all \
            --force ${how#* }
        check "--pool $pool on $how ends with 0" codes_are 0 "${how%% *}"
        check "--pool $pool on $how: the vectors of 1" near "$work/whole.npy" "$work/part.npy"
    done
done

# a causal model
genome 4 900 70 62 30 1 >"$work/g.fa"
"$CISTRON" prepare --tokenizer nucleotide -o "$work/g.h5" "$work/g.fa" >"$work/out"
trained "$work/llama" "$work/g.h5" "positions = 901;"
check "a trained Llama" test $? -eq 0
for pool in last none; do
    for n in 1 2; do
        ranks $n embed --checkpoint "$work/llama" --fasta "$work/g.fa" -o "$work/g$pool$n.h5" --pool $pool
        check "Llama, --pool $pool on $n ranks ends with 0" codes_are 0 $n
    done
    check "Llama, --pool $pool: the same bytes" cmp "$work/g${pool}1.h5" "$work/g${pool}2.h5"
done
genome 4 901 >"$work/long.fa"
refused "a record of more tokens than positions" \
    "record record1 has 902 tokens, more than 901, the positions of this model (model.positions); --max-length" \
    embed --checkpoint "$work/llama" --fasta "$work/long.fa" -o "$work/bad.h5"
ranks 1 embed --checkpoint "$work/llama" --fasta "$work/long.fa" -o "$work/gcut.h5" --max-length 901
check "a record of more tokens than positions, truncated" codes_are 0 1
check "Llama: BOS and each base" test "$(rows "$work/gnone1.h5")" = "[1068, 32]"

# -- eval of a masked model ----------------------------------------------------------------------------------------
same_result()
{
    cmp <(grep -v '"world_size"' "$1") <(grep -v '"world_size"' "$2")
}
# aggregate FIELD FILE
aggregate()
{
    sed -n 's/^    "'"$1"'": \([^,]*\),*$/\1/p' "$2"
}
for n in 1 2 3 4; do
    ranks $n eval --checkpoint "$work/esm" --fasta "$work/p.fa" -o "$work/eval$n.json"
    check "eval of a masked model on $n ranks ends with 0" codes_are 0 $n
    check "eval of a masked model on $n ranks: the result of 1" same_result "$work/eval1.json" "$work/eval$n.json"
done
check "eval says what it is" grep -q '"objective": "masked"' "$work/eval1.json"
check "and how much is masked" grep -q '"mask_probability": 0.1' "$work/eval1.json"
# 500 residues are 9 windows, 90 2, 63 2, 124 2, 125 3, 700 12, the other 6 records one each
check "windows that share nothing" grep -q '"windows": 36' "$work/eval1.json"
# the records of the validation store, a window each: its windows in its order, masked as in the first epoch
ranks 2 eval --checkpoint "$work/esm" --fasta "$work/short.fa" -o "$work/short.json"
sed -n 's/.*"event":"validation","step":20,"loss":\([^,]*\),.*"labels":\([0-9]*\).*/\1 \2/p' "$work/esm/log.jsonl" >"$work/valid"
echo "$(aggregate token_weighted_ce_loss "$work/short.json") $(aggregate total_valid_tokens "$work/short.json")" >"$work/evaluated"
check "eval finds the validation loss again" close_losses <(awk '{ print $2, $1 }' "$work/valid") \
    <(awk '{ print $2, $1 }' "$work/evaluated") 2e-7
ranks 2 eval --checkpoint "$work/esm" --fasta "$work/short.fa" -o "$work/seed.json" --seed 5
check "another seed, other masks" test "$(cmp <(grep sum_log "$work/short.json") <(grep sum_log "$work/seed.json") 2>&1)"
ranks 1 eval --checkpoint "$work/esm" --fasta "$work/short.fa" -o "$work/training.json" --seed 42
check "the training's seed" cmp <(grep sum_log "$work/short.json") <(grep sum_log "$work/training.json")
ranks 1 eval --checkpoint "$work/esm" --fasta "$work/short.fa" -o "$work/narrow.json" --context 20
check "a narrower context" codes_are 0 1

# a checkpoint that came from elsewhere
"$CISTRON" import "$abs_top_srcdir/tests/golden/amplify_tiny" -o "$work/amplify.h5" >"$work/out"
ranks 1 embed --checkpoint "$work/amplify.h5" --fasta "$work/short.fa" -o "$work/amplify_v.h5"
check "AMPLIFY, imported" codes_are 0 1
"$CISTRON" import "$abs_top_srcdir/tests/golden/llama_tiny" -o "$work/unknown.h5" >"$work/out"
ranks 1 embed --checkpoint "$work/unknown.h5" --fasta "$work/g.fa" -o "$work/bad.h5"
check "imported without a tokenizer: exit code 2" codes_are 2 1
check "imported without a tokenizer: is said" says "its tokenizer is unknown; if it is nucleotide, import"

# -- mistakes ------------------------------------------------------------------------------------------------------
# mistake TEXT SAYS ARGUMENTS...
mistake()
{
    refused "$@"
    check "$1: nothing is left" test -z "$(compgen -G "$work/bad.*")"
}
: >"$work/empty.fa"
{ cat "$work/p.fa"; printf '\001\002'; } >"$work/binary.fa"
vectors="embed --checkpoint $work/esm -o $work/bad.h5 --fasta"
scored="eval --checkpoint $work/esm -o $work/bad.json --fasta $work/p.fa"
# shellcheck disable=SC2086
{
    mistake "no FASTA" "none.fa" $vectors "$work/none.fa"
    mistake "empty FASTA" "empty.fa: has no record" $vectors "$work/empty.fa"
    mistake "binary behind good records" "this is binary data" $vectors "$work/binary.fa"
    mistake "contacts without a contact head" "--contacts needs ESM-2's contact head" $vectors "$work/p.fa" --contacts
    mistake "contacts of split heads" "--contacts: does not work with --tensor" $vectors "$work/p.fa" --contacts --tensor 2
    mistake "contacts of split tokens" "--contacts: does not work with --context-parallel" $vectors "$work/p.fa" --contacts \
        --context-parallel 2
    mistake "no such pool" "--pool max: must be mean" $vectors "$work/p.fa" --pool max
    mistake "no such layer" "--layers 3: must be of 0 (the embedding) to 2" $vectors "$work/p.fa" --layers 3
    mistake "no such type" "--dtype f64: must be f32 or f16" $vectors "$work/p.fa" --dtype f64
    mistake "two inputs" "--fasta and --input: give only one of them" $vectors "$work/p.fa" --input "$work/p.fa"
    mistake "an empty pool" "--pool : must be mean" $vectors "$work/p.fa" --pool ""
    mistake "a length of special tokens alone" "--max-length 2: must be 3" $vectors "$work/p.fa" --max-length 2
    mistake "a negative length" "--max-length -1" $vectors "$work/p.fa" --max-length -1
    mistake "overlap" "--overlap: does not apply to a masked model (esm2)" $scored --overlap 16
    mistake "BOS" "--bos: does not apply to a masked model" $scored --bos
    mistake "no mask" "--no-mask: does not apply to a masked model" $scored --no-mask
    mistake "a context without room" "--context 2: must be 3 to 999999998" $scored --context 2
}
mistake "a seed for a causal model" "--seed: applies to masked models only" eval --checkpoint "$work/llama" \
    --fasta "$work/g.fa" -o "$work/bad.json" --seed 3
mistake "generate with a masked model" "a masked model (esm2)" generate --checkpoint "$work/esm"
mistake "no checkpoint" "$work/none.h5" embed --checkpoint "$work/none.h5" --fasta "$work/p.fa" -o "$work/bad.h5"
mistake "embeddings are no checkpoint" "mean1.h5" embed --checkpoint "$work/mean1.h5" --fasta "$work/p.fa" -o "$work/bad.h5"
cp "$work/p.fa" "$work/mine.fa"
mistake "output is the input" "mine.fa: is an input and the output" embed --checkpoint "$work/esm" --fasta "$work/mine.fa" -o "$work/mine.fa"
check "which stays" cmp "$work/p.fa" "$work/mine.fa"
cp "$work/p.fa" "$work/kept.h5"
touch "$work/kept.h5.xxh3"
mistake "output is some checkpoint" "kept.h5: is a checkpoint" embed --checkpoint "$work/esm" --fasta "$work/p.fa" -o "$work/kept.h5"
check "which stays, too" cmp "$work/p.fa" "$work/kept.h5"

# a record that no memory holds
lines=$(awk '/^MemAvailable/ { print int($2 / 100) }' /proc/meminfo) # twice what both ranks have, at 1 kB a residue and rank
awk -v lines="$lines" 'BEGIN { print ">huge"; for (i = 0; i < lines; i++) print "MKVLAAGVSERTIDPKQNFYMHWCLLAGVSERTIDPKQNFYMHWCLAGVSERTIDPKQNFYMHWCLLLLLLAGVVAGVVAGVVLAGVSERTIDPKQNFYMH" }' >"$work/huge.fa"
# shellcheck disable=SC2086
mistake "a record too long for the memory" "free for each; --max-length truncates records" $vectors "$work/huge.fa"

# disk full, and a failed write, while the vectors are written
for failure in pwrite:1:ENOSPC pwrite:3:ENOSPC fsync:1:EIO; do
    rm -f "$work"/bad.*
    (export LD_PRELOAD="$abs_top_builddir/tests/shim.so" SHIM_FOLDER="$work" SHIM_MATCH=bad.h5.tmp SHIM_FAIL=$failure
        # shellcheck disable=SC2086
        RANKS_SECONDS=60 ranks 2 $vectors "$work/p.fa" --pool none)
    check "$failure: exit code 1 on both ranks" codes_are 1 2
    check "$failure: is said" says "bad.h5.tmp"
    check "$failure: in one line" test "$(grep -c '^cistron: ' "$work/out")" -eq 1
    check "$failure: nothing is left" test -z "$(compgen -G "$work/bad.*")"
done

# stopped in the middle
proteins 5 $(seq 500 700) $(seq 500 700) $(seq 500 700) >"$work/long.fa"
stopped_at_work "$work/bad.h5" embed --checkpoint "$work/esm" --fasta "$work/long.fa"
finish
