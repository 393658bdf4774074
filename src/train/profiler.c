#include "train/profiler.h"
#include "base/error.h"
#include "core/profile.h"

#include <stdlib.h>
#include <string.h>

/* Is the rank in the list ("0,3" or "all")? -1: the list is none. */
static int listed(const char *ranks, int rank)
{
    if (strcmp(ranks, "all") == 0)
        return 1;
    int found = 0;
    for (const char *at = ranks;;) {
        char *end;
        if (*at < '0' || *at > '9')
            return -1;
        found |= strtol(at, &end, 10) == rank;
        if (*end == '\0')
            return found;
        if (*end != ',')
            return -1;
        at = end + 1;
    }
}

int profiler_check(const struct deck *deck)
{
    if (listed(deck->profile.ranks, 0) < 0)
        return error_user("key profile.ranks: \"%s\" is no list of ranks, as \"0\" or \"0,8\" or \"all\"",
                          deck->profile.ranks);
    if (deck->profile.stop < deck->profile.start)
        return error_user("key profile.stop: %lld is before profile.start = %lld", (long long)deck->profile.stop,
                          (long long)deck->profile.start);
    return ERROR_NONE;
}

void profiler_create(struct profiler *profiler, const struct deck *deck, int rank)
{
    *profiler = (struct profiler){
        .start = deck->profile.start, .stop = deck->profile.stop, .listed = listed(deck->profile.ranks, rank) > 0};
}

void profiler_before(struct profiler *profiler, struct executor *executor, int64_t step)
{
    if (profiler->start == 0 || step != profiler->start)
        return;
    if (profiler->listed)
        profile_start(executor);
    else
        profile_follow(true);
    profiler->on = true;
}

void profiler_after(struct profiler *profiler, struct meter *meter, int64_t step)
{
    if (!profiler->on || step < profiler->stop)
        return;
    profiler->on = false;
    if (!profiler->listed) {
        profile_follow(false);
        return;
    }
    int count;
    const struct profile_row *rows = profile_stop(&count);
    meter_profile(meter, step, step - profiler->start + 1, rows, count);
}
