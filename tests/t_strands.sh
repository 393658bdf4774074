#!/bin/bash
# Both strands of DNA: `cistron eval` and `embed` with --both-strands give what they give for a file and its reverse
# complement; a model trained with data.reverse_complement finds both strands equally likely, one trained without does
# not; its losses do not depend on ranks and restarts. Mistakes are one line.
. "$abs_top_srcdir/tests/lib.sh"
export OMP_NUM_THREADS=1

# reversed <FASTA: each record's reverse complement
reversed()
{
    while read -r line; do
        case $line in
        '>'*) echo "$line" ;;
        *) rev <<<"$line" | tr ACGTRYacgt TGCAYRtgca ;;
        esac
    done
}

# skewed SEED RECORDS LENGTH: one line a record of bases, of which G is frequent on this strand only, after A above all
skewed()
{
    awk -v seed="$1" -v records="$2" -v length_of="$3" 'BEGIN {
        srand(seed)
        for (r = 1; r <= records; r++) {
            print ">r" r; line = ""; last = "T"
            for (i = 0; i < length_of; i++) {
                x = rand()
                last = last == "A" ? (x < 0.9 ? "G" : "T") : x < 0.5 ? "G" : x < 0.8 ? "A" : x < 0.9 ? "C" : "T"
                line = line last
            }
            print line
        } }'
}

# trained FOLDER RANKS [KEY=VALUE]...
trained()
{
    local folder=$1 n=$2
    shift 2
    ranks "$n" train "$work/deck.cfg" output.folder="$work/$folder" "$@"
    check "$folder: trained" codes_are 0 "$n"
}

# field NAME FILE: a number of the whole result of eval
field()
{
    sed -n 's/^    "'"$1"'": \([^,]*\),*$/\1/p' "$2"
}

# evaluated NAME FOLDER FASTA [OPTION]...
evaluated()
{
    local name=$1 folder=$2 fasta=$3
    shift 3
    ranks 2 eval --checkpoint "$work/$folder" --fasta "$fasta" -o "$work/$name.json" "$@"
    check "eval $name ends with 0" codes_are 0 2
}

skewed 1 40 400 >"$work/train.fa"
skewed 2 6 300 >"$work/f.fa"
{ sed -n 1,2p "$work/f.fa"; printf '>ambiguous\nACGTNNRYACGTAAACCAG\n>one\nA\n>none\n'; } >>"$work/more.fa"
cat "$work/more.fa" >>"$work/f.fa"
reversed <"$work/f.fa" >"$work/r.fa"
check "another file" test "$(cmp "$work/f.fa" "$work/r.fa" 2>&1)"
"$CISTRON" prepare --tokenizer nucleotide -o "$work/d.h5" "$work/train.fa" >"$work/out" 2>&1
cat >"$work/deck.cfg" <<END
model = { layers = 2; hidden = 32; ffn = 64; heads = 4; positions = 512; };
data = { train = "$work/d.h5"; valid = "$work/d.h5"; row_tokens = 64; window = 64; };
train = { steps = 60; global_batch = 16; micro_batch = 4; };
optimizer = { lr = 5e-3; };
schedule = { warmup = 5; decay = 60; };
checkpoint = { every = 30; };
log = { every = 1; };
device = { threads = 1; };
END
trained plain 2
trained both 2 data.reverse_complement=0.5
trained one-rank 1 data.reverse_complement=0.5 train.steps=30
trained one-rank 1 data.reverse_complement=0.5 train.steps=60
check "ranks and a restart do not change the strands" close_losses <(losses "$work/both") <(losses "$work/one-rank") 1e-6
check "the other strand was read" test "$(cmp <(losses "$work/both") <(losses "$work/plain") 2>&1)"

# -- eval --------------------------------------------------------------------------------------------------------------
for model in plain both; do
    evaluated $model-f $model "$work/f.fa"
    evaluated $model-r $model "$work/r.fa"
    evaluated $model-both $model "$work/f.fa" --both-strands
    evaluated $model-turned $model "$work/r.fa" --both-strands
    for name in f r both turned; do
        echo "$(field token_weighted_ce_loss "$work/$model-$name.json") $(field total_valid_tokens "$work/$model-$name.json")"
    done >"$work/$model.losses"
    cat "$work/$model.losses"
done
# losses and tokens of lines 3 and 4 are those of lines 1 and 2 together
joined()
{
    awk '{ loss[NR] = $1; tokens[NR] = $2 }
        END {
            sum = (loss[1] * tokens[1] + loss[2] * tokens[2]) / (tokens[1] + tokens[2])
            for (i = 3; i <= 4; i++) bad += tokens[i] != tokens[1] + tokens[2] || (loss[i] - sum) ^ 2 > 1e-12
            exit bad > 0
        }' "$1"
}
check "both strands: the mean of two files" joined "$work/plain.losses"
check "both strands: the mean of two files (2)" joined "$work/both.losses"
check "each record counts both" test "$(grep -c '"num_valid_tokens": 598' "$work/plain-both.json")" -eq 7
check "the result says so" grep -q '"both_strands": true' "$work/plain-both.json"
# apart MODEL: how many nats the strands differ
apart()
{
    awk 'NR < 3 { loss[NR] = $1 } END { d = loss[1] - loss[2]; print d < 0 ? -d : d }' "$work/$1.losses"
}
check "trained on one strand: finds it likelier" awk "BEGIN { exit !($(apart plain) > 0.5) }"
check "trained on both: finds them alike" awk "BEGIN { exit !($(apart both) < 0.05) }"

# -- embed -------------------------------------------------------------------------------------------------------------
# numbers NAME: those of an .npy file, a row a line
numbers()
{
    od -An -v -t f4 -j 192 -w128 "$work/$1.npy"
}
# same_numbers FILE FILE: to 1e-6 of a row's largest
same_numbers()
{
    paste -d ' ' "$1" "$2" | awk '{
            n = NF / 2; most = 0
            for (i = 1; i <= n; i++) if ($i * $i > most) most = $i * $i
            for (i = 1; i <= n; i++) if (($i - $(n + i)) ^ 2 > 1e-12 * most) bad++
        } END { exit bad > 0 || NR == 0 }'
}
mean_of()
{
    paste -d ' ' "$1" "$2" | awk '{ n = NF / 2; line = ""; for (i = 1; i <= n; i++) line = line " " ($i + $(n + i)) / 2; print line }' OFMT=%.9g CONVFMT=%.9g
}
for pool in mean last none; do
    for name in f r; do
        ranks 2 embed --checkpoint "$work/plain" --fasta "$work/$name.fa" -o "$work/$pool-$name.npy" --pool $pool
    done
    for n in 1 2; do
        ranks $n embed --checkpoint "$work/plain" --fasta "$work/f.fa" -o "$work/$pool-both$n.npy" --pool $pool --both-strands
        check "embed --pool $pool --both-strands on $n ranks ends with 0" codes_are 0 $n
    done
    check "embed --pool $pool --both-strands: the same bytes" cmp "$work/$pool-both1.npy" "$work/$pool-both2.npy"
    numbers $pool-both1 >"$work/$pool.both"
    check "embed --pool $pool --both-strands differs from one strand" test "$(cmp "$work/$pool.both" <(numbers $pool-f) 2>&1)"
done
for pool in mean last; do
    mean_of <(numbers $pool-f) <(numbers $pool-r) >"$work/$pool.mean"
    check "embed --pool $pool --both-strands: the mean of two files" same_numbers <(grep -v nan "$work/$pool.mean") \
        <(grep -v nan "$work/$pool.both")
done
# a base's state and that of its complement, at the same place of a record of two strands: BOS, then 300 bases
{ numbers none-f | sed -n 1p; numbers none-f | sed -n 2,301p; } >"$work/forward"
{ numbers none-r | sed -n 1p; numbers none-r | sed -n 2,301p | tac; } >"$work/backward"
mean_of "$work/forward" "$work/backward" >"$work/aligned"
check "embed --pool none --both-strands: bases are aligned" same_numbers "$work/aligned" <(head -n 301 "$work/none.both")

# -- Mistakes ----------------------------------------------------------------------------------------------------------
"$CISTRON" import "$abs_top_srcdir/tests/golden/esm2_tiny" -o "$work/esm.h5" >"$work/out" 2>&1
refused "eval of proteins" "--both-strands: applies to models of nucleotides only" eval --checkpoint "$work/esm.h5" \
    --fasta "$work/f.fa" -o "$work/bad.json" --both-strands
refused "embed of proteins" "--both-strands: applies to models of nucleotides only" embed --checkpoint "$work/esm.h5" \
    --fasta "$work/f.fa" -o "$work/bad.h5" --both-strands
refused "a probability" "key data.reverse_complement = 2" train "$work/deck.cfg" data.reverse_complement=2
refused "special tokens at the ends of sequences" 'data.reverse_complement = 0.5: needs data.special_tokens = "window"' \
    train "$work/deck.cfg" data.reverse_complement=0.5 data.special_tokens=sequence output.folder="$work/bad"
"$CISTRON" prepare --tokenizer esm2 -o "$work/p.h5" "$abs_top_srcdir/tests/golden/embed_esm2.fa" >"$work/out" 2>&1
refused "training on proteins" "data.reverse_complement = 0.5: applies to nucleotides only" train "$work/deck.cfg" \
    data.reverse_complement=0.5 data.train="$work/p.h5" data.valid="$work/p.h5" model.family=esm2 model.kv_heads=4 output.folder="$work/bad"
finish
