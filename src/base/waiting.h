/* How a rank waits for others: it asks again and again whether they have come, and takes a turn of this in between. A
 * short wait is spun through, so that it costs no time; a longer one leaves the core to whoever wants it, and a long
 * one sleeps. The numbers are in waiting.c. */
#ifndef BASE_WAITING_H
#define BASE_WAITING_H

#include <stdint.h>

/* One wait; all zero when it begins. */
struct waiting {
    int64_t turns;
    double since; /* clock_seconds() of the end of its spin */
};

/* Lets a moment pass. Returns the seconds waited so far, 0 while it spins. */
double waiting_turn(struct waiting *waiting);

#endif
