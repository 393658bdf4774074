#!/bin/bash
# The short form of tests/drill: trainings on 1 and 3 ranks that are interrupted in every way end as those that nobody
# touched.
. "$abs_top_srcdir/tests/lib.sh"
needs python3
check "interrupted trainings end as whole ones" \
    python3 "$abs_top_srcdir/tests/drill" --build "$abs_top_builddir" --seed 762 --rounds 3 --interruptions 3 --steps 200
finish
