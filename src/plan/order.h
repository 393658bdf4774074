/* What is over before what: launches on one stream run in order, and an event orders those before its record before
 * those after a wait for it. Everything else may run at the same time. (Lamport 1978; vector clocks: Mattern 1989.) */
#ifndef PLAN_ORDER_H
#define PLAN_ORDER_H

#include "plan/log.h"

/* Entries of streams: known[s] is the last launch of stream s that is over; ORDER_NONE = none, and what came before the
 * log may still run; ORDER_START = what stream s ran before the log is over, and no launch of the log yet. */
enum { ORDER_NONE = -2, ORDER_START = -1 };

struct order_clock {
    int64_t known[STREAM_COUNT];
};

struct order {
    struct order_clock *before; /* [log->count]: what is over when a launch starts; of other entries undefined */
    struct order_clock end;     /* what is over for the compute stream at the log's end */
};

/* without: a wait of the log that is left out; -1 = none. */
void order_create(struct order *order, const struct plan_log *log, int64_t without);
void order_destroy(struct order *order);

#endif
