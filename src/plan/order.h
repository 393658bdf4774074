/* Happens-before: launches on one stream run in order, and launches before an event's record run before those after a
 * wait for it. All others may run at the same time. (Lamport 1978; vector clocks: Mattern 1989.) */
#ifndef PLAN_ORDER_H
#define PLAN_ORDER_H

#include "plan/log.h"

/* known[s]: index of the last launch of stream s that is sure to have ended. ORDER_START: none of the log, but all that
 * stream s ran before the log has ended. ORDER_NONE: not even that. */
enum { ORDER_NONE = -2, ORDER_START = -1 };

struct order_clock {
    int64_t known[STREAM_COUNT];
};

struct launch_order {
    /* [log->count]: what has ended when the launch starts; undefined for entries that are no launch. */
    struct order_clock *before;
    struct order_clock end; /* what has ended for the compute stream at the log's end */
};

/* without: a wait of the log that is left out; -1 = none. */
void order_create(struct launch_order *order, const struct plan_log *log, int64_t without);
void order_destroy(struct launch_order *order);

#endif
