/* Lifetimes of buffers, read off a log: which buffers may share memory, and how many of their bytes ops really touch.
 */
#ifndef PLAN_LIFETIME_H
#define PLAN_LIFETIME_H

#include "plan/log.h"

enum { LIFETIME_ALIGNMENT = 256 }; /* bytes; offsets are multiples of it */

/* A buffer of the planning executor, or part of one. The buffers of one call have no byte in common. */
struct lifetime {
    const void *base;
    int64_t bytes;
    int64_t first, last; /* out: first and last entry of the log that touches it; -1 = none does */
    int64_t from, until; /* out: its lifetime, in moments of the compute stream; entry i of the log is moment 2 i */
    bool pinned;         /* out: some touch is not ordered against the log's start or end */
    int64_t offset;      /* out: place in the arena, bytes */
};

struct lifetime_arena {
    int64_t bytes;       /* what the offsets need */
    int64_t lower_bound; /* the most bytes alive at any moment: no arena that goes by these lifetimes can be smaller */
    int64_t pinned;      /* how many buffers are pinned */
};

/* Finds each buffer's lifetime and a place for each in one arena, such that buffers alive at the same time share no
 * byte. Nobody may need the contents of a buffer before its first or after its last touch. A touch by another
 * stream lasts from the last launch of the compute stream that it is ordered after to the first that is ordered after
 * it. Where an event is missing, so that the log's start or end stands for that launch, the buffer is pinned: another
 * log that uses the arena before or after could disturb it. A buffer that nothing touches gets no space: it is at
 * offset 0 and adds nothing. Deterministic. */
struct lifetime_arena lifetime_plan(const struct plan_log *log, struct lifetime *buffers, int64_t count);

/* Of the bytes at base .. base + bytes - 1: the number up to the last that a launch touches; 0 = none is touched. */
int64_t lifetime_touched(const struct plan_log *log, const void *base, int64_t bytes);

/* Of the same bytes: how many launches touch. */
int64_t lifetime_covered(const struct plan_log *log, const void *base, int64_t bytes);

/* An allocation, with the caller's number for its purpose. */
struct lifetime_block {
    const void *base;
    int64_t bytes;
    int category; /* 0 .. categories - 1 */
};

/* Sums lifetime_touched of blocks[count] by category into high_water[categories]. */
void lifetime_high_water(const struct plan_log *log, const struct lifetime_block *blocks, int64_t count,
                         int64_t *high_water, int categories);

#endif
