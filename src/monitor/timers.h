/* Where the time of a program went: the parts of its loop, which add up to the whole, and the ops that they are made
 * of. Measured by monitor/meter.h, read back by report/history.h, shown alike by both. */
#ifndef MONITOR_TIMERS_H
#define MONITOR_TIMERS_H

#include <stdint.h>

struct timer {
    const char *name, *kind;       /* kind: "part" of the loop, "all": the whole program, "beside" it, "op" */
    int64_t calls;                 /* of rank 0 */
    double minimum, mean, maximum; /* seconds over ranks */
};

/* The share of the i-th of timers[count] by their means: of an op in all ops, of a part in the whole. */
double timers_percent(const struct timer *timers, int64_t count, int64_t i);

/* Lines on standard output, parts and ops apart, `begin` in front of each. */
void timers_print(const struct timer *timers, int64_t count, const char *begin);

#endif
