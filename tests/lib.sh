# shellcheck shell=bash
# Sourced by shell tests (bash; started by tests/launch): a scratch folder, counted checks, ranks whose exit codes are
# recorded one by one.
set -u
work=$(mktemp -d "${TMPDIR:-/tmp}/cistron-test.XXXXXX")
trap 'rm -rf "$work"' EXIT
export OMPI_MCA_orte_tmpdir_base=$work # where launchers share a folder, one that ends may remove it as another starts
checks=0
failures=0

# needs TOOL: without it the test is skipped.
needs()
{
    command -v "$1" >/dev/null && return
    echo "skipped: $1 is not installed"
    exit 77
}

# The Python that may have torch and transformers: CISTRON_PYTHON, what runtests has installed, or the system's. Waits
# while runtests installs it.
transformers_python()
{
    local folder=$abs_top_builddir/python
    [ -e "$folder.lock" ] && flock "$folder.lock" true
    if [ -n "${CISTRON_PYTHON:-}" ]; then
        echo "$CISTRON_PYTHON"
    elif [ -e "$folder/ready" ]; then
        echo "$folder/bin/python"
    else
        command -v python3
    fi
}

# check TEXT COMMAND...: the command must succeed.
check()
{
    local text=$1
    shift
    checks=$((checks + 1))
    if ! "$@"; then
        failures=$((failures + 1))
        echo "failed: $text" >&2
    fi
}

finish()
{
    echo "$checks checks, $failures failed"
    [ "$failures" -eq 0 ]
    exit
}

# ranks N ARGUMENTS...: cistron ARGUMENTS on N ranks. Each rank runs under a shell that records its exit code and ends
# with 0, so that mpirun hides neither a hung rank nor a wrong one. Output goes to $work/out, codes to $work/codes.
ranks()
{
    local count=$1
    shift
    rm -f "$work"/code.*
    # shellcheck disable=SC2016
    timeout --kill-after=5 "${RANKS_SECONDS:-240}" $MPIRUN -n "$count" sh -c \
        'folder=$1; shift; "$CISTRON" "$@"; echo $? >"$folder/code.$OMPI_COMM_WORLD_RANK"' \
        sh "$work" "$@" >"$work/out" 2>&1
    cat "$work"/code.* 2>/dev/null | tr '\n' ' ' >"$work/codes"
}

# codes_are CODE N: all N ranks have ended with CODE.
codes_are()
{
    local expected
    expected=$(printf "$1 %.0s" $(seq "$2"))
    [ "$(cat "$work/codes")" = "$expected" ] && return
    echo "    exit codes $(cat "$work/codes")instead of $expected" >&2
    sed 's/^/    | /' "$work/out" | tail -n 20 >&2
    return 1
}

# refused TEXT SAYS ARGUMENTS...: cistron ARGUMENTS on 2 ranks is a mistake of the user's, told once.
refused()
{
    local text=$1 words=$2
    shift 2
    RANKS_SECONDS=60 ranks 2 "$@"
    check "$text: exit code 2 on both ranks" codes_are 2 2
    check "$text: is said" says "$words"
    check "$text: once" test "$(grep -cF -- "$words" "$work/out")" -eq 1
}

# stopped_at_work OUTPUT ARGUMENTS...: cistron ARGUMENTS, ended by SIGTERM once its temporary file of OUTPUT exists,
# leaves nothing of it.
stopped_at_work()
{
    local output=$1
    shift
    "$CISTRON" "$@" -o "$output" >"$work/out" 2>&1 &
    for _ in $(seq 1200); do
        compgen -G "$output.tmp*" >/dev/null && break
        sleep 0.05
    done
    check "it is at work" compgen -G "$output.tmp*" >/dev/null
    kill -TERM $!
    wait $!
    check "stopped by the signal" test $? -eq 143
    check "nothing half-written" test -z "$(compgen -G "$output*")"
}

says()
{
    grep -qF -- "$1" "$work/out" && return
    echo "    the output does not hold: $1" >&2
    sed 's/^/    | /' "$work/out" | tail -n 20 >&2
    return 1
}

# genome SEED BASES...: FASTA with one record for each number of bases, of weakly structured random sequence.
genome()
{
    local seed=$1
    shift
    awk -v seed="$seed" -v lengths="$*" 'BEGIN {
        srand(seed); records = split(lengths, length_of, " ")
        for (r = 1; r <= records; r++) {
            print ">record" r; line = ""; state = 0
            for (i = 0; i < length_of[r]; i++) {
                state = rand() < 0.6 ? (state * 2 + 1) % 4 : int(4 * rand())
                line = line substr("ACGT", state + 1, 1)
                if (length(line) == 60) { print line; line = "" }
            }
            if (line != "") print line
        } }'
}

# losses FOLDER: "step loss" of each logged step.
losses()
{
    sed -n 's/.*"event":"step","step":\([0-9]*\),"loss":\([^,]*\),.*/\1 \2/p' "$1/log.jsonl"
}

# digest FOLDER STEP
digest()
{
    sed -n 's/.*"event":"checkpoint","step":'"$2"',"digest":"\([0-9a-f]*\)".*/\1/p' "$1/log.jsonl" | tail -n 1
}

# close_losses FILE FILE RELATIVE: the same steps, losses within a relative bound.
close_losses()
{
    paste -d ' ' "$1" "$2" | LC_ALL=C awk -v bound="$3" '
        { d = $2 / $4 - 1; if (d < 0) d = -d; if ($1 != $3 || !(d <= bound)) wrong++; if (d > worst) worst = d }
        END { if (NR == 0 || wrong) { print "    " wrong + 0 " of " NR " losses differ, worst " worst > "/dev/stderr"; exit 1 } }'
}

# A small model on the stores $work/g.train.h5 and $work/g.valid.h5; overrides on the command line complete it.
small_deck()
{
    genome 1 40000 300 7000 20000 90 11000 >"$work/g.fa"
    "$CISTRON" prepare --tokenizer nucleotide --split train:0.8,valid:0.2 -o "$work/g.h5" "$work/g.fa" >"$work/out" || return
    cat >"$work/deck.cfg" <<END
model = { layers = 2; hidden = 32; ffn = 64; heads = 4; kv_heads = 2; };
data = { train = "$work/g.train.h5"; valid = "$work/g.valid.h5"; row_tokens = 64; };
train = { steps = 12; global_batch = 7; micro_batch = 2; };
schedule = { warmup = 3; decay = 20; };
validation = { every = 6; rows = 16; };
log = { every = 1; };
device = { threads = 1; };
output = { folder = "$work/run"; };
END
}
