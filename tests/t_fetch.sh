#!/bin/bash
# scripts/fetch-dataset against a hub on this machine that cuts transfers, spoils files and has none of others.
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
finish
