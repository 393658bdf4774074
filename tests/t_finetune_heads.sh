#!/bin/bash
# Labels of CSV, Parquet, FASTA and JSON become a store's, and heads for sequences (classes, numbers, mean) and tokens learn
# them from a pretrained model: losses fall, depend on neither ranks nor layouts, and restarts are exact. transformers
# loads exported heads with the same loss and metrics, and they are imported. Early stopping ends a run for good. A new head is logged; another one, half a head, labels
# of another kind, and what a head does not do are refused.
. "$abs_top_srcdir/tests/lib.sh"
cd "$work" || exit 1
awk 'BEGIN { srand(3); split("KRH DEN ILVM", groups, " "); split("basic acid greasy", names, " ")
    print "id,sequence,kind,share,shape" >"p.csv"
    for (r = 0; r < 240; r++) {
        c = 1 + int(3 * rand()); s = ""; t = ""; n = 0; length_of = 12 + int(30 * rand())
        for (i = 0; i < length_of; i++) {
            own = rand() < 0.4
            letter = own ? substr(groups[c], 1 + int(3 * rand()), 1) : substr("ACDEFGHIKLMNPQRSTVWY", 1 + int(20 * rand()), 1)
            s = s letter; n += index("KRH", letter) > 0
            t = t (index("ILVMA", letter) ? "H" : index("FWY", letter) ? "E" : letter == "P" ? "?" : "C")
        }
        printf "p%d,%s,%s,%.4f,%s\n", r, s, names[c], n / length_of, t >"p.csv"
        printf ">p%d of no use kind=%s share=%.4f note=\"a kind=b\" shape=%s\n%s\n", r, names[c], n / length_of, t, s >"p.fa"
    } }'
awk -F, 'NR > 1 { printf "{\"id\": \"%s\", \"of\": {\"kind\": \"%s\", \"shape\": \"%s\"}, \"share\": %s, \"sequence\": \"%s\"}\n", $1, $3, $5, $4, $2 }' \
    p.csv >p.jsonl
{ echo '['; sed '$!s/$/,/' p.jsonl; echo ']'; } >p.json
# prepare NAME ARGUMENTS...
prepare()
{
    local name=$1
    shift
    "$CISTRON" prepare --tokenizer esm2 --field sequence -o "$name.h5" "$@" >out 2>&1
}

# -- Labels in stores --------------------------------------------------------------------------------------------------
for kind in "class kind" "number share" "token shape"; do
    # shellcheck disable=SC2086 # two words
    set -- $kind
    prepare "$1" --labels "$2" --label-kind "$1" --split train:0.75,valid:0.25 p.csv
    check "$1: prepared" test $? -eq 0
    "$CISTRON" prepare --tokenizer esm2 --labels "$2" --label-kind "$1" --split train:0.75,valid:0.25 -o "$1.fa.h5" p.fa >out 2>&1
    checksums=$(sed -n 's/.*checksum //p' out)
    check "$1: FASTA gives the same labels" test "$checksums" = \
        "$("$CISTRON" prepare --force --tokenizer esm2 --field sequence --labels "$2" --label-kind "$1" --split train:0.75,valid:0.25 -o "$1.h5" p.csv | sed -n 's/.*checksum //p')"
    "$CISTRON" inspect --verify "$1.train.h5" >out 2>&1
    check "$1: verified" test $? -eq 0
    label=of.$2 # of nested objects; a number's name is stored
    [ "$1" = number ] && label=$2
    for form in jsonl json; do
        "$CISTRON" prepare --force --tokenizer esm2 --field sequence --labels "$label" --label-kind "$1" \
            --split train:0.75,valid:0.25 -o "$1.$form.h5" p.$form >out 2>&1
        check "$1: $form gives the same labels" test "$(sed -n 's/.*checksum //p' out)" = "$checksums"
    done
done
prepare plain --split train:0.75,valid:0.25 p.csv
prepare named --labels kind --classes greasy,basic,acid p.csv
check "classes in their own order" says "labels: 3 classes: greasy, basic, acid"
"$CISTRON" prepare --tokenizer esm2 --field sequence --labels label -o parquet.h5 "$abs_top_srcdir/tests/golden/labels.parquet" >out 2>&1
check "Parquet: strings" says "labels: 2 classes: no, yes"
"$CISTRON" prepare --tokenizer esm2 --field sequence --labels fold -o parquet.h5 --force "$abs_top_srcdir/tests/golden/labels.parquet" >out 2>&1
check "Parquet: integers are classes, with those between" says "labels: 4 classes: 0, 1, 2, 3"
printf 'sequence,value,score\nMKV,0.1,-2.5\nMKVLA,1e-3,100\nW,7,0\n' >two.csv
"$CISTRON" prepare --tokenizer esm2 --field sequence --labels value,score --label-kind number -o two.h5 two.csv >out 2>&1
"$CISTRON" prepare --tokenizer esm2 --field sequence --labels value,score --label-kind number -o parquet.h5 --force "$abs_top_srcdir/tests/golden/labels.parquet" >>out 2>&1
check "Parquet: doubles and floats as in CSV" test "$(sed -n 's/.*checksum //p' out | sort -u | wc -l)" -eq 1

# bad TEXT SAYS FILE ARGUMENTS...
bad()
{
    local text=$1 words=$2
    shift 2
    "$CISTRON" prepare --tokenizer esm2 --field sequence -o bad.h5 "$@" >out 2>&1
    check "$text: exit code 2" test $? -eq 2
    check "$text: is said" says "$words"
    check "$text: nothing is left" test -z "$(compgen -G "bad*")"
}
printf 'sequence,kind\nMKV,a\nMKVLA,\nW,b\n' >some.csv
bad "a missing label" "record 2 has no label \"kind\"; --skip-bad" --labels kind some.csv
prepare some --labels kind --skip-bad some.csv
check "skipped" says "1 record without a label skipped (--skip-bad)"
bad "an unknown class" "the class \"greasy\", which --classes does not name" --labels kind --classes basic,acid p.csv
bad "not numbers" "is not a number that fp32 has" --labels kind --label-kind number p.csv
bad "too few labels" "tokens, but" --labels kind --label-kind token p.csv
bad "no column" "has no column \"colour\" (--labels or --split-column). It has: id, sequence, kind, share, shape" --labels colour p.csv
bad "a kind" "--label-kind kind: must be class, number or token" --labels kind --label-kind kind p.csv
bad "two fields" "must name one field" --labels kind,share p.csv
bad "Megatron" "--labels: not with --format megatron" --labels kind --format megatron p.csv
printf '{"sequence": "MKV", "kind": ["a"]}\n' >some.jsonl
bad "JSON, an array" 'some.jsonl:1: member "kind" is a label (--labels or --split-column): it must be a string or a' --labels kind some.jsonl
printf '{"sequence": "MKV", "kind": "a", "kind": "b"}\n' >some.jsonl
bad "JSON, twice" 'has member "kind" 2 times' --labels kind some.jsonl
printf '{"sequence": "MKV", "kind": null}\n' >some.jsonl
bad "JSON, null" "has no label \"kind\"; --skip-bad" --labels kind some.jsonl
printf '@read\nACDE\n+\nIIII\n' >some.fastq
bad "FASTQ" "files of format fastq have no labels" --labels kind some.fastq

# -- Training ----------------------------------------------------------------------------------------------------------
cat >deck.cfg <<END
data = { row_tokens = 128; window = 64; max_segments = 8; };
train = { steps = 12; global_batch = 8; micro_batch = 2; };
optimizer = { lr = 0.005; };
schedule = { kind = "constant"; };
log = { every = 1; };
device = { threads = 1; kind = "cpu"; };
END
"$CISTRON" train deck.cfg model.family=esm2 model.layers=2 model.hidden=32 model.ffn=64 model.heads=4 train.steps=2 \
    data.train=plain.train.h5 output.folder=lm >out 2>&1
check "pretrained" test $? -eq 0
# tune NAME STORE RANKS KEYS...: trains from the pretrained model
tune()
{
    local name=$1 store=$2 count=$3
    shift 3
    rm -rf "$name"
    ranks "$count" train deck.cfg model.initialise_from=lm data.train="$store.train.h5" data.valid="$store.valid.h5" \
        output.folder="$name" validation.rows=0 "$@"
}
# falls FOLDER FACTOR: the last validation's loss is below the first step's by this factor
falls()
{
    local first last
    first=$(losses "$1" | awk 'NR == 1 { print $2 }')
    last=$(sed -n 's/.*"event":"validation".*"loss":\([^,}]*\).*/\1/p' "$1/log.jsonl" | tail -n 1)
    awk -v first="$first" -v last="$last" -v factor="$2" 'BEGIN { exit !(last > 0 && last * factor < first) }' && return
    echo "    loss $first at first, $last at last" >&2
    return 1
}
class="model.head=sequence model.num_labels=3"
numbers="model.head=sequence model.num_labels=1 model.problem_type=regression"
tokens="model.head=token model.num_labels=3"
# shellcheck disable=SC2086 # words, here and below
tune class class 1 $class train.steps=30
check "classes are learned" falls class 2
check "the new head is said" says "a new head, initialised from train.seed: classifier.dense.weight, classifier.dense.bias, classifier.out_proj.weight, classifier.out_proj.bias; the language-model head of lm/"
# shellcheck disable=SC2086
tune mean class 1 $class model.pooling=mean train.steps=45
check "from the mean" falls mean 2
# shellcheck disable=SC2086
tune number number 1 $numbers train.steps=30
check "numbers are learned" falls number 3
# shellcheck disable=SC2086
tune token token 1 $tokens train.steps=30
check "classes of tokens are learned" falls token 2

# metric FOLDER: of the last validation
metric()
{
    sed -n 's/.*"event":"validation".*"\(accuracy\|spearman\)":\([-0-9.]*\).*/1 \2/p' "$1/log.jsonl" | tail -n 1
}
for kind in class number token; do
    keys=$class
    [ $kind = number ] && keys=$numbers
    [ $kind = token ] && keys=$tokens
    losses $kind >one
    for layout in "2 parallel.shard=full" "2 parallel.context=2" "2 parallel.pipeline=2" "2 parallel.tensor=2"; do
        # shellcheck disable=SC2086
        tune other $kind ${layout% *} $keys ${layout#* } train.steps=6
        check "$kind, $layout: trained" codes_are 0 "${layout% *}"
        losses other >two
        check "$kind, $layout: one rank's losses" close_losses <(head -n 6 one) two 1e-4
        [ "$layout" = "2 parallel.shard=full" ] && metric other >metric
        check "$kind, $layout: the metric of data ranks" close_losses metric <(metric other) 1e-3
    done
done
# shellcheck disable=SC2086
tune other token 2 $tokens parallel.tensor=2 parallel.sequence=false train.steps=6
check "tokens, whole rows on tensor ranks: one rank's losses" close_losses <(losses token | head -n 6) <(losses other) 1e-4
# shellcheck disable=SC2086
tune other class 2 $class model.pooling=mean parallel.tensor=2 train.steps=6
check "the mean, tensor parallel: one rank's losses" close_losses <(losses mean | head -n 6) <(losses other) 1e-4

# -- Weights of classes ------------------------------------------------------------------------------------------------
# shellcheck disable=SC2086
{
    tune plain_loss class 1 $class train.steps=1
    tune balanced class 1 $class train.steps=1 train.class_weights=balanced
    tune equal class 1 $class train.steps=1 "train.class_weights=3, 3, 3"
    tune acid class 1 $class train.steps=1 train.class_weights=1e9,1,1
    tune other class 2 $class train.steps=1 train.class_weights=1e9,1,1
    tune split class 2 $class train.steps=1 train.class_weights=1e9,1,1 parallel.tensor=2
}
loss_of()
{
    losses "$1" | head -n 1
}
check "equal weights change nothing" close_losses <(loss_of plain_loss) <(loss_of equal) 1e-6
check "balanced weights do" test "$(loss_of plain_loss)" != "$(loss_of balanced)"
check "a little: each class has about a third" close_losses <(loss_of plain_loss) <(loss_of balanced) 0.1
check "weights are of classes" test "$(loss_of acid)" != "$(loss_of plain_loss)"
check "on two ranks too" close_losses <(loss_of acid) <(loss_of other) 1e-6
check "on two tensor ranks too" close_losses <(loss_of acid) <(loss_of split) 1e-5

# -- Restarts ----------------------------------------------------------------------------------------------------------
# shellcheck disable=SC2086
tune whole class 1 $class train.freeze=trunk train.steps=8 checkpoint.every=4
cp -r whole half && rm half/step_00000008* half/final_model* half/log.jsonl
ranks 1 train deck.cfg model.initialise_from=lm data.train=class.train.h5 data.valid=class.valid.h5 output.folder=half \
    $class train.freeze=trunk train.steps=8 checkpoint.every=4
check "restarted" codes_are 0 1
check "a restart has the same digest" test -n "$(digest half 8)" -a "$(digest half 8)" = "$(digest whole 8)"
# shellcheck disable=SC2086
tune again class 1 $class model.initialise_from=class train.steps=2
check "a head is taken over" test -z "$(grep "new head" out)"
check "and begins where it was" awk 'NR == FNR { last = $2; next } FNR == 1 { exit !($2 < 2 * last + 0.1) }' \
    <(losses class | tail -n 1) <(losses again)
"$CISTRON" embed --checkpoint class --fasta p.fa -o e.h5 >out 2>&1
check "its states are embedded" test $? -eq 0

# -- Metrics and early stopping ----------------------------------------------------------------------------------------
# metrics FOLDER: of its validations
metrics()
{
    sed -n 's/.*"event":"validation",\("step":[0-9]*\).*"labels":[0-9]*,\(.*\),"seconds".*/\1 \2/p' "$1/log.jsonl" |
        sed 's/\(\.[0-9]\{5\}\)[0-9]*/\1/g'
}
for kind in class number; do
    keys=$class
    [ $kind = number ] && keys=$numbers
    # shellcheck disable=SC2086
    tune one $kind 1 $keys train.steps=6 validation.every=3
    # shellcheck disable=SC2086
    tune two $kind 2 $keys train.steps=6 validation.every=3 parallel.context=2
    check "$kind: metrics of two validations" test "$(metrics one | wc -l)" -eq 2
    check "$kind: two ranks have one rank's" test "$(metrics one)" = "$(metrics two)"
done
check "they are printed" grep -qE 'nats over [0-9]+ labels, Spearman -?0\.[0-9]{4}, R2 -?0' out
# shellcheck disable=SC2086
tune early class 1 $class train.steps=60 validation.every=4 validation.metric=accuracy validation.patience=2 \
    checkpoint.keep_best=true
check "early stopping" says "early stopping: no validation was better than that of step"
ended=$(sed -n 's/^# *\([0-9]*\) early stopping.*/\1/p' out)
check "it ends there, with a final model" test -e early/final_model.h5 -a -e "early/step_$(printf %08d "$ended").h5"
best=$(sed -n 's/.*better than that of step \([0-9]*\) .*/\1/p' out)
check "after two validations" test "$ended" -eq $((best + 8))
check "the best checkpoint is kept" test -e "early/step_$(printf %08d "$best").h5"
ranks 1 train deck.cfg model.initialise_from=lm data.train=class.train.h5 data.valid=class.valid.h5 output.folder=early \
    validation.rows=0 $class train.steps=60 validation.every=4 validation.metric=accuracy validation.patience=2 \
    checkpoint.keep_best=true
check "a resumed run has ended too" codes_are 0 1
check "at the same step" test "$(tail -n 1 <(losses early) | cut -d ' ' -f 1)" -le "$ended"
"$CISTRON" report early >out 2>&1
check "the report has the metrics" grep -qE '^accuracy +[01]\.[0-9]{4} in the validation at step' out

# -- transformers ------------------------------------------------------------------------------------------------------
awk 'BEGIN { srand(4); print "sequence,kind"; for (r = 0; r < 120; r++) { c = int(2 * rand()); s = ""
    for (i = 0; i < 40; i++) s = s substr(c ? "GGCCAT" : "AATTGC", 1 + int(6 * rand()), 1); print s "," (c ? "rich" : "poor") } }' >bases.csv
"$CISTRON" prepare --tokenizer nucleotide --field sequence --labels kind --split train:0.75,valid:0.25 -o bases.h5 bases.csv >out 2>&1
cp bases.train.h5 qwen2.train.h5 && cp bases.valid.h5 qwen2.valid.h5
cp bases.train.h5 qwen3.train.h5 && cp bases.valid.h5 qwen3.valid.h5
cp bases.train.h5 olmo2.train.h5 && cp bases.valid.h5 olmo2.valid.h5
for family in bases qwen2 qwen3 olmo2; do
    ranks 1 train deck.cfg model.family=${family/bases/llama} model.layers=2 model.hidden=32 model.ffn=64 model.heads=4 \
        model.kv_heads=2 model.head=sequence model.num_labels=2 data.train=$family.train.h5 data.valid=$family.valid.h5 \
        output.folder=$family validation.rows=0
    check "$family: from nothing" codes_are 0 1
done
for head in sequence:class token:token; do
    cp ${head#*:}.train.h5 esmc_${head%:*}.train.h5 && cp ${head#*:}.valid.h5 esmc_${head%:*}.valid.h5
    ranks 1 train deck.cfg model.family=esmc model.layers=2 model.hidden=32 model.ffn=64 model.heads=4 model.head=${head%:*} \
        model.num_labels=3 data.train=${head#*:}.train.h5 data.valid=${head#*:}.valid.h5 output.folder=esmc_${head%:*} validation.rows=0
    check "esmc, ${head%:*}: from nothing" codes_are 0 1
done
python=$(transformers_python)
kinds="class number token bases qwen2 qwen3 olmo2 esmc_sequence esmc_token"
for kind in $kinds; do
    "$CISTRON" export --checkpoint $kind -o hf_$kind >out 2>&1
    check "$kind: exported" test $? -eq 0
    "$CISTRON" import hf_$kind -o hf_$kind.h5 >out 2>&1
    check "$kind: imported" test $? -eq 0
    "$CISTRON" train deck.cfg model.initialise_from=hf_$kind.h5 data.train=$kind.train.h5 output.folder=back_$kind train.steps=1 >out 2>&1
    "$CISTRON" train deck.cfg model.initialise_from=$kind/final_model.h5 data.train=$kind.train.h5 output.folder=own_$kind train.steps=1 >out 2>&1
    check "$kind: the same model" test -n "$(losses back_$kind)" -a "$(losses back_$kind)" = "$(losses own_$kind)"
done
# shellcheck disable=SC2086 # words
"$python" "$abs_top_srcdir/tests/interop/heads.py" $kinds >python.out 2>python.err
if [ $? -eq 77 ]; then
    echo "not compared with transformers: $(tail -n 1 python.out)"
else
    for kind in $kinds; do
        check "$kind: transformers has the same loss and metrics" grep -q "^right $kind " python.out
    done
    [ "$(grep -c '^right ' python.out)" -eq 9 ] || sed 's/^/    | /' python.err python.out >&2
fi
sed 's/"classifier.out_proj.bias"/"classifier.out_proj.tilt"/' hf_class/model.safetensors >half.safetensors
cp -r hf_class half_hf && cp half.safetensors half_hf/model.safetensors
# no TEXT SAYS ARGUMENTS...
no()
{
    local text=$1 words=$2
    shift 2
    "$CISTRON" "$@" -o no >out 2>&1
    check "$text: exit code 2" test $? -eq 2
    check "$text: is said" says "$words"
}
no "half a head" "classifier.out_proj.bias: is missing; the model has it as [3]" import half_hf
no "a mean" "key model.pooling: EsmForSequenceClassification reads the first token of a sequence" export --checkpoint mean
no "a head in BioNeMo's dialect" "key model.head: BioNeMo has no class" export --checkpoint class --dialect te

# -- A model without a head --------------------------------------------------------------------------------------------
"$CISTRON" import "$abs_top_srcdir/tests/golden/esm2_base" -o base.h5 >out 2>&1
check "EsmModel: imported" says 'without a head (model.head = "none")'
"$CISTRON" import "$abs_top_srcdir/tests/golden/esm2_tiny" -o whole.h5 >out 2>&1
for model in base whole; do
    "$CISTRON" embed --checkpoint $model.h5 --fasta "$abs_top_srcdir/tests/golden/embed_esm2.fa" -o $model.npy >out 2>&1
done
check "EsmModel: the states of EsmForMaskedLM" cmp -s base.npy whole.npy
"$CISTRON" eval --checkpoint base.h5 --input "$abs_top_srcdir/tests/golden/embed_esm2.fa" -o no >out 2>&1
check "EsmModel: eval refuses it" test $? -eq 2
check "EsmModel: eval says why" says 'base.h5: has no language-model head (model.head = "none")'
for head in "" "model.head=sequence model.num_labels=3" model.head=lm; do
    # shellcheck disable=SC2086
    "$CISTRON" train deck.cfg model.initialise_from=base.h5 data.train=class.train.h5 validation.rows=0 train.steps=1 \
        output.folder="base_${head:11:2}" $head >out 2>&1
    case $head in
    "") check "EsmModel: nothing to train" says 'key model.head = "none": there is nothing to train' ;;
    *lm) check "EsmModel: a new language-model head" says "initialised from train.seed: lm_head.dense.weight" ;;
    *) check "EsmModel: a new head for sequences" says "initialised from train.seed: classifier.dense.weight" ;;
    esac
done

# -- Refusals ----------------------------------------------------------------------------------------------------------
"$CISTRON" prepare --tokenizer amplify --field sequence --labels kind -o amplify.h5 p.csv >out 2>&1
start="train deck.cfg model.initialise_from=lm output.folder=no"
# shellcheck disable=SC2086
{
    refused "no labels" "plain.train.h5 has no labels; prepare it with --labels" $start $class data.train=plain.train.h5
    refused "labels of another kind" "has numbers of each sequence; prepare it with --labels" $start $class data.train=number.train.h5
    refused "for tokens" "prepare it with --labels and --label-kind token" $start $tokens data.train=class.train.h5
    refused "too few classes" "key model.num_labels = 2: class.train.h5 has 3 classes" \
        $start model.head=sequence model.num_labels=2 data.train=class.train.h5
    refused "other classes" "numbers its classes differently than data.train" \
        $start $class data.train=class.train.h5 data.valid=named.h5
    refused "another head" "class/step_00000030.h5 has another head (model.head = \"sequence\", model.num_labels = 3" \
        train deck.cfg model.initialise_from=class output.folder=no model.num_labels=4 data.train=class.train.h5
    refused "tokens from a head for sequences" "has another head" \
        train deck.cfg model.initialise_from=class output.folder=no model.head=lm data.train=class.train.h5
    refused "a head of tokens that predicts numbers" "needs model.head = \"sequence\"" \
        $start $tokens model.problem_type=regression data.train=token.train.h5
    refused "a mean of several ranks" "key parallel.context = 2: not with model.pooling" \
        $start $class data.train=class.train.h5 parallel.context=2 model.pooling=mean
    refused "long sequences" "has sequences longer than a window" $start $class data.train=class.train.h5 data.window=32
    refused "a family without heads" "models of family amplify have no such head" train deck.cfg output.folder=no \
        model.family=amplify model.layers=2 model.hidden=32 model.ffn=64 model.heads=4 $class data.train=amplify.h5
    refused "moments of a new head" "key model.initialise_optimizer = true: not with a new head" \
        $start $class data.train=class.train.h5 model.initialise_optimizer=true
    refused "a metric that the head does not have" "key validation.metric = \"auc\": the model has loss, accuracy, f1 and mcc" \
        $start $class data.train=class.train.h5 validation.metric=auc
    refused "too few weights" "must be \"balanced\", or a positive number for each of 3 classes" \
        $start $class data.train=class.train.h5 train.class_weights=1,2
    refused "weights of numbers" "key train.class_weights: needs a fine-tuning head that learns classes" \
        $start $numbers data.train=number.train.h5 train.class_weights=balanced
    refused "patience without validations" "key validation.patience = 3: needs validation.every" \
        $start $class data.train=class.train.h5 validation.patience=3
    refused "scores of a head" "has a fine-tuning head (model.head) instead of a language-model head" \
        eval --checkpoint class --fasta p.fa -o no.json
}
check "nothing is left" test ! -e no
finish
