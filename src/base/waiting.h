/* How the program waits: how long a thread polls before it yields its core. On an idle machine long polling gains
 * nothing; on a busy one it takes cores from the threads that are waited for. The numbers are in waiting.c;
 * bench/waiting_cost measures them. */
#ifndef BASE_WAITING_H
#define BASE_WAITING_H

#include <stdint.h>

/* Sets how long threads of GCC's OpenMP spin. Call it first in main: OpenMP reads its variables before main, so this
 * runs the program again with GOMP_SPINCOUNT set (same process, arguments and signals). Returns if there is nothing to
 * do: in that second run, if the user has set GOMP_SPINCOUNT or OMP_WAIT_POLICY, or with another OpenMP. */
void waiting_choose(char **argv);

/* The state of a wait for other ranks, which polls and calls waiting_turn in between. Short waits spin, which costs no
 * latency; longer ones yield the core, and long ones sleep. All zero at the start. */
struct rank_waiting {
    int64_t turns;
    double since; /* clock_seconds() of the end of its spin */
};

/* Spins, yields or sleeps. Returns the seconds waited so far, 0 while it spins. */
double waiting_turn(struct rank_waiting *waiting);

#endif
