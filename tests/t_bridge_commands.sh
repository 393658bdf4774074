#!/bin/bash
# `cistron import` and `cistron export` report and exit as documented. A kill between any two system calls, or a full
# disk, leaves a whole result or none. Where transformers is installed, tests/interop/round_trip.py compares tensors,
# configurations, logits to 1e-5 of the model, and texts.
. "$abs_top_srcdir/tests/lib.sh"
golden="$abs_top_srcdir/tests/golden"

# ends CODE ARGUMENTS...: cistron ARGUMENTS ends with CODE; output to $work/out
ends()
{
    local expected=$1 code
    shift
    "$CISTRON" "$@" >"$work/out" 2>&1
    code=$?
    [ $code -eq "$expected" ] && return
    echo "    exit code $code instead of $expected" >&2
    sed 's/^/    | /' "$work/out" | tail -n 20 >&2
    return 1
}

once()
{
    [ "$(grep -cF -- "$1" "$work/out")" -eq 1 ] && return
    echo "    not said once: $1" >&2
    sed 's/^/    | /' "$work/out" >&2
    return 1
}

# -- The commands ------------------------------------------------------------------------------------------------------

cd "$work" || exit 1
check "import" ends 0 import "$golden/llama_tiny" -o llama.h5 --tokenizer nucleotide
check "a tokenizer that was named is not missed in the folder" test "$(grep -c warning: out)" -eq 0
check "says what it is" once "llama.h5: llama, 31904 parameters, tokenizer nucleotide, 0 tensors carried along"
check "inspect" ends 0 inspect llama.h5
check "the deck holds the model" says 'family = "llama"'
check "its rope" says 'original = 32'
check "generate" ends 0 generate --checkpoint llama.h5 --prompt ACGT --tokens 4
genome 3 300 >g.fa
check "eval" ends 0 eval --checkpoint llama.h5 --fasta g.fa -o eval.json
check "export" ends 0 export --checkpoint llama.h5 -o hf --dtype bf16 --shard-size 0.00003
check "its files" test "$(echo hf/*)" = "hf/config.json hf/generation_config.json hf/model-00001-of-00003.safetensors \
hf/model-00002-of-00003.safetensors hf/model-00003-of-00003.safetensors hf/model.safetensors.index.json \
hf/special_tokens_map.json hf/tokenizer.json hf/tokenizer_config.json"
check "import of an export knows its tokenizer" ends 0 import hf -o again.h5
check "says so" once "tokenizer nucleotide"
check "warns of nothing" test "$(grep -c warning "$work/out")" -eq 0
cp -r "$golden/llama_tiny" padded
sed -i 's/"pad_token_id": null/"pad_token_id": 65/' padded/config.json
check "a padding that is a base" ends 0 import padded -o padded.h5 --tokenizer nucleotide
check "is told" once "warning: padded/config.json: key pad_token_id = 65: transformers does not train"
check "the same tensors" cmp <("$CISTRON" inspect llama.h5 | sed 1d) <("$CISTRON" inspect again.h5 | sed 1d)
check "a slash at its end" ends 0 export --checkpoint llama.h5 -o slash/
check "is none of its name" test -f slash/model.safetensors
mkdir scratch
ln -s "$work/scratch" link
# shellcheck disable=SC2016
check "a link to an empty folder, and what a killed export of this number left" bash -c \
    'mkdir scratch.tmp-$$ && touch scratch.tmp-$$/model.safetensors && exec "$CISTRON" export --checkpoint llama.h5 -o link >"$0" 2>&1' "$work/out"
check "the link stays one" test -L link
check "its folder has the model, nothing else is left" test "$(cd scratch && echo ../scratch* model*)" = "../scratch model.safetensors"
check "export of a folder in use" ends 2 export --checkpoint llama.h5 -o hf
check "says so" once "hf: exists; name a new folder"
check "a type" ends 2 export --checkpoint llama.h5 -o new --dtype fp16
check "says so" once "--dtype fp16: must be fp32 or bf16"
check "a size" ends 2 export --checkpoint llama.h5 -o new --shard-size 0
check "says so" once "--shard-size 0: must be above 0"
check "below a file" ends 2 export --checkpoint llama.h5 -o llama.h5/new
check "is told" says "llama.h5/new: cannot be written: Not a directory"
check "no checkpoint" ends 2 export --checkpoint none.h5 -o new
check "says so" once "none.h5: cannot find"
mkdir run
check "a folder without" ends 2 export --checkpoint run -o new
check "says so" once "run: has no checkpoint"
cp llama.h5 damaged.h5
cp llama.h5.xxh3 damaged.h5.xxh3
printf 'XXXX' | dd of=damaged.h5 bs=1 seek=60000 conv=notrunc 2>/dev/null
check "a damaged checkpoint" ends 2 export --checkpoint damaged.h5 -o new
check "says so" once "damaged.h5: is damaged"
check "nothing was made" test ! -e new

check "import without a tokenizer" ends 0 import "$golden/llama_tiny" -o plain.h5
check "eval wants one" ends 2 eval --checkpoint plain.h5 --fasta g.fa -o eval.json
check "says so" once "plain.h5: its tokenizer is unknown"
check "export warns" ends 0 export --checkpoint plain.h5 -o plain
check "says so" once "plain: has no tokenizer files"
cp -r "$golden/llama_tiny" broken
shard=broken/model-00002-of-00003.safetensors # it ends with model.norm.weight, in bf16
printf '\300\177' | dd of=$shard bs=1 seek=$(($(wc -c <$shard) - 2)) conv=notrunc 2>/dev/null
check "import of a NaN" ends 0 import broken -o broken.h5 --tokenizer nucleotide
check "names its tensor" once "warning: broken: tensors with NaN or infinite values: 1, the first is model.norm.weight;"
check "eval of it" ends 3 eval --checkpoint broken.h5 --fasta g.fa -o broken.json
check "says so" once "broken.h5: the model's results are not finite"
check "embed of it" ends 3 embed --checkpoint broken.h5 --fasta g.fa --max-length 64 -o broken.vectors
check "says so" once "broken.h5: the model's results are not finite"
check "generate of it" ends 3 generate --checkpoint broken.h5 --prompt ACGT --tokens 4
check "says so" once "broken.h5: the model's results are not finite"
check "nothing was made" test ! -e broken.json -a ! -e broken.vectors
check "import of nothing" ends 2 import none -o new.h5
check "says so" once "none: cannot read the folder: No such file or directory"
check "import of a file" ends 2 import llama.h5 -o new.h5
check "import to nowhere" ends 2 import "$golden/llama_tiny" -o none/new.h5
check "says so" once "none/new.h5: cannot be written"
cp -r "$golden/llama_tiny" strange
sed -i 's/"hidden_act": "silu"/"hidden_act": "gelu"/' strange/config.json
check "an option" ends 2 import strange -o new.h5
check "says so" once "strange/config.json: key hidden_act = \"gelu\": is not supported; allowed: \"silu\""
check "nothing was made" test ! -e new.h5

# -- BioNeMo's dialect -------------------------------------------------------------------------------------------------

check "import of BioNeMo's" ends 0 import "$golden/te_esm2" -o te.h5
check "says so" once "te_esm2: in BioNeMo's dialect, for TransformerEngine; tensors ignored, since no output depends on them: 0"
check "export to it" ends 0 export --checkpoint te.h5 -o te --dialect te --dtype bf16
check "names what it lacks" once "te: needs BioNeMo's model classes: copy bionemo-recipes/models/esm2/modeling_esm_te.py into this folder as esm_nv.py"
check "warns of nothing" test "$(grep -c warning "$work/out")" -eq 0
check "its files" test "$(echo te/*)" = "te/config.json te/model.safetensors te/special_tokens_map.json te/tokenizer_config.json te/vocab.txt"
check "import of that" ends 0 import te -o te2.h5
check "the same tensors" cmp <("$CISTRON" inspect te.h5 | sed 1d) <("$CISTRON" inspect te2.h5 | sed 1d)
check "import of an ESM-2" ends 0 import "$golden/esm2_tiny" -o erf.h5
check "warns of nothing" test "$(grep -c warning "$work/out")" -eq 0
cp -r "$golden/esm2_tiny" tanh
sed -i 's/"hidden_size"/"hidden_act": "gelu_pytorch_tanh",\n  &/' tanh/config.json
check "import of one whose hidden_act transformers ignores" ends 0 import tanh -o tanh.h5
check "warns of it" once 'warning: tanh/config.json: key hidden_act = "gelu_pytorch_tanh": ignored, as by transformers'"'"' ESM-2; GELU is computed by erf'
check "it is the same model" cmp <("$CISTRON" inspect erf.h5 | sed 1d) <("$CISTRON" inspect tanh.h5 | sed 1d)
check "export of it" ends 0 export --checkpoint erf.h5 -o erf --dialect te
check "warns of GELU" once 'warning: erf: the model has model.gelu = "erf"; TransformerEngine computes GELU'
check "and of the contact head" once "warning: erf: tensors left out, since they are not trained and this dialect does not have them: 3"
check "a dialect" ends 2 export --checkpoint te.h5 -o new --dialect nemo
check "says so" once "--dialect nemo: must be hf or te"
check "export of one that is scaled" ends 0 import "$golden/te_llama_gqa" -o scaled.h5 --tokenizer nucleotide
check "export to it" ends 0 export --checkpoint scaled.h5 -o scaled --dialect te
check "names what it lacks" once "copy bionemo-recipes/models/llama3/modeling_llama_te.py into this folder as modeling_llama_te.py"
mkdir other
touch other/__0_0.distcp
check "a checkpoint of torch" ends 2 import other -o new.h5
check "is named" once "other: contains __0_0.distcp, but only safetensors can be read: save the model with save_pretrained (in BioNeMo's"

# -- Kills -------------------------------------------------------------------------------------------------------------

# killed CALL N ARGUMENTS...: cistron ARGUMENTS, killed in place of its Nth such call below $work
killed()
{
    local call=$1 number=$2
    shift 2
    { LD_PRELOAD="$abs_top_builddir/tests/shim.so" SHIM_FOLDER="$work" SHIM_KILL="$call:$number" "$CISTRON" "$@" >"$work/out" 2>&1; } 2>/dev/null
}

# until_whole CALL RESULT COMMAND... -- ARGUMENTS...: kills at the first, second, ... such call; after each RESULT is not
# there or COMMAND finds it whole; ends with the first that came through
until_whole()
{
    local call=$1 result=$2 code=137 n=0
    local -a whole=()
    shift 2
    while [ "$1" != -- ]; do
        whole+=("$1")
        shift
    done
    shift
    while [ $code -eq 137 ]; do
        rm -rf "${work:?}/$result" "$work/$result".*
        n=$((n + 1))
        killed "$call" $n "$@"
        code=$?
        if [ -e "$work/$result" ] && ! "${whole[@]}"; then
            echo "    a kill at $call $n left half of $result" >&2
            return 1
        fi
    done
    kills=$((kills + n - 1))
    [ $code -eq 0 ] && [ -e "$work/$result" ]
}

folder_is_whole()
{
    "$CISTRON" import "$work/killed" --force -o "$work/check.h5" >/dev/null 2>&1 &&
        [ -e "$work/killed/config.json" ] && [ -e "$work/killed/vocab.txt" ]
}

check "import" ends 0 import "$golden/esm2_tiny" -o esm2.h5
for call in rename pwrite fsync; do
    kills=0
    check "import, killed at any $call" until_whole $call killed.h5 "$CISTRON" export --checkpoint "$work/killed.h5" --force -o "$work/killed.h5.out" -- \
        import "$golden/esm2_tiny" -o "$work/killed.h5"
    check "there were kills" test $kills -ge 2
    echo "import, $call: $kills kills"
done
kills=0
check "export, killed at any rename" until_whole rename killed folder_is_whole -- \
    export --checkpoint "$work/esm2.h5" -o "$work/killed" --shard-size 0.00005
check "there were kills" test $kills -ge 8 # of four files, three shards, their index, the folder
echo "export, rename: $kills kills"

# a full disk is told, and leaves nothing
for arguments in "import $golden/esm2_tiny -o $work/full" "export --checkpoint $work/esm2.h5 -o $work/full"; do
    # shellcheck disable=SC2086
    (ulimit -f 60 && "$CISTRON" $arguments) >"$work/out" 2>&1
    check "a file that cannot grow" test $? -eq 1
    check "says so" says "File too large"
    check "nothing is left" test -z "$(ls -d "$work"/full* 2>/dev/null)"
done

# -- With transformers -------------------------------------------------------------------------------------------------

python=$(transformers_python)
if [ -n "$python" ]; then
    OMP_NUM_THREADS=1 "$python" "$abs_top_srcdir/tests/interop/round_trip.py" "$CISTRON" "$abs_top_builddir/tests/logits"
    status=$?
    [ $status -eq 77 ] || check "transformers and back" test $status -eq 0
fi
finish
