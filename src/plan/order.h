/* Happens-before: launches on one stream run in order, and launches before an event's record run before the launches
 * after a wait for it. All other launches may overlap in time. (Lamport 1978; vector clocks: Mattern 1989.) */
#ifndef PLAN_ORDER_H
#define PLAN_ORDER_H

#include "plan/log.h"

/* known[s]: index of the last launch of stream s that has certainly ended. ORDER_START: only the launches of stream s
 * before the log have certainly ended. ORDER_NONE: not even those. */
enum { ORDER_NONE = -2, ORDER_START = -1 };

struct order_clock {
    int64_t known[STREAM_COUNT];
};

struct launch_order {
    /* [log->count]: what has ended when the launch starts; undefined for entries that are not launches */
    struct order_clock *before;
    struct order_clock end; /* what has ended for the compute stream at the end of the log */
};

/* Computes the order of a log. without: index of a wait to leave out; -1 = none. */
void order_create(struct launch_order *order, const struct plan_log *log, int64_t without);
void order_destroy(struct launch_order *order);

#endif
