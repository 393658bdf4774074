/* How this program waits: how many times a thread polls before it leaves its core to others. On an idle machine polling
 * for long gains nothing; on a busy one it keeps cores from the threads that are waited for. The numbers are in
 * waiting.c; bench/waiting_cost measures them. */
#ifndef BASE_WAITING_H
#define BASE_WAITING_H

#include <stdint.h>

/* Main's first act: has the threads of GCC's OpenMP, which reads its variables before main, wait as is chosen here, by
 * running the program again with GOMP_SPINCOUNT set: same process, arguments and signals. Returns where nothing is to
 * be done: in that second run, where the user has set GOMP_SPINCOUNT or OMP_WAIT_POLICY, with another OpenMP. */
void waiting_choose(char **argv);

/* Between ranks: whoever waits asks again and again whether the others have come, and takes a turn of this in between.
 * A short wait is spun through, so that it costs no time; a longer one leaves the core to whoever wants it, and a long
 * one sleeps. All zero when it begins. */
struct rank_waiting {
    int64_t turns;
    double since; /* clock_seconds() of the end of its spin */
};

/* Lets a moment pass. Returns the seconds waited so far, 0 while it spins. */
double waiting_turn(struct rank_waiting *waiting);

#endif
