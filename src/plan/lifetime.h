/* Lifetimes of buffers, computed from a log, and which buffers may share memory. */
#ifndef PLAN_LIFETIME_H
#define PLAN_LIFETIME_H

#include "plan/log.h"

enum { LIFETIME_ALIGNMENT = 256 }; /* bytes; offsets are multiples of it */

/* A buffer of the planning executor, or part of one. The buffers passed to one call must not overlap. */
struct lifetime {
    const void *base;
    int64_t bytes;
    int64_t first, last; /* out: first and last entry of the log that accesses it; -1 = none */
    int64_t from, until; /* out: lifetime, in moments of the compute stream; entry i of the log is moment 2 i */
    bool pinned;         /* out: an access is not ordered against the log's start or end */
    int64_t offset;      /* out: offset in the arena, bytes */
};

struct lifetime_arena {
    int64_t bytes;       /* size of the arena */
    int64_t lower_bound; /* the maximum of the bytes alive at a moment: no arena for these lifetimes can be smaller */
    int64_t pinned;      /* number of pinned buffers */
};

/* Computes each buffer's lifetime and its offset in one arena, such that buffers alive at the same time do not overlap.
 * The contents of a buffer must not be needed before its first or after its last access. An access by another stream
 * lasts from the last launch of the compute stream that precedes it in the order to the first one that follows it. If
 * an event is missing, so that the log's start or end takes the place of that launch, the buffer is pinned: another log
 * that uses the arena before or after could disturb it. A buffer without accesses gets offset 0 and no space.
 * Deterministic. */
struct lifetime_arena lifetime_plan(const struct plan_log *log, struct lifetime *buffers, int64_t count);

#endif
