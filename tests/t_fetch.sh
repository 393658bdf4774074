#!/bin/bash
# scripts/fetch-dataset loads from a hub on this machine (tests/interop/hub.py) that truncates transfers, damages files
# and lacks others. 40 cases of a malicious hub write nothing outside the folder, reach no other host, and end in time;
# the token reaches the hub alone.
. "$abs_top_srcdir/tests/lib.sh"
needs curl
needs python3
cd "$work" || exit 1
mkdir -p hub/lab/set/part/deep
genome 1 3000 2500 | awk '/^>/ { if (name) print "\"}"; name = substr($1, 2); printf "{\"id\": \"%s\", \"text\": \"", name; next }
    { printf "%s", $0 } END { print "\"}" }' >hub/lab/set/all
head -n 1 hub/lab/set/all | gzip >"hub/lab/set/part/a file 1.jsonl.gz"
tail -n 1 hub/lab/set/all | gzip >hub/lab/set/part/deep/2.jsonl.gz
rm hub/lab/set/all
seq 2000 >hub/lab/set/part/notes.txt
seq 500 >hub/lab/set/bad.txt
seq 500 >hub/lab/set/gone.txt
mkdir -p hub/lab/slow
seq 400000 >hub/lab/slow/slow.txt
python3 "$abs_top_srcdir/tests/interop/hub.py" hub port &
server=$!
trap 'kill $server; wait $server 2>/dev/null; rm -rf "$work"' EXIT
for _ in $(seq 600); do
    [ -e port ] && break
    sleep 0.1
done
HF_ENDPOINT=http://127.0.0.1:$(cat port)
export HF_ENDPOINT FETCH_TRIES=3 FETCH_PAUSE=0 no_proxy='*'
fetch=$abs_top_srcdir/scripts/fetch-dataset

fetch()
{
    timeout 60 "$fetch" "$@" >out 2>err
}
fetch -l lab/set
check "a listing of all pages" test "$(cut -d ' ' -f 2- out | paste -sd ,)" = \
    "bad.txt,gone.txt,part/a file 1.jsonl.gz,part/deep/2.jsonl.gz,part/notes.txt"
check "with sizes" grep -qx "$(stat -c %s hub/lab/set/part/notes.txt) part/notes.txt" out
fetch -o here lab/set part
check "files, cut three times each" test $? -eq 0
check "are the hub's" diff -r hub/lab/set/part here/part
check "and nothing else is left" test "$(find here -type f | wc -l)" -eq 3
touch -d 2001-01-01 here/part/notes.txt
fetch -o here lab/set part
check "what is here stays" test "$(stat -c %Y here/part/notes.txt)" -eq "$(date -d 2001-01-01 +%s)"
fetch -n 1 -o one lab/set part '*.gz'
check "the first of those that match" test "$(find one -type f)" = "one/part/a file 1.jsonl.gz"

gzip -dc hub/lab/set/part/*.gz hub/lab/set/part/deep/2.jsonl.gz >plain.jsonl
"$CISTRON" prepare --tokenizer nucleotide -o plain.h5 plain.jsonl >plain.log
timeout 60 "$fetch" lab/set part '*.jsonl.gz' 2>err | "$CISTRON" prepare --tokenizer nucleotide -o piped.h5 - >piped.log
check "through a pipe into prepare" test "$(sed -n 's/.*checksum //p' piped.log)" = "$(sed -n 's/.*checksum //p' plain.log)"

fetch -o here lab/set '' 'bad*'
check "a spoilt file ends with 1" test $? -eq 1
check "is named" grep -q "bad.txt: what came is not what the hub's checksum" err
check "and not kept" test ! -e here/bad.txt -a ! -e here/bad.txt.part
fetch lab/set '' 'gone*'
check "an absent file ends with 1" test $? -eq 1
check "is named" grep -q "gone.txt: .*404" err
check "and the pipe says so by a NUL" test "$(head -c 1 out | od -An -tx1)" = " 00"
(cat here/part/*.gz && cat out) | "$CISTRON" prepare --tokenizer nucleotide -o cut.h5 - >/dev/null 2>err
check "so that prepare refuses what came before" test $? -eq 2 -a ! -e cut.h5
"$fetch" -o here lab/slow 2>/dev/null &
fetching=$!
for _ in $(seq 600); do
    [ -s here/slow.txt.part ] && break
    sleep 0.1
done
check "it is fetching" test -s here/slow.txt.part
kill -TERM $fetching
wait $fetching
check "ended by a signal: exit code 1" test $? -eq 1
bytes=$(stat -c %s here/slow.txt.part)
sleep 1
check "nothing goes on fetching" test "$(stat -c %s here/slow.txt.part)" -eq "$bytes"
# ended while it lists
mkdir stub
printf '#!/bin/sh\ntouch listing\nsleep 1\nexec "%s" "$@"\n' "$(command -v curl)" >stub/curl
chmod +x stub/curl
PATH=$work/stub:$PATH "$fetch" lab/slow >out 2>err &
fetching=$!
for _ in $(seq 600); do
    [ -e listing ] && break
    sleep 0.1
done
kill -TERM $fetching
wait $fetching
check "a signal ends a listing with 1" test $? -eq 1
check "and a NUL in the pipe" test "$(head -c 1 out | od -An -tx1)" = " 00"
mkdir fetching
TMPDIR=$work/fetching "$fetch" lab/slow >out 2>err &
fetching=$!
for _ in $(seq 600); do
    compgen -G "fetching/*/file0.part" >/dev/null && break
    sleep 0.1
done
check "it is fetching for a pipe" compgen -G "fetching/*/file0.part" >/dev/null
kill -TERM $fetching
wait $fetching
check "a signal ends a pipe with 1" test $? -eq 1
check "and a NUL" test "$(head -c 1 out | od -An -tx1)" = " 00"
(printf 'some text\n' && cat out) | "$CISTRON" prepare --tokenizer "$abs_top_srcdir/tests/golden/bpe_tiny" -o cut.h5 - >/dev/null 2>err
check "which is no text either" test $? -eq 2 -a ! -e cut.h5
mkdir -p other/part
seq 3000 | head -c "$(stat -c %s hub/lab/set/part/notes.txt)" >other/part/notes.txt
sed -i 's/1/2/' other/part/notes.txt
fetch -o other lab/set part notes.txt
check "another file of the same size is replaced" cmp hub/lab/set/part/notes.txt other/part/notes.txt
fetch lab/other
check "no such data set" grep -q "lab/other: cannot list" err
fetch lab/set part '*.parquet'
check "nothing matches" grep -q "no file of part matches" err

# -- A hub that means harm
export FETCH_TIMEOUT=1 FETCH_PAGES=5
mkdir cwd
echo '[{"type": "file", "path": "x", "size": 0, "oid": "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"}]' >hub/page.json
printf 'url = "%s/elsewhere"\noutput = "stolen"\n' "$HF_ENDPOINT" >cwd/config

# refuses SECONDS WORDS: fetches evil/$kind into cwd/here within SECONDS; it ends with 1 and says WORDS, no file is
# outside of its folder, none there, and no other host was asked for anything.
refuses()
{
    local status FETCH_TRIES=1
    [ "$kind" = whole ] && FETCH_TRIES=3 # to see that it does not begin again for ever
    rm -rf cwd/here cwd/*stolen* cwd/tmp* port.log
    (cd cwd && TMPDIR=$work/cwd timeout -k 2 "$1" "$fetch" -o here "evil/$kind") >out 2>err
    status=$?
    [ $status -eq 1 ] && grep -q "$2" err && [ -z "$(find cwd -name '*stolen*' -o -name x)" ] &&
        ! grep -q "^localhost" port.log && return
    echo "    evil/$kind: exit code $status, $(find cwd | paste -sd ' '), $(tail -n 3 err)" >&2
    return 1
}
while read -r kind seconds words; do
    check "evil/$kind" refuses "$seconds" "$words"
    [[ $kind != *large* ]] || # of 64 MiB; the connection's buffers hold some
        check "evil/$kind: ends early" grep -qE "evil/$kind/.* cut after [0-9]{1,8} bytes" port.log
done <<'END'
oid-blank 20 the hub names a checksum of 'x' that is refused: '
oid-newline 20 the hub names a checksum of 'x' that is refused: '
oid-short 20 the hub names a checksum of 'x' that is refused: '
oid-upper 20 the hub names a checksum of 'x' that is refused: '
oid-long 20 the hub names a checksum of 'x' that is refused: '
oid-number 20 the hub names a checksum of 'x' that is refused: 7
lfs-blank 20 the hub names a checksum of 'x' that is refused: '
lfs-sha1 20 the hub names a checksum of 'x' that is refused: '
size-text 20 the hub names a size of 'x' that is refused: '
size-negative 20 the hub names a size of 'x' that is refused: -1
size-real 20 the hub names a size of 'x' that is refused: 24.5
size-true 20 the hub names a size of 'x' that is refused: True
size-beyond 20 the hub names a size of 'x' that is refused: 2251799813685248
size-missing 20 the hub names a size of 'x' that is refused: None
path-delete 20 the hub names a file that is refused: 'a.x7f'
path-escape 20 the hub names a file that is refused: 'a.x9b31m'
path-empty 20 the hub names a file that is refused: 'a//b'
path-dot 20 the hub names a file that is refused: 'a/./b'
path-long 20 the hub names a file that is refused: 'aaaa
path-broken 20 the hub names a file that is refused: 'a.ud800'
link-option 20 evil/link-option: cannot list its files
link-host 20 the hub names a page that is refused: 'http://localhost
link-user 20 the hub names a page that is refused: 'http://127
link-path 20 the hub names a page that is refused: 'http://127
link-file 20 the hub names a page that is refused: 'file://
link-blank 20 the hub names a page that is refused: 'Link: <http://127
link-again 20 the hub's list of files comes back to a page
link-more 20 the hub's list of files has more than 5 pages
link-turns 20 the hub names a page that is refused: 'Link: <<<<
list-turns 20 the hub's list of files comes back to a page
list-stalls 20 evil/list-stalls: cannot list its files
list-drips 20 evil/list-drips: cannot list its files
list-large 20 evil/list-large: cannot list its files
list-nested 20 the hub names its files in a form that is refused: 'RecursionError
list-moved 20 the hub names a page that is refused: 'http://localhost
no-room 20 x: has 562949953421312 bytes, of which 0 are here; here has room for
larger 20 x: what came is not what the hub's checksum
bytes 20 x: .*(100 of 400 bytes are here
whole 20 x: .*of 400000 bytes are here
moved-ftp 20 x: .*[Pp]rotocol
END

# -- The token goes to the hub alone, in no list of processes
mkdir ps
printf '#!/bin/sh\nprintf "%%s\n" "$*" >>"%s/ps/arguments"\nexec "%s" "$@"\n' "$work" "$(command -v curl)" >stub/curl
rm port.log
HF_TOKEN=hf_Secret.1-x PATH=$work/stub:$PATH fetch -o moved evil/moved
check "a file that lies elsewhere" grep -qx "what evil data sets hold" moved/x
check "the hub gets the token" test "$(grep -c '^127.* Bearer hf_Secret.1-x$' port.log)" -eq 2
check "the host that it redirects to does not" grep -qx "localhost:.* /elsewhere None" port.log
check "curl's arguments do not have it" test "$(grep -c Secret ps/arguments)" -eq 0
check "they are two calls'" test "$(wc -l <ps/arguments)" -eq 2

# mistake TEXT VARIABLES ARGUMENTS...: in the environment: exit code 2 and one line
mistake()
{
    local words=$1 variables=$2
    shift 2
    # shellcheck disable=SC2086
    timeout 20 env $variables "$fetch" "$@" >out 2>err
    check "$variables: exit code 2" test $? -eq 2
    check "$variables: is said" grep -q "^fetch-dataset: $words" err
    check "$variables: nothing else is" test "$(wc -l <err)" -eq 1
}
mistake "FETCH_PAUSE=1h: must be a whole number of seconds" FETCH_PAUSE=1h -l lab/set
mistake "FETCH_PAUSE=-1: must be a whole number of seconds" FETCH_PAUSE=-1 -l lab/set
mistake "FETCH_PAUSE=08: must be a whole number of seconds" FETCH_PAUSE=08 -l lab/set
# shellcheck disable=SC2016
mistake "FETCH_PAUSE=a\[\$(date)\]: must be" 'FETCH_PAUSE=a[$(date)]' -l lab/set
mistake "FETCH_TRIES=0: must be a whole number" FETCH_TRIES=0 -l lab/set
mistake "FETCH_TIMEOUT=0: must be a whole number" FETCH_TIMEOUT=0 -l lab/set
mistake "FETCH_PAGES=x: must be a whole number" FETCH_PAGES=x -l lab/set
mistake "HF_ENDPOINT=-Kconfig: must be an address" HF_ENDPOINT=-Kconfig -l lab/set
mistake "HF_ENDPOINT=file:///etc: must be an address" HF_ENDPOINT=file:///etc -l lab/set
mistake "HF_TOKEN=(not shown): must be" 'HF_TOKEN=a"b' -l lab/set
mistake "HF_ENDPOINT=http://example.org: must be an address of https where HF_TOKEN is set" \
    "HF_ENDPOINT=http://example.org HF_TOKEN=a" -l lab/set
finish
