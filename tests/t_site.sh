#!/bin/bash
# The documents as a site: `make html` makes a page of each document, with navigation, search and links that lead
# somewhere; a page that names a missing one is found. Links of README and the documents also lead to files of the source
# tree.
. "$abs_top_srcdir/tests/lib.sh"

# dead_links PAGE...: each link of a Markdown page to a file that is not there.
dead_links()
{
    local page target
    for page in "$@"; do
        grep -oE '\]\([^)#]+[^)]*\)' "$page" | sed 's/^](//; s/)$//; s/#.*//' | grep -vE '^[a-z]+:' | while read -r target; do
            [ -e "$(dirname "$page")/$target" ] || echo "$page: $target"
        done
    done
}
mkdir "$work/linked"
printf '[here](there.md) [web](https://example.org/x)\n\n[gone](gone.md#part)\n' >"$work/linked/page.md"
touch "$work/linked/there.md"
check "a dead link is found" test "$(dead_links "$work/linked/page.md")" = "$work/linked/page.md: gone.md"
dead_links "$abs_top_srcdir"/*.md "$abs_top_srcdir"/doc/*.md "$abs_top_srcdir"/tests/golden/README.md >"$work/dead"
check "links of the documents lead to files" test ! -s "$work/dead"
cat "$work/dead"

needs sphinx-build
interpreter=$(sed -n '1s/^#! *//p' "$(command -v sphinx-build)")
if ! ${interpreter:-python3} -c 'import myst_parser, furo' 2>/dev/null; then
    [ "$failures" -eq 0 ] || finish
    echo "skipped: Sphinx has no MyST and Furo"
    exit 77
fi

# in a folder of its own, for make html writes beside the makefile
mkdir "$work/site"
site()
{
    rm -rf "$work/site/pages" "$work/site/html"
    mkdir -p "$work/site/pages"
    cp "$abs_top_srcdir"/doc/*.md "$abs_top_srcdir/CONTRIBUTING.md" "$work/site/pages"
    cp "$abs_top_srcdir/README.md" "$work/site/pages/index.md"
    [ $# -eq 0 ] || printf '%s\n' "$1" >>"$work/site/pages/parallel.md"
    sphinx-build -q -W --keep-going -b html -c "$abs_top_srcdir/doc/site" -d "$work/site/trees" "$work/site/pages" \
        "$work/site/html" >"$work/out" 2>&1
}
site
check "the site is made without a warning" test $? -eq 0
cat "$work/out"
for page in "$abs_top_srcdir"/doc/*.md; do
    name=$(basename "$page" .md)
    check "$name is a page" test -s "$work/site/html/$name.html"
    check "$name is in the navigation" grep -q "href=\"$name.html\"" "$work/site/html/index.html"
done
check "pages that pages name are links" grep -q 'href="errors.html"' "$work/site/html/tutorial_genomes.html"
check "marks of tests are not shown" test -z "$(grep -l 'checked: ' "$work"/site/html/tutorial_*.html)"
check "search finds words" grep -q '\boverlap' "$work/site/html/searchindex.js"
site '[gone](gone.md)'
check "a dead link of the site is found" test $? -ne 0
check "and named" says "gone"
finish
