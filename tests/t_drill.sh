#!/bin/bash
# The drills of bench/drills in short: runs interrupted at random by signals, kills, a full disk and damaged files end
# bit for bit like undisturbed ones, and within 1e-6 where each start has other ranks. Another build, replaced token
# stores, a folder that disappears and clocks that jump are reported.
. "$abs_top_srcdir/tests/lib.sh"
needs python3
needs readelf
drills()
{
    python3 "$abs_top_srcdir/bench/drills/run" --build "$abs_top_builddir" --slow 0 "$@"
}
check "interrupted trainings end as whole ones" drills --seed 762 --rounds 3 --interruptions 3 --steps 200 interruptions
check "on other ranks too" drills --seed 3 --interruptions 5 --steps 150 moves
check "what else befalls runs is told" drills --steps 120 --interruptions 3 build store folder clock
finish
