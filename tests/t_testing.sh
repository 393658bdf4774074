#!/bin/bash
# The tests describe themselves: the table of doc/testing.md is what tests/describe makes of their first comments,
# tests/launch starts a test on the ranks and within the limit that its comment names, and tests/run builds and runs one
# test alone. Injected faults: a changed table, comments without a sentence or with a malformed line of ranks.
. "$abs_top_srcdir/tests/lib.sh"
here=$abs_top_srcdir/tests

# table PAGE: does the page hold the table that tests/describe prints?
table()
{
    sed -n '/^| test |/,$p' "$1" >"$work/page"
    "$here/describe" "$here" >"$work/described" && diff "$work/page" "$work/described"
}

check "doc/testing.md has the table of tests/describe (tests/describe prints it)" table "$abs_top_srcdir/doc/testing.md"
sed '/`t_tensor.c`/s/| 2 |/| 3 |/' "$abs_top_srcdir/doc/testing.md" >"$work/changed.md"
table "$work/changed.md" >/dev/null
check "a changed table is found" test $? -eq 1

# A folder of two tests, and changes of their first comments.
mkdir "$work/tests"
cp "$here/launch" "$here/describe" "$work/tests"
printf '/* One thing\n * holds. Another, too.\n *\n * ranks: 3, limit: 20 s */\nint x; /* ranks: 9 */\n' >"$work/tests/t_c.c"
printf '#!/bin/bash\n# Another thing holds.\n#\n# limit: 1 s\nsleep $1\n# limit: 9 s\n' >"$work/tests/t_sh.sh"
# shellcheck disable=SC2016
printf '#!/bin/sh\necho "$# ranks of $OMPI_COMM_WORLD_SIZE"\n' >"$work/t_c"
chmod +x "$work/t_c"
"$work/tests/describe" >"$work/out"
check "a program's row" says '| `t_c.c` | 3 | One thing holds. Another, too. |'
check "a shell test's row" says '| `t_sh.sh` |  | Another thing holds. |'
# malformed WHAT SED: tests/describe names the program's comment after this change.
malformed()
{
    cp "$work/tests/t_c.c" "$work/kept"
    sed -i "$2" "$work/tests/t_c.c"
    "$work/tests/describe" >/dev/null 2>"$work/out"
    check "$1" test $? -eq 1
    check "$1 is named" says t_c.c:
    cp "$work/kept" "$work/tests/t_c.c"
}
malformed "another order" 's/ranks: 3, limit: 20 s/limit: 20 s, ranks: 3/'
malformed "a limit without a unit" 's/20 s/20/'
malformed "ranks in the first paragraph" '/^ \*$/d'
malformed "no full stop" 's/too\./too/'
malformed "no comment" 1d

unset CISTRON_TEST_SECONDS
sh "$work/tests/launch" "$work/t_c" one two >"$work/out" 2>&1
check "ranks of a comment" test "$(grep -cx '2 ranks of 3' "$work/out")" -eq 3
sh "$work/tests/launch" "$work/tests/t_sh.sh" 30 >"$work/out" 2>&1
check "limit of a comment" test $? -eq 124
sh "$work/tests/launch" "$work/tests/t_sh.sh" 0
check "within its limit" test $? -eq 0

unset MAKEFLAGS MFLAGS MAKELEVEL
cd "$abs_top_builddir" || exit 1
for name in numbers t_numbers t_numbers.c; do
    "$here/run" "$name" >"$work/out" 2>&1
    check "tests/run $name" test $? -eq 0
    check "tests/run $name prints" says " checks, 0 failed"
done
"$here/run" no_such_test >"$work/out" 2>&1
check "an unknown test" test $? -eq 2
check "an unknown test is named" says "tests/t_no_such_test.c or .sh is not there"
finish
