#!/bin/bash
# The house style (doc/words.md): documents and comments have none of the phrases that tests/words.py lists, and comments
# begin with a subject. Subjects of commits have at most 72 characters. Injected phrases and subjects are found.
. "$abs_top_srcdir/tests/lib.sh"
needs python3
needs git

cat >"$work/page.md" <<'END'
A run goes
on from a checkpoint; `goes on from` in code is left alone.

    under way
END
cat >"$work/source.h" <<'END'
/* Of these: what is on its way. */
static const char *text = "/* is no comment */ again";
int f(void); /* Returns the number of rows. */
END
words()
{
    python3 "$abs_top_srcdir/tests/words.py" "$abs_top_srcdir" "$@" >"$work/out" 2>&1
}
words "$work/page.md" "$work/source.h"
check "injected phrases are found" test $? -eq 1
check "in a page" says "$work/page.md:1: \"goes on from\""
check "in a comment" says "$work/source.h:1: \"on its way\""
check "a comment without a subject" says "a subject first"
check "and nothing else" says "2 files, 3 phrases"

words
check "documents and comments keep the house style" test $? -eq 0
cat "$work/out"

# Subjects of commits since the rule was made have at most 72 characters.
long_subjects()
{
    git -C "$1" log --format='%h %s' "$2" 2>/dev/null | awk 'length > 73 + index($0, " ") - 1'
}
git init -q "$work/repository"
for subject in short "$(printf 'x%.0s' {1..73})" "$(printf 'y%.0s' {1..72})"; do
    git -C "$work/repository" -c user.name=test -c user.email=test@localhost commit -q --allow-empty -m "$subject"
done
check "a long subject is found" test "$(long_subjects "$work/repository" HEAD | wc -l)" -eq 1
if git -C "$abs_top_srcdir" merge-base --is-ancestor 5a6a5c9 HEAD 2>/dev/null; then
    check "subjects have at most 72 characters" test -z "$(long_subjects "$abs_top_srcdir" 5a6a5c9..HEAD | tee "$work/long")"
    cat "$work/long"
fi
finish
