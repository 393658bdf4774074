/* When buffers live and what of them is used, read off a log: which buffers may share memory, and how much memory the
 * ops of a log really touch. */
#ifndef PLAN_LIFETIME_H
#define PLAN_LIFETIME_H

#include "plan/log.h"

enum { LIFETIME_ALIGNMENT = 256 }; /* bytes; offsets are multiples of it */

/* A buffer of the planning executor, or part of one. The buffers of one call have no byte in common. */
struct lifetime {
    const void *base;
    int64_t bytes;
    int64_t first, last; /* out: first and last entry of the log that touches it; -1 = none does */
    int64_t from, until; /* out: when it lives, in moments of the compute stream: entry i is at 2 i */
    bool pinned;         /* out: some touch is not ordered against the log's start or end */
    int64_t offset;      /* out: place in the arena, bytes */
};

struct lifetime_arena {
    int64_t bytes;       /* what the offsets need */
    int64_t lower_bound; /* the most bytes alive at any moment: no arena that goes by these lifetimes can be smaller */
    int64_t pinned;      /* buffers that are */
};

/* Finds each buffer's lifetime and a place for each in one arena, such that buffers alive at the same time share no
 * byte. The contents of a buffer before its first and after its last touch must be of no value. A touch by another
 * stream lasts from the last launch of the compute stream that it is ordered after to the first that is ordered after
 * it. Where an event is missing, so that the log's start or end stands for that launch, the buffer is pinned: another
 * log that uses the arena before or after could disturb it. A buffer that nothing touches gets no space: it is at
 * offset 0 and adds nothing. Deterministic. */
struct lifetime_arena lifetime_plan(const struct plan_log *log, struct lifetime *buffers, int64_t count);

/* Bytes from base to the end of the highest byte below base + bytes that a launch touches; 0 = none is. */
int64_t lifetime_touched(const struct plan_log *log, const void *base, int64_t bytes);

/* How many of the bytes at base .. base + bytes - 1 launches touch. */
int64_t lifetime_covered(const struct plan_log *log, const void *base, int64_t bytes);

/* A block of memory and the caller's number for what it is for. */
struct lifetime_block {
    const void *base;
    int64_t bytes;
    int category; /* 0 .. categories - 1 */
};

/* Sums lifetime_touched of all blocks by category into high_water[categories]. */
void lifetime_high_water(const struct plan_log *log, const struct lifetime_block *blocks, int64_t count,
                         int64_t *high_water, int categories);

#endif
