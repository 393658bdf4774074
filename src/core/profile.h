/* Where the device's time goes: while a profile runs, the door takes the time of every launch on its stream and adds up
 * launches of the same op and shape. Executors without stamps (core/launch.h) are timed by the host's clock, which is
 * right where launches are synchronous. */
#ifndef CORE_PROFILE_H
#define CORE_PROFILE_H

#include "core/executor.h"

/* All launches of an op on tensors of one shape. */
struct profile_row {
    enum op op;
    int64_t rows, cols;   /* of the largest tensor that it writes */
    int64_t flops, bytes; /* of one launch: op_flops, op_bytes */
    int64_t calls;
    double seconds; /* of all calls */
};

/* A collective of more than one rank. */
struct profile_collective {
    int64_t step;   /* as profile_step has it */
    int64_t number; /* from 0, of its group's collectives in the profile: the same on all ranks of the group */
    const struct group *group;
    enum op op;
    int stream;
    int64_t bytes;     /* of the largest tensor that it writes */
    double start, end; /* seconds since the first launch of its step; the end is later where it waits for other ranks */
};

/* Launches are timed from here on; the rows of an earlier profile are dropped. Starts profilers too
 * (cudaProfilerStart). */
void profile_start(struct executor *executor);
/* Waits for all launches and ends the profile. Returns rows[*count], longest time first; valid until the next start. */
const struct profile_row *profile_stop(int *count);

/* The profile's launches from here on are those of this step. */
void profile_step(int64_t step);
/* The collectives of the profile that has ended, in the order of their launches; freed with free(). */
struct profile_collective *profile_collectives(int64_t *count);

/* On a rank without a profile, while others take one: what they launch is not replayed here either (core/group.h). */
void profile_follow(bool on);

/* Here, or on a rank that this one follows. */
bool profile_running(void);

/* For the door: profile_enter begins the timing of a launch and returns the number to give to profile_leave; -1 when
 * there is no profile. group: of a collective, else NULL. */
int64_t profile_enter(struct stream *stream, enum op op, const void *args, const struct group *group);
void profile_leave(struct stream *stream, int64_t entry);

#endif
