/* Lifetimes of buffers, read off a log: which buffers may share memory. */
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

#endif
