#include "plan/timeline.h"
#include "base/memory.h"

double timeline_seconds(const struct plan_log *log, timeline_cost *cost, const void *self)
{
    double now[STREAM_COUNT] = {0}, end = 0;
    double *reached = memory_allocate((log->count + 1) *
                                      (int64_t)sizeof *reached); /* for each record: the time at which it is reached */
    for (int64_t i = 0; i < log->count; i++) {
        const struct plan_entry *entry = &log->entries[i];
        double *here = &now[entry->stream];
        if (entry->kind == PLAN_LAUNCH) {
            const struct launch_time time = cost(self, entry->stream, entry->op, plan_log_args(log, entry));
            *here += time.alone;
            if (entry->stream != STREAM_COMPUTE)
                now[STREAM_COMPUTE] += time.delay;
        } else if (entry->kind == PLAN_WAIT && entry->record >= 0 && reached[entry->record] > *here)
            *here = reached[entry->record];
        reached[i] = *here;
        end = *here > end ? *here : end;
    }
    memory_free(reached);
    return end;
}
