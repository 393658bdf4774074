#!/bin/bash
# README.md, CONTRIBUTING.md and the pages of doc are true: each block that is marked as checked runs and prints what
# the page shows, and files of the project that pages name exist. tests/interop/pages.py describes the marks. Changed
# pages are found with page and line.
. "$abs_top_srcdir/tests/lib.sh"
needs python3
python=$(transformers_python)
mkdir "$work/bin" "$work/home"
# what a page calls python3 and mpirun
printf '#!/bin/sh\nexec "%s" "$@"\n' "$python" >"$work/bin/python3"
# shellcheck disable=SC2086
set -- $MPIRUN
printf '#!/bin/sh\nexec %s "$@"\n' "$(command -v "$1") ${*:2}" >"$work/bin/mpirun"
chmod +x "$work/bin/python3" "$work/bin/mpirun"
ln -s "$CISTRON" "$work/bin/cistron"
export PATH="$work/bin:$PATH" HOME="$work/home" OMP_NUM_THREADS=1 CUDA_VISIBLE_DEVICES=

# pages FOLDER PAGE...
pages()
{
    local folder=$work/$1
    shift
    python3 "$abs_top_srcdir/tests/interop/pages.py" "$CISTRON" "$abs_top_srcdir" "$folder" "$@" >"$work/out" 2>&1
}

# found TEXT LINE WHAT SED: after this change of the sample the page is wrong, at that line.
found()
{
    sed "$4" "$work/sample.md" >"$work/changed.md"
    pages "changed.$checks" "$work/changed.md"
    check "$1: is found" test $? -ne 0
    check "$1: is named" says "$work/changed.md:$2: $3"
}

# A page that is right, and changes of it.
cat >"$work/sample.md" <<'END'
# A sample

<!-- checked: session within 0.01 -->
    $ printf '%s\n' "# loss 1.2345 (3 s)" between "# end 7 of 9"
    # loss 1.2344 (...)
    ...
    # end 7 of 9
    $ echo one; \
          echo two
    one
    two

<!-- checked: output
echo "cistron: key model.layers = 0: must be 1"; exit 2
-->

    cistron: key model.layers = 0: must be 1

<!-- checked: file some.cfg
grep -q hidden some.cfg
-->

    model = { hidden = 64; };

<!-- checked: script -->
```
cp some.cfg other.cfg
test -f other.cfg
```

`doc/formats.md` and `src/engine/engine.c` are there.
END
pages sample "$work/sample.md"
check "a page that is right" test $? -eq 0
check "all of its blocks were run" says "4 blocks of 1 pages, 0 left out, 0 wrong"
found "a word" 10 "expected: onf" 's/^    one/    onf/'
found "a number beyond the bound" 5 "expected: # loss 1.2544 (...)" 's/1.2344/1.2544/'
found "a number without a decimal point" 7 "expected: # end 8 of 9" 's/# end 7 of 9$/# end 8 of 9/'
found "a line that is not printed" 12 "expected: three" 's/^    two$/&\n    three/'
found "a line that is missing" 10 "expected: the last line" '/^    two$/d'
found "a message" 17 "expected: cistron: key model.layers = 0: must be 2" 's/^\(    cistron.*\)1$/\12/'
found "a deck that no longer does" 20 "grep -q hidden some.cfg" 's/hidden = 64/width = 64/'
found "a command that fails" 27 "cp some.cfg other.cfg" 's/test -f other/test -f another/'
found "a file that is not there" 31 "src/motor/engine.c is not there" 's/engine/motor/'
found "a mark of an unknown kind" 13 "a mark of another kind: outcome" 's/checked: output/checked: outcome/'

# README.md last: it has the longest commands.
pages all "$abs_top_srcdir"/doc/*.md "$abs_top_srcdir/CONTRIBUTING.md" "$abs_top_srcdir/README.md"
check "the project's pages say what the program does" test $? -eq 0
cat "$work/out"

# a planted change of one of them
sed 's/^\( *layout  *8 ranks = \)1 replica/\12 replicas/' "$abs_top_srcdir/doc/parallel.md" >"$work/parallel.md"
pages planted "$work/parallel.md"
check "a changed page is wrong" says "expected: layout                       8 ranks = 2 replicas"
finish
