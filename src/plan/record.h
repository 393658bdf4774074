/* The record executor: passes everything on to another executor and keeps a log, which it can replay as issued or in
 * any other order that streams and events allow. If all orders give the same bits, the program has all the events that
 * it needs. (Not the recordings of engine/replay.h, which an executor makes.) */
#ifndef PLAN_RECORD_H
#define PLAN_RECORD_H

#include "plan/log.h"

/* An executor of class "record" in front of `inner` (borrowed). It records from its creation on. Streams used with it
 * must outlive its replays, as must memory and groups that launches name. Free with class->destroy. */
struct executor *record_executor_create(struct executor *inner);

/* Switches logging on or off; launches are passed on in either case. */
void record_enable(struct executor *executor, bool enabled);

/* The log, owned by the executor; race_check takes it like a planning executor's. */
const struct plan_log *record_executor_log(const struct executor *executor);

/* Empties the log. */
void record_clear(struct executor *executor);

enum record_order {
    RECORD_AS_ISSUED, /* the order of the log */
    RECORD_RANDOM /* drawn from `seed` among the orders that streams and events allow; streams run at random paces */
};

/* Launches the log again on the inner executor, without recording. Values that the launches read (and do not write
 * first) must be as they were. `without` is the index of a wait of the log to leave out, -1 = none. Returns when all is
 * issued; synchronize the streams to wait for the end. */
void record_replay(struct executor *executor, enum record_order order, uint64_t seed, int64_t without);

#endif
