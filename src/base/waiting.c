#include "base/waiting.h"
#include "base/clock.h"

#include <sched.h>
#include <time.h>

/* Turns at the beginning that do nothing: some tens of microseconds with what is asked in between. */
enum { SPIN_TURNS = 100 };

/* From the spin's end until then a turn yields; later ones sleep for a share of the time waited so far, so that a wait
 * takes little longer than it must. */
static const double YIELD_SECONDS = 5e-3, SLEEP_SHARE = 1.0 / 64, LONGEST_SLEEP = 2e-3;

double waiting_turn(struct waiting *waiting)
{
    if (waiting->turns++ < SPIN_TURNS)
        return 0;
    const double now = clock_seconds();
    if (waiting->since == 0)
        waiting->since = now;
    const double waited = now - waiting->since;
    if (waited < YIELD_SECONDS) {
        sched_yield();
        return waited;
    }
    const double sleep = waited * SLEEP_SHARE < LONGEST_SLEEP ? waited * SLEEP_SHARE : LONGEST_SLEEP;
    nanosleep(&(struct timespec){.tv_nsec = (long)(1e9 * sleep)}, NULL);
    return waited;
}
