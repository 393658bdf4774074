#!/bin/bash
# The Python package of contrib/python reads what the program writes: runs, logs, checkpoints, embeddings, scores and
# token stores, compared with h5py, json and csv (tests/interop/python_reader.py). pip installs it, the examples of its
# README print what the README says, and its notebook runs. Skipped without numpy and h5py; the notebook needs nbconvert
# too.
. "$abs_top_srcdir/tests/lib.sh"
export OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1
needs python3
python=$(transformers_python)
if ! "$python" -c 'import numpy, h5py' 2>/dev/null; then
    echo "skipped: numpy or h5py is missing in $python"
    exit 77
fi
golden=$abs_top_srcdir/tests/golden
package=$abs_top_srcdir/contrib/python

# made ARGUMENTS...: cistron ARGUMENTS in the scratch folder ends with 0
made()
{
    (cd "$work" && "$CISTRON" "$@") >"$work/out" 2>&1
    check "cistron $*" test $? -eq 0
}

# pip installs a copy, because it builds in the source's folder
if "$python" -c 'import setuptools' 2>/dev/null && "$python" -m pip --version >/dev/null 2>&1; then
    cp -r "$package" "$work/source"
    chmod -R u+w "$work/source"
    "$python" -m pip install -q --no-index --no-deps --no-build-isolation --target "$work/site" "$work/source" \
        >"$work/out" 2>&1
    check "pip installs it" test $? -eq 0
    export PYTHONPATH=$work/site
    found=$(cd "$work" && "$python" -c 'import cistron; print(cistron.__file__)')
    check "the installed package is found" test "$found" = "$work/site/cistron/__init__.py"
else
    echo "not tried: pip (this Python has no pip or setuptools)"
    export PYTHONPATH=$package
fi
version=$("$CISTRON" --version | sed -n '1s/^[^0-9]*\([0-9.]*[0-9]\).*/\1/p')
check "its version is the program's" grep -qx "version = \"$version\"" "$package/pyproject.toml"

# -- files -----------------------------------------------------------------------------------------------------------
genome 1 40000 300 7000 >"$work/g.fa"
cp "$golden/embed_esm2.fa" "$work/p.fa"
awk '/^>/ { on = /insulin/ } on' "$work/p.fa" >"$work/b.fa"
printf '>twin\nMKV\n>twin\nACD\n' >"$work/twins.fa"
cut -d, -f1-3 "$golden/score_esm2.csv" >"$work/m.csv"
printf 'mutant\tDMS_score\nF1A\t0.5\nWT\t1.5\n' >"$work/m.tsv"
cat >"$work/run.cfg" <<'DECK'
model = { layers = 2; hidden = 32; ffn = 64; heads = 4; };
data = { train = "g.h5"; row_tokens = 64; };
train = { steps = 12; global_batch = 2; };
checkpoint = { every = 6; };
log = { every = 1; };
device = { threads = 1; };
output = { folder = "run"; };
DECK
made prepare --tokenizer nucleotide -o g.h5 g.fa
made prepare --tokenizer esm2 -o p.h5 p.fa
made prepare --tokenizer amplify -o a.h5 p.fa
made train run.cfg
made import "$golden/esm2_tiny" -o esm.h5
made embed --checkpoint esm.h5 --fasta p.fa -o mean.h5 --contacts
made embed --checkpoint esm.h5 --fasta p.fa -o mean.npy
made embed --checkpoint esm.h5 --fasta p.fa -o tokens.h5 --pool none
made embed --checkpoint esm.h5 --fasta p.fa -o tokens.npy --pool none
made embed --checkpoint esm.h5 --fasta p.fa -o layers.h5 --layers 0,2 --dtype f16
made embed --checkpoint esm.h5 --fasta twins.fa -o twins.h5
methods=masked-marginals,wt-marginals
made score --checkpoint esm.h5 --fasta p.fa --mutations m.csv --method $methods --measured measured -o scores.csv
made score --checkpoint esm.h5 --fasta p.fa --mutations m.csv --method $methods --measured measured -o scores.h5 \
    --positions positions.h5
made score --checkpoint esm.h5 --fasta b.fa --mutations m.tsv -o one.tsv
for kind in csv h5; do
    made score --checkpoint "$golden/eval_llama.h5" --fasta "$golden/eval_llama.fa" \
        --mutations "$golden/score_llama.vcf" -o vcf.$kind
done

export ESM2_SAFETENSORS=$golden/esm2_tiny/model.safetensors
"$python" "$abs_top_srcdir/tests/interop/python_reader.py" "$work" >"$work/out" 2>&1
check "the package reads what h5py, json and csv read" test $? -eq 0
check "all kinds of files" test "$(grep -c ' passed$' "$work/out")" -eq 6
grep -v ' passed$' "$work/out"

# -- README and notebook ---------------------------------------------------------------------------------------------
mkdir "$work/readme" "$work/bin"
ln -s "$abs_top_srcdir/input" "$abs_top_srcdir/tests" "$work/readme"
ln -s "$CISTRON" "$work/bin/cistron"
awk '/^    \$ / { inside = 1 } inside { inside = /\\$/; sub(/^    (\$ )?/, ""); print }' "$package/README.md" \
    >"$work/commands"
check "README has commands" test "$(grep -c '^cistron ' "$work/commands")" -eq 6
(cd "$work/readme" && PATH=$work/bin:$PATH bash -e "$work/commands") >"$work/out" 2>&1
check "README's commands run" test $? -eq 0
# without pandas the paragraph that needs it is left out
cp "$package/README.md" "$work/readme/examples"
"$python" -c 'import pandas' 2>/dev/null || sed -i '/frame(/,/^$/d' "$work/readme/examples"
(cd "$work/readme" && "$python" -m doctest -v examples) >"$work/out" 2>&1
check "README's examples print what it says" test $? -eq 0
check "README has examples" test "$(grep -c '^Trying:' "$work/out")" -ge 10
grep -A 12 '^Failed example' "$work/out"

if "$python" -c 'import nbconvert, ipykernel, matplotlib, pandas' 2>/dev/null; then
    mkdir "$work/notebook" # nbconvert runs a notebook in the notebook's folder
    cp "$package/quickstart.ipynb" "$work/notebook/source.ipynb"
    (cd "$work/notebook" && CISTRON_SOURCE=$abs_top_srcdir CISTRON=$CISTRON STEPS=20 HOME=$work "$python" -m nbconvert \
        --to notebook --execute --output quickstart.ipynb --ExecutePreprocessor.timeout=120 source.ipynb) \
        >"$work/out" 2>&1
    check "the notebook runs" test $? -eq 0
    check "the notebook draws three plots" test "$(grep -c '"image/png"' "$work/notebook/quickstart.ipynb")" -eq 3
    tail -n 20 "$work/out" | grep -i error
else
    echo "left out: the notebook (this Python lacks nbconvert, ipykernel, matplotlib or pandas)"
fi
finish
