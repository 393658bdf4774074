#!/bin/bash
# `cistron eval` and `cistron generate` give the same results on every rank count, also where ranks share the weights,
# the tokens of a window or the key-value cache, and the recipe's metagenomes give 819,087 scored bases. Standard output holds text alone; mistakes in options and
# prompts give one message and exit code 2.
. "$abs_top_srcdir/tests/lib.sh"
small_deck || exit 1
ranks 1 train "$work/deck.cfg" train.steps=30 optimizer.lr=3e-3
check "a trained model" codes_are 0 1
# a tenth of the bases of the training: 4 ranks have 30 windows of 256 tokens and more
mv "$work/g.fa" "$work/trained.fa"
genome 1 4000 300 700 2000 90 1100 >"$work/g.fa"

# Differences between two results but world_size.
same_result()
{
    cmp <(grep -v '"world_size"' "$1") <(grep -v '"world_size"' "$2")
}

# Are the numbers of two results but world_size within a relative bound of each other?
close_numbers()
{
    paste <(numbers "$1") <(numbers "$2") | awk -v bound="$3" '
        { d = $1 - $2; d = d < 0 ? -d : d; m = $1 < 0 ? -$1 : $1; if (NF != 2 || d > bound * (m + 1e-3)) exit bad = 1 }
        END { exit bad || NR < 10 }'
}
numbers()
{
    grep -v '"world_size"' "$1" | grep -oE ': -?[0-9][0-9.e+-]*' | cut -c3-
}

# Results of generate but for what follows the eighth digit of a log-probability.
fields()
{
    sed -E 's/(log_probability=-?[0-9]+\.[0-9]{2})[0-9]*/\1/' "$1"
}

# -- eval ----------------------------------------------------------------------------------------------------------
# each rank with one thread, as the results' rounding may depend on threads
export OMP_NUM_THREADS=1
for n in 1 2 3 4; do
    ranks $n eval --checkpoint "$work/run" --fasta "$work/g.fa" -o "$work/eval$n.json" --overlap 16
    check "eval on $n ranks ends with 0" codes_are 0 $n
    check "eval on $n ranks: the result of 1" same_result "$work/eval1.json" "$work/eval$n.json"
    check "eval says how many ranks" grep -q "\"world_size\": $n," "$work/eval$n.json"
done
for n in 2 3; do
    ranks $n eval --checkpoint "$work/run" --fasta "$work/g.fa" -o "$work/shard$n.json" --overlap 16 --shard
    check "eval on $n ranks that share the weights ends with 0" codes_are 0 $n
    check "eval on $n ranks that share the weights: is said" says "# $n ranks share the weights: each has a shard"
    check "eval on $n ranks that share the weights: the result of 1" same_result "$work/eval1.json" "$work/shard$n.json"
done
# windows of four times those of the training
ranks 1 train "$work/deck.cfg" train.steps=6 model.positions=256 "output.folder=\"$work/wide\""
check "a model of 256 positions" codes_are 0 1
ranks 1 train "$work/deck.cfg" train.steps=1 model.positions=40000 "output.folder=\"$work/far\""
check "a model of 40000 positions" codes_are 0 1
for n in 1 2; do
    for batch in 1 3; do
        ranks $n eval --checkpoint "$work/wide" --fasta "$work/g.fa" -o "$work/wide$n$batch.json" --context 256 \
            --overlap 16 --batch $batch
        check "eval of windows of 256 on $n ranks, batch $batch" codes_are 0 $n
        check "eval of windows of 256: warns" says "more than the context of 64 that the model was trained with"
        check "eval of windows of 256: says so" grep -q '"max_seq_length": 256' "$work/wide$n$batch.json"
        check "eval of windows of 256 on $n ranks, batch $batch: one result" \
            same_result "$work/wide11.json" "$work/wide$n$batch.json"
    done
done
ranks 1 eval --checkpoint "$work/wide" --fasta "$work/g.fa" -o "$work/wide250.json" --context 250 --overlap 16
check "eval of windows of 250" codes_are 0 1
refused "more than the positions" "--context 257: must be 2 to 256, the positions of this model (model.positions)" \
    eval --checkpoint "$work/wide" --fasta "$work/g.fa" -o "$work/bad.json" --context 257 --overlap 16
wide=(score --checkpoint "$work/wide" --fasta "$work/wide.fa" --mutations "$work/wide.csv")
genome 5 250 >"$work/wide.fa"
base=$(tail -n +2 "$work/wide.fa" | tr -d '\n' | cut -c100)
printf 'name,mutation\nrecord1,%s100%s\n' "$base" "$(echo "$base" | tr ACGT CGTA)" >"$work/wide.csv"
for n in 1 2; do
    ranks $n "${wide[@]}" -o "$work/wide$n.csv" --context 256
    check "score in windows of 256 on $n ranks" codes_are 0 $n
    check "score in windows of 256: warns" says "more than the context of 64 that the model was trained with"
    check "score in windows of 256 on $n ranks: one result" cmp "$work/wide1.csv" "$work/wide$n.csv"
done
ranks 1 "${wide[@]}" -o "$work/narrow.csv"
check "a score depends on the window" test "$(tail -n 1 "$work/wide1.csv")" != "$(tail -n 1 "$work/narrow.csv")"
refused "score beyond the positions" "--context 257: must be 4 to 256" "${wide[@]}" -o "$work/bad.csv" --context 257
# ranks that share each window's tokens: attention by heads on 2, by a ring on 3 and 4; windows of 250 tokens, and less
for how in "2 --context-parallel 2" "3 --context-parallel 3" "4 --context-parallel 4" "4 --context-parallel 2 --tensor 2" \
    "4 --context-parallel 2 --shard" "4 --context-parallel 2 --batch 3"; do
    # shellcheck disable=SC2086
    ranks ${how%% *} eval --checkpoint "$work/wide" --fasta "$work/g.fa" -o "$work/parts.json" --force --context 250 \
        --overlap 16 ${how#* }
    check "eval on $how ends with 0" codes_are 0 "${how%% *}"
    check "eval on $how: the losses of 1" close_numbers "$work/wide250.json" "$work/parts.json" 1e-6
done
refused "context ranks that do not divide the ranks" "--context-parallel 3: must divide the number of ranks, 2" \
    eval --checkpoint "$work/wide" --fasta "$work/g.fa" -o "$work/bad.json" --context-parallel 3
# each rank reads the records
mkfifo "$work/pipe"
ranks 1 eval --checkpoint "$work/run" --fasta - -o "$work/piped.json" --overlap 16 <"$work/g.fa"
check "eval on one rank takes a pipe" close_numbers "$work/eval1.json" "$work/piped.json" 0
for input in - "$work/pipe"; do
    RANKS_SECONDS=60 ranks 2 eval --checkpoint "$work/run" --fasta "$input" -o "$work/none.json"
    check "eval on 2 ranks, $input: exit code 2" codes_are 2 2
    check "eval on 2 ranks, $input: is said" says "is not a regular file, and each of the 2 ranks reads all records"
done
genome 3 400 500 >"$work/rank0.fa"
genome 3 400 600 700 700 700 >"$work/rank1.fa"
# shellcheck disable=SC2016
printf '#!/bin/sh\nexec "%s" "$@" --fasta "%s/rank$OMPI_COMM_WORLD_RANK.fa"\n' "$CISTRON" "$work" >"$work/own_file"
chmod +x "$work/own_file"
RANKS_SECONDS=60 CISTRON=$work/own_file ranks 2 eval --checkpoint "$work/run" -o "$work/none.json"
check "eval of other records on another rank: exit code 2" codes_are 2 2
check "eval of other records on another rank: is said" says "ranks have read different records from this file"
check "eval: no result of these" test ! -e "$work/none.json"

ranks 4 eval --checkpoint "$work/run" --fasta "$work/g.fa" -o "$work/teams.json" --overlap 16 --tensor 2
check "eval by teams of 2 ends with 0" codes_are 0 4
check "eval by teams of 2: the losses of 1" close_numbers "$work/eval1.json" "$work/teams.json" 1e-5
ranks 2 eval --checkpoint "$work/run" --fasta "$work/g.fa" -o "$work/thirds.json" --tensor 3
check "teams that ranks cannot be divided into" says "--tensor 3: must divide the number of ranks, 2"
# all bases of the 6 records but the first of each
check "every base but a record's first" grep -q '"total_valid_tokens": 8184$\|"total_valid_tokens": 8184,' "$work/eval1.json"
check "all records" grep -q '"total_sequences": 6' "$work/eval1.json"
for field in checkpoint checkpoint_type fasta seed max_seq_length mask_degenerate_bases world_size aggregate \
    token_weighted_ce_loss token_weighted_perplexity token_weighted_log_prob per_seq_avg_ce_loss \
    per_seq_avg_perplexity per_seq_avg_log_prob total_valid_tokens total_sequences per_sequence seq_idx seq_name \
    mean_log_prob sum_log_prob num_valid_tokens cross_entropy_loss perplexity seq_length; do
    check "field $field" grep -q "^ *\"$field\":" "$work/eval1.json"
done
ranks 2 eval --checkpoint "$work/run" --fasta "$work/g.fa" -o "$work/bos.json" --overlap 16 --bos
check "with BOS every base" grep -q '"total_valid_tokens": 8190' "$work/bos.json"
gzip -c "$work/g.fa" >"$work/g.fa.gz"
ranks 2 eval --checkpoint "$work/run/step_00000030.h5" --fasta "$work/g.fa.gz" -o "$work/gz.json" --overlap 16
check "compressed, a file named" codes_are 0 2
check "compressed: the same total" cmp <(grep token_weighted_ce "$work/gz.json") <(grep token_weighted_ce "$work/eval1.json")

# soft-masked records and prompts mean the same as capitals
sed '/>/!y/ACGT/acgt/' "$work/g.fa" >"$work/soft.fa"
ranks 2 eval --checkpoint "$work/run" --fasta "$work/soft.fa" -o "$work/soft.json" --overlap 16
check "soft-masked records: the same total" cmp <(grep token_weighted_ce "$work/soft.json") <(grep token_weighted_ce "$work/eval1.json")
check "soft-masked records: counted" says "8190 of 8190 letters (100.0 %) are lower case"
ranks 1 eval --checkpoint "$work/run" --fasta "$work/soft.fa" -o "$work/soft.json" --force --overlap 16 --case keep
check "as they are they are unknown to this model" \
    test "$(cmp <(grep token_weighted_ce "$work/soft.json") <(grep token_weighted_ce "$work/eval1.json") 2>&1)"
"$CISTRON" generate --checkpoint "$work/run" --prompt ACGTTGCA --tokens 20 --temperature 0 2>/dev/null | cut -c 9- >"$work/a"
"$CISTRON" generate --checkpoint "$work/run" --prompt acgttgca --tokens 20 --temperature 0 2>"$work/out" | cut -c 9- >"$work/b"
check "a soft-masked prompt: the same text" cmp "$work/a" "$work/b"
check "a soft-masked prompt: said" says "# prompt: 8 lower-case letters read as capitals"
"$CISTRON" generate --checkpoint "$work/run" --prompt $'ACGUU\n GCA\n' --tokens 20 --temperature 0 2>"$work/out" | cut -c 9- >"$work/b"
check "a prompt of RNA, on two lines, is read like DNA on one" cmp "$work/a" "$work/b"
check "and that is said" says "# prompt: U, as in RNA, is read as T 2 times"
"$CISTRON" generate --checkpoint "$work/run" --prompt 'ACGÉ' >"$work/out" 2>&1
check "bytes that no sequence has are refused in a prompt" test $? -eq 2
check "they are named" says "--prompt: contains byte 0xc3, so it is not a sequence"
"$CISTRON" generate --checkpoint "$work/run" --prompt 'ACG<mask>' --tokens 2 >"$work/b" 2>"$work/out"
check "special tokens are not read in a prompt" says "5 of 9 bases are not A, C, G, T or N: 1 '<', 1 '>', 1 'K', 1 'M', 1 'S'"
"$CISTRON" generate --checkpoint "$work/run" --prompt 'ACG 123' --tokens 2 >"$work/a" 2>"$work/out"
check "an unknown prompt is warned of" says "are 50 % of the prompt;"

# whole genomes of the recipe's test: 819,087 scored bases in any context
metagenomes=$CISTRON_SHARED/data/metagenomics.fasta
if [ -f "$metagenomes" ]; then
    ranks 2 eval --checkpoint "$work/run" --fasta "$metagenomes" -o "$work/meta.json" --overlap 7
    check "the recipe's number of scored bases" grep -q '"total_valid_tokens": 819087' "$work/meta.json"
fi

# -- generate ------------------------------------------------------------------------------------------------------
for how in "--temperature 0" "--seed 6 --top-k 3 --top-p 0.9 --temperature 0.8"; do
    # shellcheck disable=SC2086
    "$CISTRON" generate --checkpoint "$work/run" --prompt ACGTTGCA --tokens 50 $how >"$work/text1" 2>"$work/rates"
    check "generate $how ends with 0" test $? -eq 0
    check "generate $how: one line of text" test "$(wc -l <"$work/text1")" -eq 1
    check "generate $how: begins with the prompt" grep -q '^ACGTTGCA[ -~]*$' "$work/text1"
    check "generate $how: rates on standard error" grep -q 'tokens/s' "$work/rates"
    for n in 2 3; do
        # shellcheck disable=SC2086
        timeout 60 $MPIRUN -n $n "$CISTRON" generate --checkpoint "$work/run" --prompt ACGTTGCA --tokens 50 $how \
            >"$work/text$n" 2>/dev/null
        check "generate $how on $n ranks: the same" cmp "$work/text1" "$work/text$n"
        # shellcheck disable=SC2086
        timeout 60 $MPIRUN -n $n "$CISTRON" generate --checkpoint "$work/run" --prompt ACGTTGCA --tokens 50 $how --shard \
            >"$work/text$n" 2>/dev/null
        check "generate $how on $n ranks that share the weights: the same" cmp "$work/text1" "$work/text$n"
    done
    # shellcheck disable=SC2086
    timeout 60 $MPIRUN -n 2 "$CISTRON" generate --checkpoint "$work/run" --prompt ACGTTGCA --tokens 50 $how --tensor 2 \
        >"$work/text2" 2>/dev/null
    check "generate $how on 2 ranks with a part of each layer: the same" cmp "$work/text1" "$work/text2"
done
"$CISTRON" generate --checkpoint "$work/run" --prompt ACGTTGCA --tokens 50 --seed 5 >"$work/a" 2>/dev/null
"$CISTRON" generate --checkpoint "$work/run" --prompt ACGTTGCA --tokens 50 --seed 6 >"$work/b" 2>/dev/null
check "another seed, another text" test "$(cmp "$work/a" "$work/b" 2>&1)"
"$CISTRON" generate --checkpoint "$work/run" --tokens 90 >"$work/a" 2>"$work/b"
check "longer than the context is allowed" test $? -eq 0
check "and said" grep -q '# up to 91 tokens with the prompt: the model sees the last 33 to 64' "$work/b"
"$CISTRON" generate --checkpoint "$work/wide" --tokens 90 --context 100 --temperature 0 >"$work/a" 2>"$work/b"
check "a context beyond the training's is warned of" grep -q 'warning: --context 100 is more than the context of 64' "$work/b"
"$CISTRON" generate --checkpoint "$work/wide" --tokens 90 --context 256 --temperature 0 >"$work/a256" 2>/dev/null
check "a context of as many tokens as positions: the same text" cmp "$work/a" "$work/a256"
# ranks that share the keys and values of each sequence, in blocks of 64 tokens; the context moves with 100 tokens of it
long=$(sed -n '2,4p' "$work/wide.fa" | tr -d '\n' | cut -c1-150)
printf '>a\n%s\n>b\nACGTACG\n>c\n%s\n' "$long" "${long:20:70}" >"$work/long.fa"
for context in 256 100; do
    cached=(generate --checkpoint "$work/wide" --input "$work/long.fa" --n 2 --tokens 100 --context "$context" --force)
    ranks 1 "${cached[@]}" -o "$work/cached1.fa"
    check "generate in a context of $context ends with 0" codes_are 0 1
    for how in "2 --context-parallel 2" "3 --context-parallel 3 --batch 2" "4 --context-parallel 2 --tensor 2" \
        "4 --context-parallel 2 --shard"; do
        # shellcheck disable=SC2086
        ranks ${how%% *} "${cached[@]}" -o "$work/cached.fa" ${how#* }
        check "generate in a context of $context on $how ends with 0" codes_are 0 "${how%% *}"
        check "generate in a context of $context on $how: the texts of 1" \
            cmp <(fields "$work/cached1.fa") <(fields "$work/cached.fa")
    done
done
refused "generate beyond the positions" "--context 257: must be 2 to 256, the positions of this model (model.positions)" \
    generate --checkpoint "$work/wide" --tokens 90 --context 257

# many prompts: no batch, order of formats or number of ranks changes a text
printf '>one x\nACGT\n>two\nACGTTTTGGGACACA\nCACACA\n>three\nA\n' >"$work/p.fa"
printf '{"id": "one", "seq": "ACGT"}\n{"id": "two", "seq": "ACGTTTTGGGACACACACACA"}\n{"id": "three", "seq": "A"}\n' >"$work/p.jsonl"
printf 'ACGT\nACGTTTTGGGACACACACACA\nA\n' >"$work/p.txt"
many="generate --checkpoint $work/run --tokens 70 --n 2 --seed 3"
# shellcheck disable=SC2086
{
    "$CISTRON" $many --input "$work/p.fa" --batch 1 -o "$work/many.fa" 2>"$work/rates"
    check "many prompts end with 0" test $? -eq 0
    check "rates of prompts and of steps" grep -q 'generated: [0-9]* tokens, 1 at a time ([0-9.]* tokens/s, [0-9.]* ms' "$work/rates"
    for batch in 2 5 64; do
        "$CISTRON" $many --input "$work/p.fa" --batch $batch >"$work/batch.fa" 2>"$work/out"
        check "many prompts, $batch at once: the same" cmp <(fields "$work/many.fa") <(fields "$work/batch.fa")
    done
    for n in 2 3; do
        timeout 60 $MPIRUN -n $n "$CISTRON" $many --input "$work/p.fa" --batch 2 >"$work/batch.fa" 2>"$work/out"
        check "many prompts on $n ranks: the same" cmp <(fields "$work/many.fa") <(fields "$work/batch.fa")
    done
    timeout 60 $MPIRUN -n 2 "$CISTRON" $many --input "$work/p.fa" --batch 2 --shard >"$work/batch.fa" 2>"$work/out"
    check "many prompts on 2 ranks that share the weights: the same" cmp <(fields "$work/many.fa") <(fields "$work/batch.fa")
    timeout 60 $MPIRUN -n 2 "$CISTRON" $many --input "$work/p.fa" --batch 2 --tensor 2 >"$work/batch.fa" 2>"$work/out"
    check "many prompts on 2 ranks with a part of each layer: the same" cmp <(fields "$work/many.fa") <(fields "$work/batch.fa")
    "$CISTRON" $many --input "$work/p.jsonl" --field seq -o "$work/many.jsonl" 2>"$work/out"
    "$CISTRON" $many --input - --output-format jsonl <"$work/p.txt" >"$work/lines.jsonl" 2>"$work/out"
    "$CISTRON" $many --input "$work/p.fa" --alphabet acgt --context 16 --output-format jsonl >"$work/limited.jsonl" 2>"$work/out"
    "$CISTRON" generate --checkpoint "$work/run" --prompt ACGT --tokens 70 --seed 3 --output-format jsonl >"$work/single.jsonl" 2>"$work/out"
    "$CISTRON" generate --checkpoint "$work/run" --prompt ACGT --tokens 70 --seed 3 >"$work/single" 2>"$work/out"
}
check "results as python reads them" python3 - "$work" <<'END'
import json, re, sys
def records(name):
    return [json.loads(line) for line in open(f"{sys.argv[1]}/{name}")]
fasta = []
for line in open(f"{sys.argv[1]}/many.fa").read().split("\n"):
    if line.startswith(">"):
        name, *pairs = line[1:].split(" ")
        fasta.append([name, dict(pair.split("=") for pair in pairs), ""])
    elif line:
        assert len(line) <= 80
        fasta[-1][2] += line
prompts = {"one": "ACGT", "two": "ACGTTTTGGGACACACACACA", "three": "A"}
both = records("many.jsonl")
assert [(r["record"], r["sample"]) for r in both] == [(p, s) for p in prompts for s in (1, 2)]
for r, (name, pairs, text) in zip(both, fasta, strict=True):
    assert r["record"] == name and r["prompt"] == prompts[name] and re.sub("[>; ]", "?", r["prompt"] + r["text"]) == text
    assert r["tokens"] == len(r["text"]) == int(pairs["tokens"]) and r["sample"] == int(pairs["sample"])
    assert len(r["prompt"]) == int(pairs["prompt"]) and r["end"] == pairs["end"]
    assert (r["end"] == "length") == (r["tokens"] == 70) or r["end"] == "token"
    assert abs(r["log_probability"] - float(pairs["log_probability"])) < 1e-4
    assert -6.5 * (r["tokens"] + 1) < r["log_probability"] < -0.5 * r["tokens"]
assert len({r["text"] for r in both}) == 6
lines = records("lines.jsonl")
assert [r["record"] for r in lines] == list("112233") and [r["text"] for r in lines] == [r["text"] for r in both]
limited = records("limited.jsonl")
assert len(limited) == 6 and all(re.fullmatch("[ACGT]*", r["text"]) for r in limited)
single = records("single.jsonl")
assert len(single) == 1 and single[0]["text"] == both[0]["text"]
assert open(f"{sys.argv[1]}/single").read() == "ACGT" + both[0]["text"] + "\n"
END

# what begins a record or a comment is '?', and counted; of a prompt blanks and line ends are dropped
"$CISTRON" generate --checkpoint "$work/run" --prompt $'AC>G\n>T ;*' --alphabet '>;A*' --tokens 300 --temperature 50 --case keep --n 60 \
    -o "$work/odd.fa" >"$work/out" 2>&1
check "a text that FASTA cannot hold: exit code 0" test $? -eq 0
check "is a record each" test "$(grep -c '>' "$work/odd.fa")" -eq 60 -a "$(grep -v '^>prompt ' "$work/odd.fa" | tr -d '\nACGT*?' | wc -c)" -eq 0
check "with as many characters" test "$(grep -v '^>' "$work/odd.fa" | tr -d '\n' | wc -c)" -eq \
    "$(sed -n 's/.* prompt=\([0-9]*\) tokens=\([0-9]*\) .*/\1 \2/p' "$work/odd.fa" | awk '{ n += $1 + $2 } END { print n }')"
check "the prompt's are replaced" test "$(grep -c '^AC?G?T?\*' "$work/odd.fa")" -eq 60
odd=$(grep -v '^>' "$work/odd.fa" | tr -dc '?' | wc -c)
check "some of the model's too" test "$odd" -gt $((60 * 3 + 30))
check "how many is said once" test "$(grep -c "^warning: characters that FASTA does not allow, written as '?': $odd (" "$work/out")" -eq 1
"$CISTRON" generate --checkpoint "$work/run" --prompt 'A>' --alphabet '>' --tokens 5 --n 9 --output-format jsonl >"$work/odd.jsonl" 2>"$work/out"
check "JSON lines keep them" grep -q '"prompt":"A>","text":">[>]*","tokens":' "$work/odd.jsonl"
check "without a word" test "$(grep -c 'FASTA does not allow' "$work/out")" -eq 0

for what in --help --version "train --help"; do
    # shellcheck disable=SC2086
    "$CISTRON" $what >/dev/full 2>"$work/out"
    check "$what to a full device: exit code 1" test $? -eq 1
done
"$CISTRON" generate --checkpoint "$work/none" --prompt --help >"$work/out" 2>&1
check "--help as an option's value is one" test $? -eq 2
"$CISTRON" generate --checkpoint "$work/run" --tokens 3 >/dev/full 2>"$work/out"
check "a full disk behind standard output: exit code 1" test $? -eq 1
check "and said" says "standard output could not be written"
"$CISTRON" eval --checkpoint "$work/run" --fasta "$work/g.fa" -o "$work/half.json" >"$work/out" 2>&1
check "half a context shorter than 200 is the overlap" grep -q '"overlap": 32' "$work/half.json"

# -- mistakes ------------------------------------------------------------------------------------------------------
: >"$work/empty.fa"
printf 'ACGT\n' >"$work/bare.fa"
{ head -c 20000 "$work/g.fa"; printf '\001\002'; } >"$work/binary.fa"
head -c 1000 "$work/g.fa.gz" >"$work/cut.fa.gz"
scored="eval --checkpoint $work/run --overlap 16 -o $work/bad.json --fasta"
# shellcheck disable=SC2086
{
    refused "no FASTA" "none.fa" $scored "$work/none.fa"
    refused "empty FASTA" "empty.fa" $scored "$work/empty.fa"
    refused "no header" "bare.fa" $scored "$work/bare.fa"
    refused "binary behind good records" "binary.fa" $scored "$work/binary.fa"
    refused "cut gzip" "cut.fa.gz" $scored "$work/cut.fa.gz"
    refused "overlap as long as the context" "--overlap 64" $scored "$work/g.fa" --overlap 64
    refused "no overlap" "--overlap 0" $scored "$work/g.fa" --overlap 0
    refused "context too long" "--context 65" $scored "$work/g.fa" --context 65
    refused "batch" "--batch -1" $scored "$work/g.fa" --batch -1
}
refused "no checkpoint" "$work/none.h5" eval --checkpoint "$work/none.h5" --fasta "$work/g.fa" -o "$work/bad.json"
refused "output nowhere" "no_folder" eval --checkpoint "$work/run" --fasta "$work/g.fa" -o "$work/no_folder/x.json" --overlap 16
cp "$work/g.fa" "$work/mine.fa"
refused "output is the input" "mine.fa: is an input and the output" eval --checkpoint "$work/run" --fasta "$work/mine.fa" -o "$work/mine.fa"
check "which stays" cmp "$work/g.fa" "$work/mine.fa"
refused "output is a folder" "not a regular file" eval --checkpoint "$work/run" --fasta "$work/g.fa" -o "$work/run"
refused "an empty path" "--output: the value is empty" eval --checkpoint "$work/run" --fasta "$work/g.fa" -o ""
refused "a store is no checkpoint" "g.train.h5" generate --checkpoint "$work/g.train.h5"
refused "no tokens" "--tokens 0" generate --checkpoint "$work/run" --tokens 0
refused "temperature" "--temperature -1" generate --checkpoint "$work/run" --temperature -1
refused "temperature not a number" "--temperature nan" generate --checkpoint "$work/run" --temperature nan
refused "top-p" "--top-p 1.5" generate --checkpoint "$work/run" --top-p 1.5
prompts="generate --checkpoint $work/run --tokens 3 --input"
# shellcheck disable=SC2086
{
    refused "prompts that are not there" "none.fa" $prompts "$work/none.fa"
    refused "no prompts" "has no record" $prompts "$work/empty.fa"
    refused "prompts twice" "--prompt and --input" $prompts "$work/p.fa" --prompt ACGT
    refused "no samples" "--n 0" $prompts "$work/p.fa" --n 0
    refused "a batch of less than one" "--batch -3" $prompts "$work/p.fa" --batch -3
    refused "more rows than a cache has" "--batch 65536: sequences of up to 40000 tokens allow at most 53687" \
        generate --checkpoint "$work/far" --input "$work/p.fa" --n 65536 --batch 65536 --tokens 40000 --context 40000
    refused "a context of one token" "--context 1" $prompts "$work/p.fa" --context 1
    refused "an unknown format of results" "--output-format csv" $prompts "$work/p.fa" --output-format csv
    refused "an alphabet that no token has" "has no token for 'é'" $prompts "$work/p.fa" --alphabet ACGé
    refused "an empty alphabet" '--alphabet' $prompts "$work/p.fa" --alphabet ''
    refused "prompts over themselves" "is an input and the output" $prompts "$work/p.fa" -o "$work/p.fa"
    refused "results that are not compressed" "x.fa.gz: results are not compressed" $prompts "$work/p.fa" -o "$work/x.fa.gz"
    refused "results nowhere" "no_folder" $prompts "$work/p.fa" -o "$work/no_folder/x.fa"
}
refused "top-k" "--top-k -2" generate --checkpoint "$work/run" --top-k -2
# stopped in the middle of a long evaluation (one window of two tokens for each base)
stopped_at_work "$work/bad.json" eval --checkpoint "$work/run" --fasta "$work/trained.fa" --context 2 --overlap 1 --batch 1
finish
