/* The record executor: passes everything on to another executor and keeps a log, which it can replay as issued or in
 * any other order that streams and events allow. If all orders give the same bits, the program has all necessary
 * events. (Not related to CUDA graphs, engine/replay.h.) */
#ifndef PLAN_RECORD_H
#define PLAN_RECORD_H

#include "plan/log.h"

/* Makes an executor of class "record" for `inner` (borrowed), with logging on. Streams used with it must outlive its
 * replays, and so must memory and groups that launches use. Free with class->destroy. */
struct executor *record_executor_create(struct executor *inner);

/* Switches logging on or off; launches are passed on in either case. */
void record_enable(struct executor *executor, bool enabled);

/* Returns the log, owned by the executor; race_check accepts it. */
const struct plan_log *record_executor_log(const struct executor *executor);

/* Empties the log. */
void record_clear(struct executor *executor);

enum record_order {
    RECORD_AS_ISSUED, /* the order of the log */
    RECORD_RANDOM     /* a random order by `seed` that streams and events allow; streams run at random speeds */
};

/* Launches the log again on the inner executor, without logging. Values that the launches read before writing them must
 * be as they were. without: index of a wait to leave out, -1 = none. Returns when everything is issued; synchronize the
 * streams to wait for the end. */
void record_replay(struct executor *executor, enum record_order order, uint64_t seed, int64_t without);

#endif
