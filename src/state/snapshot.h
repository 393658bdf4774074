/* A copy of this rank's share of weights and moments (piece_visit_shares) in host memory, for a checkpoint that is
 * written while steps go on. The copies run on a stream of their own; the engine's next update waits for them, and no
 * other part of a step does. */
#ifndef STATE_SNAPSHOT_H
#define STATE_SNAPSHOT_H

#include "core/launch.h"

struct engine;
struct fetched_elements;
struct snapshot_part;

struct snapshot {
    struct engine *engine;       /* borrowed */
    struct snapshot_part *parts; /* [count], in the order of piece_visit_share_parts */
    int64_t count, capacity;
    int64_t *chunk_bytes; /* [chunks] */
    char **chunks;        /* [chunks] of the executor's host memory; the first `grown` of them are there */
    int chunk_count, grown;
    struct event written; /* what is copied has been */
};

/* The bytes of a snapshot on this rank; also of an engine that is planned. Local. */
int64_t snapshot_bytes(struct engine *engine);

/* Takes no memory yet. Local, as is all that follows. */
void snapshot_create(struct snapshot *snapshot, struct engine *engine);
void snapshot_destroy(struct snapshot *snapshot);

/* Takes a part of the memory, a quarter of a GiB at most: memory that is pinned takes its time, which a run hides
 * behind its steps. False when all is there. */
bool snapshot_grow(struct snapshot *snapshot);

/* Starts to copy the state as it is behind all that was launched; takes what memory is missing. The snapshot before is
 * replaced. */
void snapshot_take(struct snapshot *snapshot);
/* Is the copy complete? With `wait`: returns true once it is. For the thread that launches, like snapshot_take. */
bool snapshot_taken(struct snapshot *snapshot, bool wait);

/* Calls visit (state/fetched.h) for each run of a complete snapshot, until a call fails; returns what the last one did.
 * Touches no device and no other rank: a thread beside the steps may call it. */
int snapshot_visit(const struct snapshot *snapshot,
                   int (*visit)(void *self, const struct fetched_elements *fetched, const void *content), void *self);

#endif
