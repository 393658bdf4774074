#!/bin/bash
# Each family learns causally and masked, from bases and from proteins: better than count models of its tokens. A causal
# model's state of a token does not depend on later tokens, a masked model's does. Eval, generate, embed, score, export
# and import take each pair, and an imported export has the same loss. Pairs that do not fit are refused in one line.
. "$abs_top_srcdir/tests/lib.sh"
cd "$work" || exit 1

# letters ALPHABET FACTOR: 200 records of 60 letters; a letter mostly follows from the one before it.
letters()
{
    awk -v letters="$1" -v factor="$2" 'BEGIN {
        srand(4); n = length(letters)
        for (r = 0; r < 200; r++) {
            line = ""; state = int(n * rand())
            for (i = 0; i < 60; i++) {
                line = line substr(letters, state + 1, 1)
                state = rand() < 0.8 ? (state * factor + 1) % n : int(n * rand())
            }
            print ">r" r; print line
        } }'
}
letters ACGT 1 >nucleotide_mask.fa
letters ACDEFGHIKLMNPQRSTVWY 3 >esm2.fa
for tokens in nucleotide_mask esm2; do
    "$CISTRON" prepare --tokenizer $tokens --split train:0.9,valid:0.1 -o $tokens.h5 $tokens.fa >out || exit 1
    "$CISTRON" baseline --orders 0 $tokens.train.h5 $tokens.valid.h5 >$tokens.counts || exit 1
done
cat >deck.cfg <<END
model = { layers = 2; hidden = 32; ffn = 64; heads = 2; init_std = 0.1; };
data = { row_tokens = 64; };
train = { steps = 150; global_batch = 16; micro_batch = 16; };
optimizer = { lr = 3e-3; };
schedule = { warmup = 10; };
validation = { rows = 0; };
checkpoint = { every_minutes = 0.0; };
log = { every = 50; };
device = { threads = 1; };
END

# below LOSS LIMIT MARGIN
below()
{
    LC_ALL=C awk -v loss="$1" -v limit="$2" -v margin="$3" 'BEGIN { exit !(loss != "" && loss + 0 < limit - margin) }' && return
    echo "    loss $1, which is not $3 below $2" >&2
    return 1
}

# loss_of FILE: of eval's JSON
loss_of()
{
    sed -n 's/.*"token_weighted_ce_loss": *\([0-9.]*\).*/\1/p' "$1"
}

# first_states RUN FASTA: the states of the first five tokens of the record
first_states()
{
    "$CISTRON" embed --checkpoint "$1" --fasta "$2" --pool none --force -o states.npy >out 2>&1 || return
    head -c $((128 + 5 * 32 * 4)) states.npy | tail -c $((5 * 32 * 4))
}

for tokens in nucleotide_mask esm2; do
    head -n 2 $tokens.fa >one.fa
    sed '2s/.$/C/' one.fa >other.fa
    cmp -s one.fa other.fa && sed '2s/.$/A/' one.fa >other.fa
    for family in llama esm2 amplify; do
        for objective in causal masked; do
            run=$tokens.$family.$objective
            ranks 1 train deck.cfg model.family=$family model.objective=$objective data.train=$tokens.train.h5 \
                data.valid=$tokens.valid.h5 output.folder="$run"
            check "$run: trains" codes_are 0 1
            check "$run: says its objective" says "$objective $family of"
            loss=$(sed -n 's/.*"event":"validation","step":150,"loss":\([^,]*\),.*/\1/p' "$run/log.jsonl")
            name=$([ $objective = causal ] && echo order-0 || echo masked-order-0)
            check "$run: learns" below "$loss" "$(awk -v n=$name '$1 == n { print $2 }' $tokens.counts)" 0.25

            "$CISTRON" eval --checkpoint "$run" --fasta $tokens.fa -o "$run.json" >out 2>&1
            check "$run: eval" grep -q "\"objective\": \"$objective\"" "$run.json"
            check "$run: eval finds what training learned" below "$(loss_of "$run.json")" "$loss" -0.1
            "$CISTRON" generate --checkpoint "$run" --prompt AC --tokens 20 --temperature 0 >out 2>&1
            code=$?
            if [ $objective = causal ]; then
                check "$run: generates" test $code -eq 0
                check "$run: letters of its alphabet" grep -qE '^AC[A-Y]{1,20}$' out
            else
                check "$run: does not generate" test $code -eq 2
            fi
            first_states "$run" one.fa >a
            first_states "$run" other.fa >b
            check "$run: states" test "$(wc -c <a)" -eq 640
            cmp -s a b
            same=$?
            if [ $objective = causal ]; then
                check "$run: later tokens are not seen" test $same -eq 0
            else
                check "$run: later tokens are seen" test $same -eq 1
            fi
            "$CISTRON" score --checkpoint "$run" --fasta one.fa --scan --force -o scan.csv >out 2>&1
            check "$run: scores" test $? -eq 0 -a "$(wc -l <scan.csv)" -gt 180

            "$CISTRON" export --checkpoint "$run" -o "$run.hf" >out 2>&1
            code=$?
            if [ "$family.$objective" = llama.masked ] || [ "$family.$objective" = amplify.causal ]; then
                check "$run: no class of transformers" test $code -eq 2
                check "$run: is said" says "key model.objective = \"$objective\": not supported by"
                continue
            fi
            check "$run: exports" test $code -eq 0
            "$CISTRON" import "$run.hf" -o "$run.h5" >out 2>&1
            check "$run: the tokenizer of the folder" says "tokenizer $tokens,"
            "$CISTRON" eval --checkpoint "$run.h5" --fasta $tokens.fa --context 64 --force -o again.json >out 2>&1
            check "$run: imported, the same loss" test "$(loss_of again.json)" = "$(loss_of "$run.json")"
        done
    done
done

# a table of k-mers, as the Nucleotide Transformer has: masked and causal models of text tokenizers
mkdir kmers
printf '%s\n' '<unk>' '<pad>' '<mask>' '<cls>' {A,C,G,T}{A,C,G,T}{A,C,G,T} A C G T N '<eos>' >kmers/vocab.txt
echo '{"tokenizer_class": "EsmTokenizer"}' >kmers/tokenizer_config.json
awk '/^>/ { next } { print }' nucleotide_mask.fa >kmers.txt
"$CISTRON" prepare --tokenizer kmers --input-format lines --split train:0.9,valid:0.1 -o kmers.h5 kmers.txt >out 2>&1
check "k-mers: prepared" says "3600 tokens"
for objective in causal masked; do
    run=kmers.$objective
    ranks 1 train deck.cfg model.family=esm2 model.objective=$objective data.train=kmers.train.h5 \
        data.valid=kmers.valid.h5 data.bos=true output.folder="$run"
    check "$run: trains" codes_are 0 1
    loss=$(sed -n 's/.*"event":"validation","step":150,"loss":\([^,]*\),.*/\1/p' "$run/log.jsonl")
    check "$run: learns" below "$loss" 4.17 0.5 # ln 64 = 4.159
    "$CISTRON" eval --checkpoint "$run" --input kmers.txt --input-format lines -o "$run.json" >out 2>&1
    check "$run: eval" grep -q "\"objective\": \"$objective\"" "$run.json"
    "$CISTRON" export --checkpoint "$run" -o "$run.hf" >out 2>&1
    check "$run: exports the table" cmp kmers/vocab.txt "$run.hf/vocab.txt"
    "$CISTRON" import "$run.hf" -o "$run.h5" >out 2>&1
    check "$run: and imports it" says "tokenizer words-"
    head -n 4 kmers.txt >few.txt
    "$CISTRON" score --checkpoint "$run" --input few.txt --input-format lines -o "$run.csv" >out 2>&1
    check "$run: scores" test "$(wc -l <"$run.csv")" -eq 5
    cut -c -60 few.txt | sed 's/.*/{"text": "&", "other": "A"}/' >few.jsonl
    "$CISTRON" score --checkpoint "$run" --input few.jsonl -o json.csv --force >out 2>&1
    check "$run: the same scores of JSON lines" cmp <(cut -d , -f 2- json.csv) <(cut -d , -f 2- "$run.csv")
done
python=$(transformers_python)
"$python" "$abs_top_srcdir/tests/interop/text_model.py" scores kmers.masked.hf few.txt kmers.masked.csv >out 2>&1
code=$?
[ $code -eq 77 ] || check "k-mers: pseudo-log-likelihoods of transformers" test $code -eq 0
"$CISTRON" generate --checkpoint kmers.causal --prompt ACGTAC --tokens 5 --temperature 0 >out 2>&1
check "k-mers: generates" grep -qE '^[ACGTN]{7,21}$' out

# what does not fit
"$CISTRON" prepare --tokenizer nucleotide -o plain.h5 nucleotide_mask.fa >out || exit 1
refused "no mask token" "plain.h5 has nucleotide tokens without a mask token" train deck.cfg model.objective=masked \
    data.train=plain.h5 output.folder=new
refused "a preset's vocabulary" "set model.vocabulary = 256" train deck.cfg model.preset=esm2_8m data.train=plain.h5 \
    model.objective=causal output.folder=new
refused "another objective at a restart" "model.objective" train deck.cfg model.family=llama model.objective=masked \
    data.train=nucleotide_mask.train.h5 output.folder=nucleotide_mask.llama.causal train.steps=160
check "nothing was made" test ! -e new
finish
