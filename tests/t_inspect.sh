#!/bin/bash
# `cistron inspect` reports the same as text and as JSON for token stores, checkpoints, final models and run folders,
# also damaged ones.
. "$abs_top_srcdir/tests/lib.sh"
needs python3
small_deck || exit 1
ranks 2 train "$work/deck.cfg" checkpoint.every=6
check "a run" codes_are 0 2

# json FILE EXPRESSION: true of the object `o` that --json prints, in Python
json()
{
    "$CISTRON" inspect --json "$1" >"$work/json" || return
    python3 -c "
import json, sys
o = json.load(open(sys.argv[1]))
if not ($2):
    sys.exit('    not so: %s' % json.dumps(o)[:2000])" "$work/json"
}

# text_has_all FILE: every number and text of the object is in the text, behind its key
text_has_all()
{
    "$CISTRON" inspect --json "$1" >"$work/json" && "$CISTRON" inspect "$1" >"$work/out" || return
    python3 - "$work/json" "$work/out" <<'END'
import json, sys
o, text = json.load(open(sys.argv[1])), open(sys.argv[2]).read()
def leaves(x):
    return [y for v in (x.values() if isinstance(x, dict) else x) for y in leaves(v)] if isinstance(x, (dict, list)) else [x]
lost = [k for k in o if k not in ("path", "kind") and "\n  " + k not in text]
lost += [x for x in leaves(o) if not isinstance(x, str) and ("%.6g" % x if isinstance(x, float) else json.dumps(x)) not in text]
lost += [line for x in leaves(o) if isinstance(x, str) for line in x.split("\n") if line not in text]
sys.exit("    not in the text: %s" % lost if lost else 0)
END
}

store="$work/g.train.h5"
check "a store" json "$store" "o['kind'] == 'token store' and o['tokenizer'] == 'nucleotide' and o['vocabulary'] == 256"
check "its sizes" json "$store" "o['token_bytes'] == 1 and o['sequences'] > 1 and o['tokens'] > 50000 and len(o['sources']) == 1"
check "its sequences" json "$store" "sum(s['tokens'] for s in o['first_sequences']) == o['tokens'] and o['sequences'] == len(o['first_sequences'])"
checksum=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["checksum"])' "$work/json")
check "its checksum is hexadecimal" test "$(printf %s "$checksum" | grep -c '^[0-9a-f]\{16\}$')" -eq 1

best=$(sed -n 's/.*"event":"validation","step":\([0-9]*\),"loss":\([^,]*\),.*/\2 \1/p' "$work/run/log.jsonl" | sort -g | head -n 1)
file="$work/run/step_00000012.h5"
check "a checkpoint" json "$file" "o['kind'] == 'checkpoint' and o['step'] == 12 and o['tokens'] == 12 * 7 * 64 and o['seed'] == 42 and o['ranks'] == 2"
check "its store" json "$file" "o['store_checksum'] == '$checksum' and o['tokenizer'] == 'nucleotide' and o['vocabulary'] == 256"
check "its place in the data" json "$file" "len(o['stores']) == 1 and o['stores'][0]['window'] + o['stores'][0]['epoch'] > 0 and o['offset'] >= 0"
check "its validations" json "$file" "o['validation_step'] == 12 and o['best_step'] == ${best#* } and abs(o['best_loss'] / ${best% *} - 1) < 1e-5"
check "its tensors" json "$file" "{'name': 'model.layers.1.mlp.down_proj.weight', 'type': 'f32', 'shape': [32, 64]} in o['tensors']"
check "its groups" json "$file" "[g['group'] for g in o['groups']] == ['model', 'optim/m', 'optim/v'] and all(g['tensors'] == len(o['tensors']) for g in o['groups'])"
check "its deck" json "$file" "o['deck'] == open('$work/run/deck.cfg').read().split('\n', 1)[1]"
check "a run folder is its newest checkpoint" json "$work/run" "o['step'] == 12 and o['path'] == '$file'"
check "a final model" json "$work/run/final_model.h5" "o['kind'] == 'model' and len(o['groups']) == 1"
for what in "$store" "$file" "$work/run/final_model.h5"; do
    check "$what: the text has it all" text_has_all "$what"
done

# begins TEXT FILE LINE...: the lines of the summary, behind path and kind
begins()
{
    local text=$1 file=$2
    shift 2
    "$CISTRON" inspect "$file" | sed -n '2,/^$/p' >"$work/out"
    check "$text begins with a summary" cmp "$work/out" <(printf '%s\n' "$@" '')
}
tokens=$("$CISTRON" inspect --json "$store" | sed -n 's/^  "tokens": \([0-9]*\)\([0-9][0-9][0-9]\),/\1,\2/p')
begins "a store" "$store" "  $tokens tokens (nucleotide) in $("$CISTRON" inspect --json "$store" | sed -n 's/^  "sequences": \([0-9]*\),/\1/p') sequences, from 1 file"
found="  best validation loss $(printf %.6f "${best% *}") nats per label (perplexity $(awk -v l="${best% *}" 'BEGIN { printf "%.4g", exp(l) }')), at step ${best#* }"
begins "a checkpoint" "$file" "  llama of 34,976 parameters on tokens of nucleotide, after 12 steps and 5,376 tokens" "$found" \
    "  weights and moments: a run can resume from it (cistron train --from)"
begins "a final model" "$work/run/final_model.h5" "  llama of 34,976 parameters on tokens of nucleotide, after 12 steps and 5,376 tokens" \
    "$found" "  weights alone: for eval, embed, generate, export and model.initialise_from"

printf '>caf\351 latin\nACGTACGT\n>g\303\251nome\nACGT\n' >"$work/names.fa"
"$CISTRON" prepare --tokenizer nucleotide -o "$work/names.h5" "$work/names.fa" >"$work/out" 2>&1
check "names in other encodings" json "$work/names.h5" "[s['name'] for s in o['first_sequences']] == ['caf?', 'g\u00e9nome']"

# stores that are not what was written
cp "$store" "$work/x.h5"
"$CISTRON" inspect --verify "$work/x.h5" >"$work/out" 2>&1
check "a whole store is verified" test $? -eq 0
refuses() # TEXT WORDS COMMAND...
{
    local text=$1 words=$2
    shift 2
    "$CISTRON" "$@" >"$work/out" 2>&1
    check "$text: exit code 2" test $? -eq 2
    check "$text: is said" says "$words"
}
"$abs_top_builddir/tests/hdf5_edit" "$work/x.h5" 'tokens[1000]' 78
"$abs_top_builddir/tests/hdf5_edit" "$work/x.h5" 'tokens[1001]' 78
"$CISTRON" inspect "$work/x.h5" >"$work/out" 2>&1
check "inspect alone reads no tokens" test $? -eq 0
refuses "tokens overwritten" "x.h5: is damaged: its tokens differ from those written" inspect --verify "$work/x.h5"
refuses "tokens overwritten, baseline" "x.h5: is damaged: its tokens" baseline "$store" "$work/x.h5"
cp "$store" "$work/x.h5"
"$abs_top_builddir/tests/hdf5_edit" "$work/x.h5" 'offsets[1]' 4611686018427387904
refuses "an offset of 2^62, inspect" "x.h5: is damaged: offset 1 is not between" inspect "$work/x.h5"
refuses "an offset of 2^62, baseline" "x.h5: is damaged: offset 1 is not between" baseline "$work/x.h5" "$store"
printf '>%s\nACGT\n' aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa >"$work/long.fa"
"$CISTRON" prepare --tokenizer nucleotide --force -o "$work/x.h5" "$work/long.fa" >"$work/out" 2>&1
for i in 3 5 7 9 11 13 15; do
    "$abs_top_builddir/tests/hdf5_edit" "$work/x.h5" "names[$i]" 10
done
check "more names than sequences" json "$work/x.h5" "[s['name'] for s in o['first_sequences']] == ['aaa']"
refuses "more names than sequences, verified" "x.h5: is damaged: its names" inspect --verify "$work/x.h5"

# what a file's names could do to a terminal is seen instead: ESC, the byte CSI, CSI as UTF-8, DEL
escapes='esc\033[31mred\233\302\233\177'
seen='esc\x1b[31mred\x9b\xc2\x9b\x7f'
printf ">$escapes\nACGT\n" | sed 's/\x1b//' >"$work/escapes.fa" # FASTA refuses ESC itself
"$CISTRON" prepare --tokenizer nucleotide -o "$work/escapes.h5" "$work/escapes.fa" >"$work/out" 2>&1
"$CISTRON" inspect "$work/escapes.h5" >"$work/out" 2>&1
check "control characters in names" test "$(LC_ALL=C grep -c '[^ -~]' "$work/out")" -eq 0
place=$(printf "$work/$escapes.fa")
printf '>a\nQQQQEEEE\n' >"$place"
"$CISTRON" prepare --tokenizer nucleotide -o "$work/place.h5" "$place" >"$work/out" 2>&1
"$CISTRON" prepare --tokenizer nucleotide --force -o "$work/place.h5" "$place.absent" >>"$work/out" 2>&1
"$CISTRON" inspect "$work/place.h5" >>"$work/out" 2>&1
place=$(printf "$work/$escapes.h5")
cp "$work/run/final_model.h5" "$place"
cp "$work/run/final_model.h5.xxh3" "$place.xxh3"
"$CISTRON" embed --checkpoint "$place" --fasta "$work/long.fa" -o "$work/vectors.h5" >"$work/embedded" 2>&1
check "vectors" test $? -eq 0
"$CISTRON" inspect "$work/vectors.h5" >"$work/vectors"
check "vectors begin with a summary" grep -qF "  vectors of 32 numbers, pool mean, by $work/esc\\x1b[31mred" "$work/vectors"
cat "$work/vectors" >>"$work/out"
check "control characters in paths" test "$(LC_ALL=C grep -c '[^ -~]' "$work/out")" -eq 0
check "they are named" test "$(grep -cF "$seen" "$work/out")" -eq 1

printf x | dd of="$file" bs=1 seek=3000 conv=notrunc 2>/dev/null
"$CISTRON" inspect --json "$file" >"$work/json" 2>"$work/out"
check "a damaged file: exit code 2" test $? -eq 2
check "a damaged file: nothing is printed" test ! -s "$work/json"
check "a damaged file: is said" says "is damaged"
finish
