/* The weight store: who holds weights, gradients and moments, and when they move. Units see addresses between acquire
 * and release (weights), and between open and close (gradients). Nothing here blocks the host.
 *
 * An action may be recorded and run again later without the store's code. So the store decides what to move, when and
 * where from the action's pass, from what `begin` is told and from the place among its units, never from what ran
 * before. */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "model/model.h"
#include "store/budget.h"
#include "store/exact.h"
#include "store/groups.h"
#include "store/master.h"

/* What this rank holds of a storage class of a unit: elements first .. first + count - 1 of its flat buffer, which the
 * optimizer updates and a checkpoint holds. All [1, count]; absent where the count is 0. */
struct store_shard {
    int64_t first;
    int holder, holders; /* `holders` ranks hold the same elements; this rank is number `holder` of them, from 0 */
    struct master_weights weight;
    struct tensor gradient;
    struct tensor m, v; /* these and the gradient are absent where nothing is trained */
};

/* The units that the actions of a chunk acquire, in their order. */
struct unit_visits {
    struct unit *const *forward, *const *backward; /* [count] each */
    int count;
    int training; /* of a forward: those of PASS_FORWARD, in which the units behind them are idle */
};

struct weight_store {
    const struct store_class *class;
    void *self;
    int64_t copies; /* bytes of its weights that are copies of few bits, and their scales */
};

struct store_class {
    /* An action starts. It acquires units[count] one after the other; the list stays as it is until the action ends. A
     * unit that lends weights to another (a tied embedding) stands right before it, and is released after it. written:
     * the stream has written weights of shards since the last action, by an update, a checkpoint or initial values. In
     * this action what was written reaches all ranks that hold it, and copies that the store keeps are made of it. */
    void (*begin)(struct weight_store *store, struct unit *const *units, int count, struct stream *stream,
                  bool written);
    /* From here on in the stream the unit's weight_base and, in training, its copy_base are valid; in place of matrices
     * it may be row_base. */
    void (*acquire)(struct weight_store *store, struct unit *unit, struct stream *stream);
    void (*release)(struct weight_store *store, struct unit *unit, struct stream *stream);
    /* Sets gradient_base and gradient_fresh. */
    void (*gradients_open)(struct weight_store *store, struct unit *unit, struct stream *stream, bool fresh);
    /* last: the step's final contribution. The sum over ranks starts at the next start_transfers. */
    void (*gradients_close)(struct weight_store *store, struct unit *unit, struct stream *stream, bool last);
    /* Starts the sums of all units that were closed (execution_start_transfers in model/execution.h). */
    void (*start_transfers)(struct weight_store *store, struct stream *stream);
    /* The action ends: sums that have not started start now. The stream waits for all sums, so that other streams are
     * joined, unless this was the last backward of a step, of whatever chunk: then gradients_wait does. */
    void (*end)(struct weight_store *store, struct stream *stream, bool last);
    /* From here on in the stream the unit's gradients are complete. After the step's last backward. */
    void (*gradients_wait)(struct weight_store *store, struct unit *unit, struct stream *stream);
    struct store_shard (*shard)(struct weight_store *store, struct unit *unit, enum storage_class storage);
    void (*destroy)(struct weight_store *store);
};

/* What a rank holds of a training's state, and when the rest moves. Of a model of P parameters with bf16 values, n
 * ranks to a sharding group and masters, in bytes a parameter; buffers for three units come on top:
 *
 *   level            values  remainders, moments  gradients  moves
 *   SHARD_NONE       2       10                   4          gradients are summed in the step's last micro-batch
 *   SHARD_OPTIMIZER  2       10 / n               4          they are scattered there; the next forward gathers values
 *   SHARD_GRADIENTS  2       10 / n               4 / n      gradients are scattered in each micro-batch
 *   SHARD_FULL       2 / n   10 / n               4 / n      and values are gathered for each forward and backward
 */
enum shard_level { SHARD_NONE, SHARD_OPTIMIZER, SHARD_GRADIENTS, SHARD_FULL };

struct sharding {
    enum shard_level level;
    bool whole_gradients; /* from SHARD_GRADIENTS on: they stay whole, 4 bytes, and are scattered once a step */
    bool bf16_sums;       /* gradients travel between the ranks of a sharding group as bf16, and are added in fp32 */
    bool bf16_gradients;  /* gradients are kept as bf16, 2 bytes; what micro-batches and ranks add is summed in fp32 */
    bool no_masters;      /* values, gradients and moments are bf16, without remainders: 8 bytes a parameter in all */
    /* Gradients are summed in f64, exactly, and rounded to fp32 once. Sums take 8 bytes a parameter, or 8 / n, and
     * gradients 4 / n. Where sums are whole they travel, in f64; else what each micro-batch adds does, in fp32. Not
     * with bf16_sums, bf16_gradients, no_masters or gradients that ranks make of what they gather. */
    struct exact_units exact;
};

/* Do ranks hold cuts of values, so that each action gathers what it reads? */
static inline bool sharding_cuts_values(const struct sharding *sharding, const struct parallel_groups *groups)
{
    return sharding->level == SHARD_FULL && group_size(groups->gather) > 1;
}

/* Do ranks of a sharding group hold cuts of gradients? */
static inline bool sharding_cuts_gradients(const struct sharding *sharding)
{
    return sharding->level >= SHARD_GRADIENTS && !sharding->whole_gradients;
}

/* Are gradients summed over a sharding group by all-to-alls, and added here? */
static inline bool sharding_exchanges(const struct sharding *sharding)
{
    return sharding->bf16_sums || (sharding->exact.gradient > 0 && sharding_cuts_gradients(sharding));
}

/* Are gradients kept as bf16? */
static inline bool sharding_rounds(const struct sharding *sharding)
{
    return sharding->bf16_gradients || sharding->no_masters;
}

/* Bytes that a rank receives in a step of so many micro-batches while so many gradients are summed: over the `ranks` of
 * a sharding group, and over `replicas` of it. */
int64_t store_sum_bytes(const struct sharding *sharding, int ranks, int replicas, int64_t elements,
                        int64_t micro_batches);

/* What a store is made for. All are borrowed. */
struct store_request {
    struct model *model;
    struct budget *budget;  /* to allocate from */
    struct stream *streams; /* [STREAM_COUNT]; collectives run on STREAM_REDUCE and STREAM_GATHER */
    const struct parallel_groups *groups;
    struct sharding sharding;
    enum dtype compute;                /* of the weights that units read */
    enum dtype statistic;              /* of masters, gradients and moments that are not bf16 */
    bool trains;                       /* false: no gradients, moments or copies; gradients are never opened */
    const struct execution *execution; /* what units make copies of their weights in: unit_class.copy_weights */
    const struct unit_visits *visits;  /* of each of the model's chunks */
};

/* Weights are zero until written. A unit's weights are one flat buffer: matrices, vectors, and padding, so that it can
 * be cut evenly over the ranks of a sharding group; one collective moves it. With SHARD_NONE, or one rank to a group,
 * every rank holds everything: then `replicas` are all ranks of `data`. Collective over groups->data. */
struct weight_store *store_create(const struct store_request *request);

#endif
