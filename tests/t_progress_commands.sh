#!/bin/bash
# The long commands show their progress where standard error is a terminal, with the time left, and leave nothing of it
# there; where it is not, they show none. Their results are the same.
. "$abs_top_srcdir/tests/lib.sh"
export OMP_NUM_THREADS=1
golden=$abs_top_srcdir/tests/golden
python=$(command -v python3)
if [ -z "$python" ]; then
    echo "no python3 for a pseudo-terminal"
    exit 77
fi
cd "$work" || exit 1
cat >watch.py <<'PYTHON'
import os, pty, subprocess, sys
ours, theirs = pty.openpty()
with subprocess.Popen(sys.argv[2:], stderr=theirs, stdout=subprocess.DEVNULL) as process:
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        if not part:
            break
        shown += part
with open(sys.argv[1], "wb") as file:
    file.write(shown)
screen = [[]]
at = 0
for character in shown.decode():
    if character == "\n":
        screen.append([])
    elif character == "\r":
        at = 0
        continue
    else:
        screen[-1][at:at + 1] = [character]
    at = at + 1 if character != "\n" else 0
with open(sys.argv[1] + ".screen", "w") as file:
    file.writelines("".join(line).rstrip() + "\n" for line in screen)
sys.exit(process.returncode)
PYTHON

# shows WORDS RESULT COMMAND...: its progress begins with WORDS; RESULT FILE (- for none) is the same without a terminal.
shows()
{
    local words=$1 result=$2
    shift 2
    "$CISTRON" "$@" >quiet.out 2>quiet.err
    check "$1: ends with 0" test $? -eq 0
    check "$1: no progress where standard error is a file" test "$(grep -c ' left\|[^[:print:]]' quiet.err)" -eq 0
    [ "$result" = - ] || cp "$result" quiet.result
    "$python" watch.py shown "$CISTRON" "$@"
    check "$1: ends with 0 in a terminal" test $? -eq 0
    check "$1: shows \"$words\" and the time left" grep -qE "^.?$words \[=* *\] +[0-9]+ %  [0-9.]+ [a-zA-Z]+/s  [0-9]+:[0-9]{2}:[0-9]{2} left" <(tr '\r' '\n' <shown)
    check "$1: nothing of it stays" test "$(grep -c 'B/s\|left' shown.screen)" -eq 0
    [ "$result" = - ] || check "$1: the result is the same" cmp "$result" quiet.result
}

cut -d, -f1-3 "$golden/score_esm2.csv" >m.csv
shows reading - prepare --tokenizer esm2 --force -o p.h5 "$golden/embed_esm2.fa"
check "prepare: and the writing" grep -q 'writing \[' shown
shows verifying - inspect --verify p.h5
shows writing esm.h5 import "$golden/esm2_tiny" -o esm.h5 --force
shows verifying - inspect --verify esm.h5
shows reading folder/model.safetensors export --checkpoint esm.h5 -o folder --force
shows embedding e.h5 embed --checkpoint esm.h5 --fasta "$golden/embed_esm2.fa" -o e.h5 --force
shows scoring eval.json eval --checkpoint esm.h5 --fasta "$golden/embed_esm2.fa" -o eval.json --force
shows scoring s.csv score --force --checkpoint esm.h5 --fasta "$golden/embed_esm2.fa" -o s.csv \
    --mutations m.csv
finish
