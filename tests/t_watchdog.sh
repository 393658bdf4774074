#!/bin/bash
# The watchdog of GPU collectives, on a device that a test program plays (tests/watchdog.c), names the right collective
# and the silent rank: with 20,000 collectives in flight, on two streams of one group, and with a call that does not
# return.
. "$abs_top_srcdir/tests/lib.sh"

# ends RANKS CASE CODE [PATTERN]: the program's exit code, and what it has printed
ends()
{
    # shellcheck disable=SC2086 # MPIRUN is words
    timeout 40 $MPIRUN -n "$1" "$abs_top_builddir/tests/watchdog" "$2" >"$work/$2" 2>&1 </dev/null
    local code=$?
    [ $code -eq "$3" ] && { [ $# -lt 4 ] || grep -q "$4" "$work/$2"; } && return
    echo "$2: exit code $code, expected $3 and: ${4:-}" >&2
    cat "$work/$2" >&2
    return 1
}

named='of group "test" has not finished on rank 0 of its'
check "20,000 collectives in flight: the right one is named, and only the rank that answers nobody" \
    ends 3 table 1 "the stuck one number 17000 $named 3 .*; missing: rank 1 on [^,]*\$"
check "a collective on a second stream ends first" ends 2 overtaken 1 "first number 0 $named"
check "the device is in a later collective of a second stream" ends 2 waits 1 "second number 1 $named"
check "a call of NCCL that does not return" ends 2 call 1 "the first call $named"
check "40,000 collectives on two streams end" ends 2 passes 0
finish
