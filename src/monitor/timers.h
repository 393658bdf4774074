/* The timer summary of a program: the parts of its loop, which add up to the whole, and the ops. monitor/meter.h
 * measures it, report/history.h reads it back, and both print it with timers_print. */
#ifndef MONITOR_TIMERS_H
#define MONITOR_TIMERS_H

#include <stdint.h>

struct timer {
    /* kind: "part" (of the loop), "all" (the whole program), "beside" (background work), "op" */
    const char *name, *kind;
    int64_t calls;                 /* calls on rank 0 */
    double minimum, mean, maximum; /* seconds over ranks */
};

/* Returns the percentage of the i-th of timers[count], by mean seconds: an op's among all ops, a part's of the whole.
 */
double timers_percent(const struct timer *timers, int64_t count, int64_t i);

/* Prints the timers on standard output, parts and ops separately, each line after `begin`. */
void timers_print(const struct timer *timers, int64_t count, const char *begin);

#endif
