/* The race check: tests on a log, before a job runs, whether events order every two launches that must not overlap in
 * time. */
#ifndef PLAN_RACE_H
#define PLAN_RACE_H

#include "plan/log.h"

/* Two unordered launches on different streams that access a common byte, at least one writing it. */
struct launch_race {
    struct {
        int64_t entry; /* index in the log; first.entry < second.entry */
        enum op op;
        int stream;
        const char *field; /* the tensor's name in the op's arguments */
        int access;        /* enum op_access */
    } first, second;
};

/* Checks a log with vector clocks (Fidge 1988, Mattern 1989): launches of one stream are ordered, and a wait orders
 * everything before the awaited record before everything after the wait. without: index of a wait to leave out, to see
 * whether it is needed; -1 = none. Writes the first `max` races and returns the number of all races, one for each pair
 * of conflicting tensors. */
int64_t race_check(const struct plan_log *log, int64_t without, struct launch_race *out, int max);

/* Returns a line that describes a race; freed with free(). */
char *race_describe(const struct launch_race *race);

#endif
