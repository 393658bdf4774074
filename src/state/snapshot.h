/* A copy of this rank's share of weights and moments (piece_visit_shares) in host memory, from which a checkpoint is
 * written in the background. The copies run on a stream of their own; only the engine's next update waits for them.
 *
 * Tensor ranks that own columns exchange their copies for whole rows (state/exchange.h), between steps and a part at a
 * time, while the device works on launched steps. The columns stay in memory; the rows need as much again. */
#ifndef STATE_SNAPSHOT_H
#define STATE_SNAPSHOT_H

#include "core/launch.h"
#include "state/fetched.h"

struct engine;
struct snapshot_part;
struct snapshot_rows;
struct snapshot_share;

struct snapshot {
    struct engine *engine;       /* borrowed */
    struct snapshot_part *parts; /* [count], in the order of piece_visit_share_parts */
    int64_t count, capacity;
    int64_t *buffer_bytes; /* [buffers] */
    char **buffers;        /* [buffers] in the executor's host memory; the first `grown` are allocated */
    int buffer_count, grown;
    struct event written;          /* the state to copy is complete */
    struct comm *comm;             /* tensor ranks, borrowed; NULL: columns are not exchanged */
    struct snapshot_share *shares; /* [share_count] shares whose columns are exchanged, in the order of parts */
    int64_t share_count, share_capacity, shares_exchanged;
    struct snapshot_rows
        *rows; /* [rows_allocated] whole rows after the exchange; the first rows_count are of this copy */
    int64_t rows_count, rows_allocated, rows_capacity;
    int64_t exchange_bytes;  /* whole rows of all tensor ranks after which a call of snapshot_complete returns */
    double exchange_seconds; /* seconds that calls of snapshot_complete have spent on exchanges, in total */
};

/* Returns the bytes of a snapshot on this rank; also works for a planned engine. Local. */
int64_t snapshot_bytes(struct engine *engine);

/* Makes a snapshot without memory. All functions of this header are local, except snapshot_complete. */
void snapshot_create(struct snapshot *snapshot, struct engine *engine);
void snapshot_destroy(struct snapshot *snapshot);

/* Allocates a part of the memory, at most a quarter of a GiB: allocating pinned memory takes time, which a run overlaps
 * with its steps. Returns false when all is allocated. */
bool snapshot_grow(struct snapshot *snapshot);

/* Starts to copy the state after all launches so far, and allocates the missing memory. Replaces the previous content.
 */
void snapshot_take(struct snapshot *snapshot);
/* Returns whether the copy is complete; with `wait`, waits for it. Only for the thread that launches, as snapshot_take.
 */
bool snapshot_taken(struct snapshot *snapshot, bool wait);

/* Returns whether the copy is complete and its columns are exchanged. Exchanges a part of them (exchange_bytes), or
 * with `wait` all that is left. Collective over the engine's tensor ranks. */
bool snapshot_complete(struct snapshot *snapshot, bool wait);

/* Calls visit (state/fetched.h) for each run of a complete snapshot, until a call fails; returns the result of the last
 * call. Uses no device and no other rank, so a thread may call it concurrently with steps. */
int snapshot_visit(const struct snapshot *snapshot, fetch_visit *visit, void *self);

#endif
