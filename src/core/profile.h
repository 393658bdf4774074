/* Profiles: while a profile runs, launch() times every launch on its stream and adds up launches of the same op and
 * shape. Executors without stamps (executor_profiling in core/executor.h) are timed by the host's clock, which is
 * correct where launches are synchronous. */
#ifndef CORE_PROFILE_H
#define CORE_PROFILE_H

#include "core/executor.h"

/* All launches of an op on tensors of one shape. */
struct profile_row {
    enum op op;
    int64_t rows, cols;   /* size of the largest tensor that the op writes */
    int64_t flops, bytes; /* work of one launch: op_flops, op_bytes */
    int64_t calls;
    double seconds; /* sum over all calls */
};

/* A collective of more than one rank. */
struct profile_collective {
    int64_t step;   /* of profile_step */
    int64_t number; /* index from 0 among its group's collectives in the profile: the same on all ranks of the group */
    const struct group *group;
    enum op op;
    int stream;
    int64_t bytes;     /* bytes of the largest tensor that the op writes */
    double start, end; /* seconds since the first launch of its step; end includes the wait for other ranks */
};

/* Starts a profile and drops the rows of the previous one. Also starts an attached profiler (cudaProfilerStart). */
void profile_start(struct executor *executor);
/* Waits for all launches and ends the profile. Returns rows[*count], longest time first, valid until the next start. */
const struct profile_row *profile_stop(int *count);

/* Sets the step number of the launches that follow. */
void profile_step(int64_t step);
/* Returns the collectives of the last profile, in the order of their launches; freed with free(). */
struct profile_collective *profile_collectives(int64_t *count);

/* For a rank without a profile while others profile: with `on`, it does not replay captured graphs either
 * (core/group.h). */
void profile_follow(bool on);

/* Returns whether a profile runs on this rank or on one that it follows. */
bool profile_running(void);

/* For launch(): profile_enter begins the timing of a launch and returns the number to pass to profile_leave; -1 without
 * a profile. group: the group of a collective, else NULL. */
int64_t profile_enter(struct stream *stream, enum op op, const void *args, const struct group *group);
void profile_leave(struct stream *stream, int64_t entry);

#endif
