#!/bin/bash
# The installed program is complete: shell completions, the message about missing packages, ignored files of the
# README's examples, a release (make dist) that holds all files of git and configures without autotools, an installed
# tree that was moved, Spack's recipe, and help in 100 columns.
. "$abs_top_srcdir/tests/lib.sh"

# bash_offers WORD...: what may stand for the last word
bash_offers()
{
    bash -c 'compopt() { :; }; source "$0"; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _cistron; printf "%s\n" "${COMPREPLY[@]}"' \
        "$work/completion" "$@" | tr '\n' ' '
}

# zsh_offers WORD...: all that is handed to zsh's matching, which picks what begins like the word
zsh_offers()
{
    zsh -f -c 'compdef() { :; }; _files() { print files; }; _describe() { print -l ${(P)2}; }
        compadd() { if [[ $1 = -S ]]; then print -l ${(P)4}; else print -l -- "$@"; fi; }
        source "$0"; words=("$@") CURRENT=$#; _cistron' "$work/completion" "$@" | tr '\n' ' '
}

for shell in bash zsh; do
    if ! command -v $shell >/dev/null; then
        echo "$shell is not installed: not tried"
        continue
    fi
    installed=$abs_top_builddir/completions/cistron
    [ $shell = zsh ] && installed=$abs_top_builddir/completions/_cistron
    "$CISTRON" completions $shell >"$work/completion"
    check "$shell: what is installed" cmp "$work/completion" "$installed"
    for command in $("$CISTRON" --help | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p') --version; do
        check "$shell: $command" grep -qE "(^| )${command}[: ]" <<<"$(${shell}_offers cistron "") "
    done
    check "$shell: options" grep -qE -- '--fasta .*--overlap .*--help' <<<"$(${shell}_offers cistron eval --checkpoint x -)"
    check "$shell: keys" grep -qF ' optimizer.lr= ' <<<"$(${shell}_offers cistron train deck.cfg "")"
    check "$shell: no key where the deck stands" test -z "$(${shell}_offers cistron train "" | grep lr=)"
done
check "zsh: begins as compinit wants it" grep -qx '#compdef cistron' "$abs_top_builddir/completions/_cistron"
"$CISTRON" completions fish >"$work/out" 2>&1
check "another shell: exit code 2" test $? -eq 2
check "another shell: what there is" says "completions fish: must be bash or zsh"

# the manual page has every option of each command
"$CISTRON" completions bash | sed -n "s/^ *\([a-z]*\)) words='\(--.*\) --help' ;;/\1 \2/p" >"$work/options"
check "options are found" test "$(wc -w <"$work/options")" -ge 60
while read -r command options; do
    section=$(awk -v head=".SS $command" '/^\.S[SH]/ { inside = $0 == head } inside' "$abs_top_builddir/doc/cistron.1")
    for option in $options; do
        check "the manual page: $command $option" grep -qE -- "^\\\\fB.*${option//-/\\\\-}\\\\fR" <<<"$section"
    done
done <"$work/options"
check "the manual page: its source has 100 columns at most" test "$(grep -cE '.{101}' "$abs_top_srcdir/doc/cistron.1.in")" -eq 0

# usages have 100 columns at most, and what is missing is one line
for command in "" $("$CISTRON" --help | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p'); do
    # shellcheck disable=SC2086
    "$CISTRON" $command --help >"$work/out" 2>&1
    check "$command --help: exit code 0" test $? -eq 0
    check "$command --help: 100 columns at most" test "$(grep -cE '.{101}' "$work/out")" -eq 0
    case $command in '' | deck | jobscripts) continue ;; esac
    timeout 60 "$CISTRON" "$command" >"$work/out" 2>&1
    check "$command alone: exit code 2" test $? -eq 2
    check "$command alone: what is missing" grep -qE "^cistron: $command: missing: .*; see cistron $command --help\$" "$work/out"
    check "$command alone: nothing else" test "$(wc -l <"$work/out")" -eq 1
done
"$CISTRON" embed --checkpoint x -o y.h5 >"$work/out" 2>&1
check "embed without records" grep -qx 'cistron: embed: missing: --fasta FILE or --input FILE; see cistron embed --help' "$work/out"

# a folder in which autotools cannot build
mkdir -p "$work/a blank/scripts" "$work/a blank/b"
cp "$abs_top_srcdir/scripts/packages.sh" "$work/a blank/scripts"
(cd "$work/a blank/b" && bash -c '. ../scripts/packages.sh; configure_options=(); build_cistron' >"$work/out" 2>&1)
check "a blank in the folder's path: exit code 2" test $? -eq 2
check "a blank in the folder's path: is told" says "a blank/b: autotools cannot build below a folder with blanks"

# missing TABLE: what packages_need says of these packages
missing()
{
    CISTRON_NO_INSTALL=1 bash -c 'configure_options=(); . "$0"; packages_table=$1; cd /; packages_need build test' \
        "$abs_top_srcdir/scripts/packages.sh" "$1" >"$work/out" 2>&1
}
missing $'\nbuild|no-such-a no-such-b|tool no_such_tool|or A\ntest|sh|tool sh|\ntest|no-such-c|tool no_such_tool|without\n'
check "missing packages: exit code 2" test $? -eq 2
check "missing packages: one line to paste" grep -qx '  apt-get install -y --no-install-recommends no-such-b no-such-c' "$work/out"

if git -C "$abs_top_srcdir" rev-parse >/dev/null 2>&1; then
    outputs=$(sed -n 's#^    .* \(-o\|>\) *\([a-z_][a-z_.0-9/]*\).*#\2#p' "$abs_top_srcdir"/README.md \
        "$abs_top_srcdir"/doc/tutorial_*.md | sort -u)
    check "outputs of README and tutorials are found" test "$(wc -l <<<"$outputs")" -ge 9
    for output in $outputs mine.train.h5 mine.train.h5.windows-x; do
        [ -d "$abs_top_srcdir/$output" ] && continue
        [ "${output%_tuned}" = "$output" ] || output=$output/ # a folder
        check "$output is ignored by git" git -C "$abs_top_srcdir" check-ignore -q "$output"
    done

    # a release
    make -s -C "$abs_top_builddir" distdir distdir="$work/release" >"$work/out" 2>&1
    check "a release is made" test $? -eq 0 -a -x "$work/release/configure"
    check "it has all that git has" test -z "$(comm -13 <(cd "$work/release" && find . -type f | sed 's|^\./||' | LC_ALL=C sort) \
        <(git -C "$abs_top_srcdir" ls-files | grep -v '^\.git' | LC_ALL=C sort) | tee "$work/missing")"
    sed 's/^/    not in the release: /' "$work/missing" >&2
    mkdir "$work/none"
    for tool in autoconf autoheader automake aclocal autoreconf; do
        printf '#!/bin/sh\necho called >>"%s/called"\nexit 1\n' "$work" >"$work/none/$tool"
        chmod +x "$work/none/$tool"
    done
    (cd "$work/release" && PATH=$work/none:$PATH && ./configure -q --without-cuda && make -n -s) >"$work/out" 2>&1
    check "it configures and would build" test $? -eq 0
    check "without autotools" test ! -e "$work/called"
fi
# an installed tree that was moved
make -s -C "$abs_top_builddir" install DESTDIR="$work/staged" >"$work/out" 2>&1
check "it installs" test $? -eq 0
installed=$(cd "$work/staged" && find . -path '*/bin/cistron' | sed 's|^\./||; s|/bin/cistron$||')
mv "$work/staged/$installed" "$work/moved"
check "moved: it finds its job scripts" test "$("$work/moved/bin/cistron" jobscripts)" = "$work/moved/share/cistron/jobscripts"
# What documents name in code marks and the source tree has is installed, or of the source tree alone
grep -ohE '`[A-Za-z0-9_./-]+/[A-Za-z0-9_.-]+`' "$abs_top_srcdir"/README.md "$abs_top_srcdir"/doc/*.md | tr -d '`' |
    sort -u >"$work/named"
named=0
while read -r name; do
    name=${name#share/cistron/} place=share/cistron
    case $name in
    doc/cistron.1.in) continue ;;        # made into a manual page
    doc/*) place=share/doc ;;            # in cistron/ there
    input/* | jobscripts/* | tuning/* | scripts/* | bench/sweeps* | bench/nemo/* | bench/gpu/no_transfers.c) ;;
    bench/* | contrib/* | src/* | cuda/* | tests/*) place='' ;; # as README says
    *) continue ;;
    esac
    named=$((named + 1))
    case $name in *NAME* | tests/t_*.log | tests/logits) continue ;; esac # a pattern, or made by a test
    check "$name, which documents name, is in the source tree" test -e "$abs_top_srcdir/$name"
    [ -z "$place" ] || check "$name, which documents name, is installed" test -e "$work/moved/$place/${name/#doc/cistron}"
done <"$work/named"
check "documents name files" test $named -ge 60
(cd "$work" && "$work/moved/bin/cistron" sweep "$work/moved/share/cistron/bench/sweeps/gpus.cfg" --show) >"$work/out" 2>&1
check "moved: a list of sweeps finds its decks" test $? -eq 0
check "moved: they are there" test -f "$work/moved/share/cistron/jobscripts/common.sh"
(cd "$work" && "$work/moved/bin/cistron" plan quickstart) >"$work/out" 2>&1
check "moved: it finds its decks" says "deck quickstart is $work/moved/share/cistron/input/quickstart.cfg"
ln "$work/moved/bin/cistron" "$work/cistron" # the program alone
"$work/cistron" jobscripts >"$work/out"
check "the program alone: where they were to be" says "/$installed/share/cistron/jobscripts"

# the module file: in plain Tcl, and by the module command where there is one
module=$work/moved/share/modulefiles/cistron/$("$CISTRON" --version | awk 'NR == 1 { print $2 }')
check "a module file is installed" test -f "$module"
check "the module file has no open place" test "$(grep -c '%[a-z]*%' "$module")" -eq 0
for command in /usr/lib/*/modulecmd.tcl /usr/share/lmod/lmod/libexec/lmod; do
    [ -x "$command" ] || continue
    MODULEPATH=$work/moved/share/modulefiles LMOD_SYSTEM_DEFAULT_MODULES='' "$command" bash load cistron >"$work/out" 2>"$work/err"
    check "${command##*/} loads it" grep -qE "PATH='?/$installed/bin[:;']" "$work/out"
    check "${command##*/}: the manual page" grep -qE "MANPATH='?/$installed/share/man[:;']" "$work/out"
done

# a machine that gives programs less stack than the usual 8 MiB
(ulimit -s 512 && exec "$CISTRON" plan quickstart) >"$work/out" 2>&1
check "half a MiB of stack is enough to plan" test $? -eq 0

# the version is that of configure.ac, wherever else it stands
version=$("$CISTRON" --version | awk 'NR == 1 { print $2 }')
check "ChangeLog begins with this version" grep -q "^Cistron $version (" <(head -n 1 "$abs_top_srcdir/ChangeLog")
check "the Python package has this version" grep -qx "version = \"$version\"" "$abs_top_srcdir/contrib/python/pyproject.toml"
check "EasyBuild's recipe has this version" \
    grep -qx "version = '$version'" "$abs_top_srcdir/contrib/easybuild/Cistron-$version-gompi-2025a.eb"
check "the manual page has this version" grep -q "^\.TH.*Cistron $version" "$work/moved/share/man/man1/cistron.1"
command -v python3 >/dev/null && check "Spack's recipe" python3 "$abs_top_srcdir/tests/interop/spack_recipe.py" "$abs_top_srcdir" >"$work/out"
finish
