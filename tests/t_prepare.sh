#!/bin/bash
# `cistron prepare` writes token stores: exit codes, standard input, compressed files, a split that h5py reads, constant
# memory, counted duplicates across a split. A failed or interrupted run leaves no file.
set -u
cistron=${CISTRON:-$PWD/cistron}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
failures=0
count=0

# check WHAT COMMAND...: the command must succeed.
check()
{
    local what=$1
    shift
    count=$((count + 1))
    if ! "$@"; then
        echo "failed: $what"
        failures=$((failures + 1))
    fi
}

# refuse WORDS ARGUMENTS...: prepare must end with code 2, say WORDS and leave no file of its own.
refuse()
{
    local words=$1 before after code
    shift
    before=$(ls -A)
    "$cistron" prepare "$@" >out.log 2>err.log
    code=$?
    rm -f out.log
    check "code 2 for: $*" test $code -eq 2
    check "\"$words\" for: $*, got: $(cat err.log)" grep -qF -- "$words" err.log
    rm -f err.log
    after=$(ls -A)
    check "nothing left by: $*" test "$before" = "$after"
}

# bases NAME LENGTH SEED: a FASTA record of random bases.
bases()
{
    awk -v name="$1" -v length_="$2" -v seed="$3" 'BEGIN {
        srand(seed)
        print ">" name " made for a test"
        for (i = 0; i < length_; i += 100) {
            line = ""
            for (k = 0; k < 100 && i + k < length_; k++)
                line = line substr("ACGT", 1 + int(4 * rand()), 1)
            print line
        }
    }'
}

checksum() { sed -n 's/.*checksum //p' "$1"; }

bases one 1500000 1 >one.fa
bases two 3000 2 >two.fa

"$cistron" prepare --tokenizer nucleotide -o plain.h5 one.fa two.fa >plain.log 2>plain.err
check "prepare ends with 0" test $? -eq 0
check "no progress bar where standard error is a file" test ! -s plain.err
check "counts are printed" grep -q '1503000 bases .* in 2 sequences' plain.log
gzip -c one.fa >both.gz
gzip -c two.fa >>both.gz
"$cistron" prepare --tokenizer nucleotide -o gz.h5 both.gz >gz.log
check "two gzip members are the two files" test "$(checksum gz.log)" = "$(checksum plain.log)"
cat one.fa two.fa | "$cistron" prepare --tokenizer nucleotide -o stdin.h5 - >stdin.log
check "standard input" test "$(checksum stdin.log)" = "$(checksum plain.log)"
if command -v zstd >/dev/null; then
    zstd -q -c one.fa >both.zst
    zstd -q -c two.fa >>both.zst
    "$cistron" prepare --tokenizer nucleotide -o zst.h5 both.zst >zst.log
    check "two zstd frames are the two files" test "$(checksum zst.log)" = "$(checksum plain.log)"
    for file in one.fa two.fa; do # as pzstd: in front of each frame one to be skipped, which holds its size
        zstd -q -c $file >frame.zst
        printf '\120\052\115\030\004\000\000\000'
        printf "\\$(printf %03o $(($(stat -c %s frame.zst) % 256)))\\$(printf %03o $(($(stat -c %s frame.zst) / 256 % 256)))\\000\\000"
        cat frame.zst
    done >both.pzst
    "$cistron" prepare --tokenizer nucleotide -o pzst.h5 both.pzst >pzst.log
    check "a file of pzstd" test "$(checksum pzst.log)" = "$(checksum plain.log)"
fi

# a folder and a pattern name the same files as they do, by name; one that is missing or wrong is named
mkdir -p many/below
cp one.fa many/1.fa
cp two.fa many/2.fa
: >many/.hidden
for inputs in many many/ 'many/*.fa' 'many/[1-9].fa'; do
    "$cistron" prepare --tokenizer nucleotide --force -o many.h5 "$inputs" >many.log
    check "files of $inputs" test "$(checksum many.log)" = "$(checksum plain.log)"
done
printf 'ACGT\n' >many/3.fa
refuse "many/3.fa:1: not FASTA" --tokenizer nucleotide -o x.h5 many
refuse "many/*.gz: no file matches" --tokenizer nucleotide -o x.h5 'many/*.gz'

# JSON lines of the same records, one of them a line of 1.5 MB: the same store, however they come in
awk '/^>/ { if (name) print "\"}"; name = substr($1, 2); printf "{\"record\": \"%s\", \"sequence\": \"", name; next }
     { printf "%s", $0 } END { print "\"}" }' one.fa two.fa >both.jsonl
gzip -c both.jsonl >both.jsonl.gz
cp both.jsonl named.txt
for file in both.jsonl both.jsonl.gz named.txt; do
    "$cistron" prepare --tokenizer nucleotide --field sequence --force -o jsonl.h5 $file >jsonl.log
    check "JSON lines in $file" test "$(checksum jsonl.log)" = "$(checksum plain.log)"
done
"$cistron" prepare --tokenizer nucleotide --field sequence --force -o jsonl.h5 - <both.jsonl.gz >jsonl.log
check "JSON lines on standard input" test "$(checksum jsonl.log)" = "$(checksum plain.log)"
tail -n 1 both.jsonl >second.jsonl
"$cistron" prepare --tokenizer nucleotide --field sequence --force -o jsonl.h5 one.fa second.jsonl >jsonl.log
check "FASTA and JSON lines together" test "$(checksum jsonl.log)" = "$(checksum plain.log)"
if command -v zstd >/dev/null; then
    zstd -q -c both.jsonl >both.jsonl.zst
    "$cistron" prepare --tokenizer nucleotide --field sequence --force -o jsonl.h5 both.jsonl.zst >jsonl.log
    check "JSON lines in zstd" test "$(checksum jsonl.log)" = "$(checksum plain.log)"
fi

"$cistron" prepare --tokenizer nucleotide --split train:0.95,valid:0.05 -o s.h5 one.fa two.fa >split.log
check "split ends with 0" test $? -eq 0
check "split writes two files and no third" test -e s.train.h5 -a -e s.valid.h5 -a ! -e s.h5

python=/usr/bin/python3
[ -x $python ] && $python -c 'import h5py' 2>/dev/null || python=
if [ -n "$python" ]; then
    check "h5py reads the stores" $python - <<'END'
import h5py

records, name = {}, None
for path in ("one.fa", "two.fa"):
    for line in open(path):
        if line[0] == ">":
            name = line[1:].split()[0]
            records[name] = []
        else:
            records[name].append(line.strip())
records = {name: "".join(lines) for name, lines in records.items()}

def pieces(path):
    with h5py.File(path, "r") as f:
        assert f.attrs["tokenizer"] == b"nucleotide" and f.attrs["vocabulary"] == 256
        tokens = bytes(f["tokens"][:]).decode()
        names = bytes(f["names"][:]).decode().splitlines()
        offsets = f["offsets"][:]
        assert f.attrs["sequences"] == len(names) == len(offsets) - 1
        assert f.attrs["token_count"] == len(tokens) == offsets[-1]
        assert [s.split(" ", 1)[1] for s in f["sources"].asstr()[:]] == ["one.fa", "two.fa"]
        assert f["tokens"].chunks is None
        return [(n, tokens[a:b]) for n, a, b in zip(names, offsets, offsets[1:])]

assert dict(pieces("plain.h5")) == records
seen = {name: bytearray(len(text)) for name, text in records.items()}
for part in ("train", "valid"):
    for name, text in pieces(f"s.{part}.h5"):
        record, _, span = name.partition(":")
        first, last = map(int, span.split("-")) if span else (1, len(records[record]))
        assert records[record][first - 1 : last] == text
        for t in range(first - 1, last):
            seen[record][t] += 1
assert all(set(marks) == {1} for marks in seen.values())
END
else
    echo "h5py is not at hand: its part is skipped"
fi

# the folder of the output is made; one that cannot be is named
"$cistron" prepare --tokenizer nucleotide -o new/er/x.h5 two.fa >out.log
check "the output's folder is made" test -f new/er/x.h5
rm -rf new out.log
: >file
refuse "file/x.h5: its folder cannot be created: Not a directory" --tokenizer nucleotide -o file/x.h5 two.fa

head -c 100000 both.gz >cut.gz
refuse "cut.gz" --tokenizer nucleotide -o x.h5 cut.gz
refuse "truncated" --tokenizer nucleotide -o x.h5 cut.gz
head -c 100000 both.jsonl.gz >cut.jsonl.gz
refuse "cut.jsonl.gz: the compressed file is truncated" --tokenizer nucleotide --field sequence -o x.h5 cut.jsonl.gz
head -c 100000 both.jsonl >cut.jsonl
refuse "cut.jsonl:1: is not JSON" --tokenizer nucleotide --field sequence -o x.h5 cut.jsonl
refuse 'both.jsonl:1: has no field "text"; name the field' --tokenizer nucleotide -o x.h5 both.jsonl
refuse "plain.h5: is an HDF5 file" --tokenizer nucleotide -o x.h5 plain.h5
refuse "absent.fa" --tokenizer nucleotide -o x.h5 two.fa absent.fa
refuse "is an input and the output" --tokenizer nucleotide -o one.fa one.fa
touch step_5.h5 step_5.h5.xxh3
refuse "step_5.h5: is a checkpoint" --tokenizer nucleotide -o step_5.h5 one.fa
# Equal sequences in more than one part: all are equal, then all but those of one base.
for i in $(seq 40); do printf '>equal%d\nACGTTGCAGT\n' "$i"; done >equal.fa
"$cistron" prepare --tokenizer nucleotide --split train:0.5,valid:0.3,test:0.2 -o equal.h5 equal.fa >out 2>&1
check "a split of equal sequences ends with 0" test $? -eq 0
check "each that an earlier part has is counted" grep -q \
    "warning: sequences that an earlier part of the split has too: 12 of the 12 in valid, 8 of the 8 in test;" out
for base in A C G T; do printf '>%s\n%s\n' "$base" "$base"; done >>equal.fa
"$cistron" prepare --tokenizer nucleotide --split train:0.2,valid:0.8 -o most.h5 equal.fa >out 2>&1
read -r tokens sequences < <(sed -n 's/^most.valid.h5: \([0-9]*\) bases .* in \([0-9]*\) sequences.*/\1 \2/p' out)
check "the others are not" grep -q "has too: $(((tokens - sequences) / 9)) of the $sequences in valid;" out
check "there are others" test $(((tokens - sequences) / 9)) -lt "$sequences"
for i in $(seq 40); do printf '>unlike%d\n%s\n' "$i" "$(printf 'A%.0s' $(seq "$i"))"; done >unlike.fa
"$cistron" prepare --tokenizer nucleotide --split train:0.5,valid:0.5 -o unlike.h5 unlike.fa >out 2>&1
check "unlike sequences are no repeats" test "$(grep -c 'warning' out)" -eq 0
"$cistron" prepare --tokenizer nucleotide -o equal.h5 equal.fa >out 2>&1
check "without a split there are none" test "$(grep -c 'warning' out)" -eq 0

refuse "would be empty" --tokenizer nucleotide --split train:0.5,valid:0.5 -o x.h5 two.fa
refuse "sum to 0.9" --tokenizer nucleotide --split train:0.5,valid:0.4 -o x.h5 one.fa
refuse "known: nucleotide" --tokenizer protein -o x.h5 two.fa

# A run that reads a pipe is stopped in the middle, after 120 MB: memory is flat, and neither signal leaves a file.
for signal in HUP TERM KILL; do
    mkdir "stop$signal"
    mkfifo "pipe$signal"
    env --default-signal=HUP "$cistron" prepare --tokenizer nucleotide -o "stop$signal/x.h5" "pipe$signal" >/dev/null 2>&1 &
    pid=$!
    exec 3>"pipe$signal"
    for turn in 1 2 3 4 5 6 7 8; do
        cat one.fa one.fa one.fa one.fa one.fa one.fa one.fa one.fa one.fa one.fa >&3
        peak=$(awk '/^VmHWM/ { print $2 }' "/proc/$pid/status")
        [ "$turn" -gt 1 ] || first=$peak # with what the program's libraries take
    done
    check "memory is flat: $first kB after 15 MB, $peak after 120" test "$((${peak:-999999} - ${first:-0}))" -lt 8000
    kill -$signal $pid
    wait $pid 2>/dev/null
    check "nothing left after SIG$signal" test -z "$(ls -A "stop$signal")"
    exec 3>&-
done

# Speed, for the record: a plain file in the page cache.
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    cat one.fa one.fa one.fa one.fa one.fa
done >large.fa
"$cistron" prepare --tokenizer nucleotide --split train:0.95,valid:0.05 -o large.h5 large.fa | tail -1

# Stopped in the moment in which its unnamed files still have names.
mkdir named
LD_PRELOAD="$abs_top_builddir/tests/shim.so" SHIM_FOLDER="$PWD/named" SHIM_DELAY=unlink:2 \
    "$cistron" prepare --tokenizer nucleotide -o "$PWD/named/x.h5" two.fa >/dev/null 2>&1 &
pid=$!
while [ -z "$(ls -A named)" ] && kill -0 $pid 2>/dev/null; do
    sleep 0.01
done
kill -TERM $pid
wait $pid 2>/dev/null
check "a signal ends it while its files have names" test $? -gt 128
check "none of them is left" test -z "$(ls -A named)"

# Stopped while it writes the store under a temporary name, which tests/shim.c has it do at leisure. USR1 is what Slurm
# warns with.
for signal in INT TERM HUP USR1 USR2; do
    mkdir "write$signal"
    # a shell has its background jobs ignore INT, nohup HUP
    env --default-signal=INT,HUP LD_PRELOAD="$abs_top_builddir/tests/shim.so" SHIM_FOLDER="$PWD/write$signal" \
        SHIM_DELAY=pwrite:0.5 "$cistron" prepare --tokenizer nucleotide -o "$PWD/write$signal/x.h5" large.fa >/dev/null 2>&1 &
    pid=$!
    while [ ! -e "write$signal/x.h5.tmp-$pid" ] && kill -0 $pid 2>/dev/null; do
        sleep 0.01
    done
    kill -$signal $pid
    wait $pid 2>/dev/null
    check "a signal ends it: SIG$signal" test $? -gt 128
    check "no temporary file after SIG$signal" test -z "$(ls -A "write$signal")"
done

# The same files give the same bytes, at another time too.
for name in first second; do
    "$cistron" prepare --tokenizer nucleotide --split train:0.7,valid:0.3 -o $name.h5 one.fa >/dev/null
    sleep 1.1
done
for part in train valid; do
    check "the same store, byte for byte: $part" cmp first.$part.h5 second.$part.h5
done

# A Megatron data set is named by its prefix, or by either of its files.
printf '>a\nACGT\n' >four.fa
mkdir sets
for name in set set.bin set.idx set.h5; do
    "$cistron" prepare --tokenizer nucleotide --format megatron -o "sets/$name" four.fa >/dev/null
    check "the files of a Megatron data set named $name" test "$(ls sets | tr '\n' ' ')" = "set.bin set.idx "
    rm sets/*
done

echo "$count checks, $failures failed"
[ $failures -eq 0 ]
