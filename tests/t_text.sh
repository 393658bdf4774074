#!/bin/bash
# English works from text to text: prepare with a byte-level BPE tokenizer, train, eval, generate, export, import. Ids,
# losses and continuations match tokenizers and transformers, where Python has them. Mismatched tokenizers are refused;
# a chat model keeps its files and end tokens.
. "$abs_top_srcdir/tests/lib.sh"
tokenizer="$abs_top_srcdir/tests/golden/bpe_tiny"
text="$abs_top_srcdir/COPYING"
python=$(transformers_python)

# python_says TEXT ARGUMENTS...: the script finds no fault, if it has what it needs. A comma divides several checks, for
# which Python starts once.
python_says()
{
    local text=$1 code
    shift
    "$python" "$abs_top_srcdir/tests/interop/text_model.py" "$@" >"$work/python" 2>&1
    code=$?
    [ $code -eq 77 ] && return
    [ $code -eq 0 ] || sed 's/^/    | /' "$work/python" | tail -n 20 >&2
    check "$text" test $code -eq 0
}

# ends CODE ARGUMENTS...: cistron ARGUMENTS ends with CODE; output to $work/out
ends()
{
    local expected=$1 code
    shift
    timeout 60 "$CISTRON" "$@" >"$work/out" 2>&1
    code=$?
    [ $code -eq "$expected" ] && return
    echo "    exit code $code instead of $expected" >&2
    sed 's/^/    | /' "$work/out" | tail -n 20 >&2
    return 1
}

cd "$work" || exit 1
head -c 6000 "$text" >train.txt
tail -c +6001 "$text" | head -c 1500 >valid.txt
printf 'Caf\303\251 \360\237\230\200 na\303\257ve  tabs\t\tand\302\240blanks\342\200\203here\n' >>valid.txt

# -- prepare -----------------------------------------------------------------------------------------------------------

check "prepare" ends 0 prepare --tokenizer "$tokenizer" --input-format lines -o train.h5 train.txt
check "says what a token is worth" says "bytes of text, 2."
check "prepare valid" ends 0 prepare --tokenizer "$tokenizer/tokenizer.json" --input-format lines -o valid.h5 valid.txt
python_says "the ids are those of tokenizers" store valid.h5 "$tokenizer/tokenizer.json" valid.txt
# more jobs than threads, records longer than a job
for _ in $(seq 60); do cat "$text"; done >long.txt
for _ in $(seq 4); do cat long.txt train.txt; done >many.txt
for threads in 1 2 5; do
    check "prepare on $threads threads" ends 0 prepare --tokenizer "$tokenizer" --input-format lines --threads $threads \
        --force -o many.h5 many.txt many.txt
    many[threads]=$(sed -n 's/.*checksum //p' out)
    check "records longer than a job on $threads threads" ends 0 prepare --tokenizer "$tokenizer" --threads $threads \
        --force -o long.h5 long.txt train.txt long.txt
    long[threads]=$(sed -n 's/.*checksum //p' out)
done
check "one store on any number of threads" test -n "${many[1]}" -a "${many[1]}" = "${many[2]}" -a "${many[1]}" = "${many[5]}"
check "one store of long records too" test -n "${long[1]}" -a "${long[1]}" = "${long[2]}" -a "${long[1]}" = "${long[5]}"
check "inspect" ends 0 inspect train.h5
check "names the tokenizer" says "(bpe-"
check "and its files" says "tokenizer.json"

# -- train, eval, generate ---------------------------------------------------------------------------------------------

cat >deck.cfg <<'END'
model = { layers = 2; hidden = 32; ffn = 64; heads = 4; kv_heads = 2; vocabulary = 416; };
data = { train = "train.h5"; valid = "valid.h5"; row_tokens = 128; eos = false; };
train = { steps = 20; global_batch = 8; };
optimizer = { lr = 1e-2; };
checkpoint = { every = 10; export_final = true; };
output = { folder = "run"; };
device = { kind = "cpu"; threads = 1; };
END
check "train" ends 0 train deck.cfg
check "the store has no other tokens" says "vocabulary 416"
check "train again" ends 0 train deck.cfg train.steps=22
check "eval" ends 0 eval --checkpoint run --input valid.txt --input-format lines -o eval.json
check "says bits" says "bits a byte of"
"$CISTRON" generate --checkpoint run --prompt "The License " --tokens 24 --temperature 0 >greedy 2>/dev/null
grep . valid.txt >lines.txt
check "score" ends 0 score --checkpoint run --input lines.txt --input-format lines -o scores.csv
check "scores of eval" awk -F , 'NR == FNR { sum[FNR] = $0; next } FNR > 1 { d = $3 - sum[FNR - 1]; rows++; bad += !(d * d < 1e-12 * $3 * $3) }
    END { exit bad > 0 || rows < 5 }' <(sed -n 's/.*"sum_log_prob": \(.*\),/\1/p' eval.json | grep -vxF 0.0) scores.csv
for n in 1 2; do
    OMP_NUM_THREADS=1 ranks $n score --checkpoint run --input lines.txt --input-format lines -o scores$n.csv
    check "score on $n ranks" codes_are 0 $n
done
check "the same scores on two ranks" cmp scores1.csv scores2.csv
check "variants of a text are refused" ends 2 score --checkpoint run --fasta lines.txt --scan -o scan.csv
check "and the way to score it is named" says "--input FILE scores whole records"
export OMP_NUM_THREADS=1 # other numbers of threads may round in another way
check "embed" ends 0 embed --checkpoint run --input lines.txt --input-format lines -o lines.npy
python_says "losses and text, scores and vectors are those of transformers" \
    model run/final_model valid.txt eval.json "The License " greedy , scores run/final_model lines.txt scores.csv , \
    vectors run/final_model lines.txt lines.npy
check "embed of JSON lines" ends 0 embed --checkpoint run --field text --input-format jsonl -o jsonl.npy \
    --input <(python3 -c 'import json; [print(json.dumps({"text": line.rstrip("\n")})) for line in open("lines.txt")]')
check "the same vectors" cmp lines.npy jsonl.npy
check "on two ranks" ranks 2 embed --checkpoint run --input lines.txt --input-format lines -o two.npy
check "the same vectors on two ranks" cmp lines.npy two.npy
unset OMP_NUM_THREADS
check "long texts are truncated" ends 0 embed --checkpoint run --input lines.txt --input-format lines --max-length 9 -o short.h5
check "and counted" says "are longer than --max-length 9"
check "its own files are beside the model" cmp run/final_model/tokenizer.json "$tokenizer/tokenizer.json"
check "and what says who is who" cmp run/final_model/tokenizer_config.json "$tokenizer/tokenizer_config.json"
check "JSON lines too" ends 0 eval --checkpoint run --input <(printf '{"body": "The work."}\n') --field body \
    --input-format jsonl -o json.json
check "bytes of its text alone" grep -q '"text_bytes": 9,' json.json
"$CISTRON" generate --checkpoint run --prompt '<|begin_of_text|>' --tokens 60 --temperature 4 --seed 3 >wild 2>/dev/null
"$CISTRON" generate --checkpoint run --input <(printf 'The License\n<|begin_of_text|>\n') --tokens 40 --temperature 3 --n 3 >many.jsonl 2>err
check "many prompts of text" test "$(python3 -c 'import json; print(*[json.loads(l)["prompt"] for l in open("many.jsonl")], sep=",")')" = \
    "The License,The License,The License,<|begin_of_text|>,<|begin_of_text|>,<|begin_of_text|>"
"$CISTRON" generate --checkpoint run --prompt The --tokens 40 --temperature 3 --alphabet 'aeiounrst ' --output-format jsonl >vowels.jsonl 2>err
check "an alphabet of text" python3 -c 'import json; [r] = map(json.loads, open("vowels.jsonl")); assert 9 < len(r["text"]) and set(r["text"]) <= set("aeiounrst "), r'
check "an alphabet that no token has" ends 2 generate --checkpoint run --prompt The --alphabet 'aé'
check "FASTA of text is refused" ends 2 generate --checkpoint run --prompt The --output-format fasta
check "what is printed is UTF-8" iconv -f UTF-8 -t UTF-8 -o /dev/null wild

check "count models of text" ends 0 baseline train.h5 valid.h5
sed -n 's/ nats per token.*//p' out >counts
python_says "are those of counts in Python" counts train.h5 valid.h5 counts
refuses_order=$(sed -n 's/.*between 0 and \([0-9]*\) for.*/\1/p' <("$CISTRON" baseline train.h5 valid.h5 --orders 99 2>&1))
check "names the highest order" test "$refuses_order" -eq 5

# special tokens that are written in a text
for token in $(seq 12); do printf '{"id": %d, "content": "<|s%d|>", "special": true}, ' $((416 + token)) "$token"; done >added
mkdir specials
sed "s/\"added_tokens\": \[/&$(cat added)/" "$tokenizer/tokenizer.json" >specials/tokenizer.json
cp "$tokenizer/tokenizer_config.json" specials
{ for token in $(seq 12); do printf 'a<|s%d|>b<|s2|>\n' "$token"; done; printf '<|s1|\n'; } >specials.txt
for threads in 1 3; do
    check "prepare" ends 0 prepare --tokenizer specials --input-format lines --threads $threads -o specials$threads.h5 specials.txt
    check "special tokens of a text are counted and named on $threads threads" says "warning: the text contains 24 special tokens (1 <|s1|>,\
 13 <|s2|>, 1 <|s3|>, 1 <|s4|>, 1 <|s5|>, 1 <|s6|>, 1 <|s7|>, 1 <|s8|>, 4 others); special tokens in a text are encoded as text"
done
check "prepare of plain text" ends 0 prepare --tokenizer "$tokenizer" --input-format lines -o none.h5 train.txt
check "which has none" test "$(grep -c special out)" -eq 0
printf 'The <|begin_of_text|>work\n' >written.txt
check "eval of them" ends 0 eval --checkpoint run --input written.txt --input-format lines -o written.json
check "they are text there" says "the text contains 1 special token (1 <|begin_of_text|>); special tokens in a text are encoded as text"
"$CISTRON" generate --checkpoint run --prompt "The License " --tokens 24 --temperature 0 >one 2>err
check "a prompt without special tokens" test "$(grep -c special err)" -eq 0
"$CISTRON" generate --checkpoint run --prompt "<|begin_of_text|>The License " --tokens 24 --temperature 0 >two 2>out
check "a begin token that is written is not put before it again" cmp <(cut -d '>' -f 2 two) one
check "and that is said" says "# prompt: read as ids: 1 special token (1 <|begin_of_text|>); in 1 prompt the begin token is already there, so none is added"
"$CISTRON" generate --checkpoint run --prompt "<|begin_of_text|><|begin_of_text|>The License " --tokens 24 --temperature 0 >/dev/null 2>out
prompt_tokens()
{
    sed -n 's/^# prompts: \([0-9]*\) tokens.*/\1/p' "$1"
}
check "two that are written are two" test "$(prompt_tokens out)" -eq $(($(prompt_tokens err) + 1))
"$CISTRON" generate --checkpoint run --prompt $'The\nLicense\n' --tokens 4 --temperature 0 --output-format jsonl >lines 2>out
check "a prompt of text keeps its line ends" grep -q '"prompt": *"The\\nLicense\\n"' lines

# a tokenizer without a begin token, whose ids a Megatron data set has
mkdir endless
sed 's/begin_of_text/other/g; s/"post_processor": *{.*, *"decoder"/"post_processor": null, "decoder"/' \
    "$tokenizer/tokenizer.json" >endless/tokenizer.json
check "prepare for Megatron" ends 0 prepare --tokenizer endless --format megatron --input-format lines -o endless/set train.txt
check "train on it" ends 0 train deck.cfg data.train=endless/set data.tokenizer=endless data.valid= train.steps=1 \
    checkpoint.export_final=false output.folder=endless/run
check "eval without a begin token" ends 0 eval --checkpoint endless/run --input valid.txt -o endless/eval.json
check "which it says" grep -q '"bos": false' endless/eval.json
check "but not with one" ends 2 eval --checkpoint endless/run --input valid.txt --bos -o endless/eval.json
check "generate without one" ends 0 generate --checkpoint endless/run --prompt "The" --tokens 2

# -- import, export ----------------------------------------------------------------------------------------------------

check "import" ends 0 import run/final_model -o again.h5
check "keeps the tokenizer" says "tokenizer bpe-"
check "and how a text begins" test "$("$CISTRON" inspect again.h5 | grep -c 'eos = false')" -eq 1
check "export" ends 0 export --checkpoint again.h5 -o again
check "the same tokenizer" cmp again/tokenizer.json "$tokenizer/tokenizer.json"
check "its special ids" grep -q '"eos_token_id": 399' again/config.json
check "the same losses" ends 0 eval --checkpoint again.h5 --input valid.txt --input-format lines -o eval2.json
check "to the last digit" cmp <(grep sum_log_prob eval.json) <(grep sum_log_prob eval2.json)
cp -r run/final_model later
sed -i 's/"added_tokens": \[/&{"id": 416, "content": "<pad>", "special": true}, /' later/tokenizer.json
check "import with a token that the model never had" ends 0 import later -o later.h5
check "says so" says "later: the tokenizer is not imported: its tokenizer: has ids up to 416, but the model in later has ids up to 415"

# -- What else came with the model: every file of the tokenizer, every end token ------------------------------------------

cp -r run/final_model chat
letter=$(grep -o '"e": *[0-9]*' "$tokenizer/tokenizer.json" | head -n 1 | tr -dc 0-9)
sed -i "s/\"eos_token_id\": .*/\"eos_token_id\": [399, $letter],/" chat/config.json
printf '{"temperature": 0.6,\n "eos_token_id": [%d, 399], "top_p": 0.9}' "$letter" >chat/generation_config.json
printf '{%% for m in messages %%}<|%%s|>\303\251\0{%% endfor %%}' >chat/chat_template.jinja
printf '{"chat_template": "x"}' >chat/chat_template.json
printf '{"<pad>" : 7}\n' >chat/added_tokens.json
printf '{ "bos_token":"<|begin_of_text|>" }' >chat/special_tokens_map.json
printf '{"a": 1}' >chat/vocab.json
printf '#version: 0.2\na b\n' >chat/merges.txt
sed 's/"tokenizer_class"/"chat_template": "{{ x }}",\n  "model_max_length": 1000000000000000019884624838656,\n  &/; /"model_max_length": 64/d; s/false,$/false/' \
    "$tokenizer/tokenizer_config.json" >chat/tokenizer_config.json
kept="tokenizer.json tokenizer_config.json special_tokens_map.json generation_config.json added_tokens.json chat_template.jinja \
chat_template.json vocab.json merges.txt"

# as_it_came FOLDER: it has all files of chat's tokenizer, byte for byte, and config.json's end tokens
as_it_came()
{
    local name
    for name in $kept; do
        cmp "chat/$name" "$1/$name" || return 1
    done
    tr -d ' \n' <"$1/config.json" | grep -qF "\"eos_token_id\":[399,$letter]"
}

# ending CHECKPOINT: how a text of the letter e alone ends
ending()
{
    "$CISTRON" generate --checkpoint "$1" --prompt The --tokens 5 --temperature 0 --alphabet e --output-format jsonl 2>err |
        grep -o '"tokens":[0-9]*\|"end":"[a-z]*"' | tr '\n' ' '
}

check "import of a chat model" ends 0 import chat -o chat.h5
check "its tokenizer is the same" test "$(grep -o 'bpe-[0-9a-f]*' out)" = "$("$CISTRON" inspect train.h5 | grep -o 'bpe-[0-9a-f]*' | head -n 1)"
check "inspect names its files" test "$("$CISTRON" inspect chat.h5 | grep -c 'chat_template.jinja\|merges.txt')" -ge 1
check "export of it" ends 0 export --checkpoint chat.h5 -o chat.out
check "every file is as it came" as_it_came chat.out
check "in the other dialect too" ends 0 export --checkpoint chat.h5 -o chat.te --dialect te
check "every file is as it came there" as_it_came chat.te
check "without the other end the letter goes on" test "$(ending again.h5)" = '"tokens":5 "end":"length" '
check "with it a text ends" test "$(ending chat.h5)" = '"tokens":0 "end":"token" '
check "a run from it" ends 0 train deck.cfg model.initialise_from=chat.h5 train.steps=1 output.folder=tuned
check "has its files and ends" as_it_came tuned/final_model
check "ends so too" test "$(ending tuned)" = '"tokens":0 "end":"token" '
check "a run that goes on" ends 0 train deck.cfg model.initialise_from=chat.h5 train.steps=2 output.folder=tuned
check "has them too" as_it_came tuned/final_model
check "a store by its tokenizer" ends 0 prepare --tokenizer chat --input-format lines -o chat_store.h5 train.txt
check "a run on that" ends 0 train deck.cfg data.train=chat_store.h5 train.steps=1 output.folder=stored
for name in $kept; do
    check "keeps $name" cmp "chat/$name" "stored/final_model/$name"
done
check "the end tokens of the store's generation_config.json" test "$(ending stored)" = '"tokens":0 "end":"token" '
: >chat/merges.txt
mkdir chat/additional_chat_templates
check "an empty file beside a tokenizer" ends 0 import chat -o chat2.h5
check "is not kept, which is said" says "warning: chat/merges.txt: is empty and is not kept"
check "further chat templates too" says "warning: chat/additional_chat_templates: is not kept"
rm chat/vocab.json
mkfifo chat/vocab.json
check "a pipe among them" ends 0 import chat -o chat3.h5
check "is told, and nothing waits for it" says "the tokenizer is not imported: chat/vocab.json: cannot be read: it is not a regular file"

# -- Bytes that the vocabulary lacks ---------------------------------------------------------------------------------------

mkdir lacking
"$python" -c 'import json, sys; json.dump(json.load(open(sys.argv[1]))["tokenizer"], open("lacking/tokenizer.json", "w"))' \
    "$abs_top_srcdir/tests/golden/bpe_missing.json" 2>/dev/null || rm -r lacking
if [ -d lacking ]; then
    printf 'The licence\nOf é\n' >lacking.txt
    check "a text with a byte that has no token" ends 2 prepare --tokenizer lacking --input-format lines -o lacking.h5 lacking.txt
    check "is named with record and byte" says "record 2: lacking: byte 0xa9 of the text, at offset 4, has no token"
    check "nothing was made of it" test ! -e lacking.h5
    tr -d Qz <train.txt >lacking.txt
    check "a text without one" ends 0 prepare --tokenizer lacking --input-format lines -o lacking.h5 lacking.txt
fi

python_says "a rank file is made" ranks "$tokenizer/tokenizer.json" tiny.model
if [ -f tiny.model ]; then
    check "prepare by ranks" ends 0 prepare --tokenizer tiny.model --input-format lines -o ranks.h5 train.txt
    sed 's/vocabulary = 416/vocabulary = 0/; s/= "run"/= "ranks"/; s/valid = "valid.h5"/valid = ""/' deck.cfg >ranks.cfg
    sed -i 's/"train.h5"/"ranks.h5"/; s/steps = 20/steps = 1/' ranks.cfg
    check "train by ranks" ends 0 train ranks.cfg
    python_says "its tokenizer.json makes the same ids" same ranks/final_model/tokenizer.json "$tokenizer/tokenizer.json" valid.txt
fi

# -- SentencePiece ---------------------------------------------------------------------------------------------------------

spm="$abs_top_srcdir/tests/golden/spm_tiny"
mkdir llama2
cp "$spm/llama.json" llama2/tokenizer.json
cp "$spm/bpe.model" llama2/tokenizer.model
printf '{"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}\n' >llama2/tokenizer_config.json
check "prepare by Llama 2's kind of tokenizer" ends 0 prepare --tokenizer llama2 --input-format lines -o llama2.h5 train.txt
python_says "ids are those of tokenizers" store llama2.h5 llama2/tokenizer.json train.txt
sed 's/vocabulary = 416/vocabulary = 448/; s/= "run"/= "llama2_run"/; s/"train.h5"/"llama2.h5"/; s/valid = "valid.h5"/valid = ""/' deck.cfg >llama2.cfg
check "train" ends 0 train llama2.cfg train.steps=60
check "eval" ends 0 eval --checkpoint llama2_run --input valid.txt --input-format lines -o llama2.json
"$CISTRON" generate --checkpoint llama2_run --prompt "The License" --tokens 24 --temperature 0 >greedy 2>/dev/null
python_says "losses and text are those of transformers" model llama2_run/final_model valid.txt llama2.json "The License" greedy
for name in tokenizer.json tokenizer.model tokenizer_config.json; do
    check "keeps $name" cmp "llama2/$name" "llama2_run/final_model/$name"
done
check "import of it" ends 0 import llama2_run/final_model -o llama2_again.h5
check "has its tokenizer" test "$(grep -o 'bpe-[0-9a-f]*' out)" = "$("$CISTRON" inspect llama2.h5 | grep -o 'bpe-[0-9a-f]*' | head -n 1)"
# a model file alone
check "prepare by a model file" ends 0 prepare --tokenizer "$spm/unigram.model" --input-format lines -o unigram.h5 train.txt
check "train by it" ends 0 train llama2.cfg data.train=unigram.h5 model.vocabulary=0 train.steps=1 output.folder=unigram_run
check "exports the file" cmp "$spm/unigram.model" unigram_run/final_model/tokenizer.model
check "and no tokenizer.json of another" test ! -e unigram_run/final_model/tokenizer.json
check "import of that" ends 0 import unigram_run/final_model -o unigram_again.h5
check "has this tokenizer" says "unigram-"

# -- What does not fit -------------------------------------------------------------------------------------------------

# refuses TEXT WORDS ARGUMENTS...: one line, exit code 2
refuses()
{
    local text=$1 words=$2
    shift 2
    check "$text: exit code 2" ends 2 "$@"
    check "$text: is said" says "$words"
    check "$text: in one line" test "$(grep -c '^cistron: ' out)" -eq 1 -a "$(wc -l <out)" -eq 1
}

printf '>a\nACGT\n' >dna.fa
check "a store of bases" ends 0 prepare --tokenizer nucleotide -o dna.h5 dna.fa
refuses "no such tokenizer" "cistron: tokenizer none: unknown, and not a file or folder (seen from $work); known: nucleotide" \
    prepare --tokenizer none -o new.h5 train.txt
refuses "a folder without a tokenizer" "run: contains neither tokenizer.json nor tokenizer.model, nor vocab.json with merges.txt, nor vocab.txt" \
    prepare --tokenizer run -o new.h5 train.txt
head -c 4000 "$tokenizer/tokenizer.json" >cut.json
refuses "a tokenizer that is cut short" "cut.json" prepare --tokenizer cut.json -o new.h5 train.txt
printf '%4096s' '' >blank.json
refuses "a file of blanks" "blank.json:1: is not a line of a rank file" prepare --tokenizer blank.json -o new.h5 train.txt
refuses "letter case of text" "--case upper: applies to character tokenizers only" \
    prepare --tokenizer "$tokenizer" --case upper -o new.h5 train.txt
cp -r "$tokenizer" other
sed -i 's/"eos_token": .*/"eos_token": "<|begin_of_text|>",/' other/tokenizer_config.json
check "a tokenizer with another end" ends 0 prepare --tokenizer other --input-format lines -o other.h5 train.txt
refuses "a restart with another tokenizer" "tokens, but run/step_00000022.h5 was trained on bpe-" \
    train deck.cfg train.steps=24 data.train=other.h5 data.valid=
refuses "validation with another tokenizer" "key data.valid = \"other.h5\": has bpe-" \
    train deck.cfg data.valid=other.h5 output.folder=new
refuses "stores of two tokenizers" "has nucleotide tokens" train deck.cfg data.train=train.h5,dna.h5 output.folder=new
refuses "a vocabulary that is too small" "key model.vocabulary = 300: the token store data.train has ids up to 399" \
    train deck.cfg model.vocabulary=300 output.folder=new
refuses "proteins by words" "tokens without a mask token, which a masked model (model.objective) needs" train deck.cfg model.family=esm2 model.kv_heads=4 data.eos=true \
    model.vocabulary=0 output.folder=new
check "nothing was made" test ! -e new.h5 -a ! -e new.vectors
finish
