#!/bin/bash
# The short form of bench/drills: trainings that are interrupted in every way end as those that nobody touched, on the
# same ranks and on others; and what else befalls runs is told.
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
