/* Key header: the weight store owns a rank's weights, gradients and optimizer moments, whole or sharded (ZeRO 1 to 3),
 * and launches the collectives that gather weights and reduce gradients. Units may read weights between acquire and
 * release, and write gradients between gradients_open and gradients_close. No function waits for the device; a
 * launch may, on a synchronous executor and in groups that wait (core/group.h).
 *
 * An action may be captured once and replayed later without calls to the store. Therefore every decision (what to move,
 * when, which buffer) depends only on the action's pass, on the arguments of `begin`, and on a unit's position in the
 * acquisition order, never on what ran before. */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "model/model.h"
#include "store/budget.h"
#include "store/exact.h"
#include "store/groups.h"
#include "store/master.h"

/* This rank's shard of one storage class of a unit: elements first .. first + count - 1 of the unit's flat buffer. The
 * optimizer updates shards, and checkpoints consist of them. All tensors are [1, count], absent where count is 0, and
 * owned by the store. */
struct store_shard {
    int64_t first;
    int owner, owners; /* number of ranks that own a copy of the elements, and this rank's index among them */
    struct master_weights weight;
    struct tensor gradient;
    /* Moments; v is absent where the optimizer is Muon (unit_uses_muon). These and the gradient are absent in a store
     * that does not train. */
    struct tensor m, v;
};

/* The order in which the actions of a model chunk acquire units. */
struct acquisition_order {
    struct unit *const *forward, *const *backward; /* [count] each */
    int count;
    int trained;  /* units that a backward acquires (not idle_backward), which come first in `backward` */
    int training; /* units that PASS_FORWARD acquires; the units after them (the head) are idle in that pass */
};

struct weight_store {
    const struct store_class *class;
    void *self;
    int64_t quantized; /* bytes of the quantized weights and their scales that this store keeps */
};

/* The shards that the stream has written since the last action: none, those that are trained (the optimizer), or any
 * (checkpoint, initial values). */
enum store_written { STORE_WRITTEN_NONE, STORE_WRITTEN_TRAINED, STORE_WRITTEN_ALL };

struct store_class {
    /* Begins an action, which acquires units[0 .. count - 1] in this order; the list is borrowed until `end`. A unit
     * that lends its weights to another one (a tied embedding) comes directly before it, and is released after it.
     * This action distributes the weights that are written to the ranks that read them, and makes the store's quantized
     * weights from them; with delayed scaling also those of frozen weights, whose scales may have changed. */
    void (*begin)(struct weight_store *store, struct unit *const *units, int count, struct stream *stream,
                  enum store_written written);
    /* Makes the unit's weight_base valid for later launches on the stream, and in training its quantized_base
     * (quantized weights). Matrices may be available as rowwise_base (rowwise quantized) instead of weight_base. */
    void (*acquire)(struct weight_store *store, struct unit *unit, struct stream *stream);
    void (*release)(struct weight_store *store, struct unit *unit, struct stream *stream);
    /* Sets the unit's gradient_base, gradient_fresh and gradient_rounded: the buffer for its gradients, whether the
     * unit overwrites it (fresh) or adds to it, and the type of matrices. last: the step has no later contribution. */
    void (*gradients_open)(struct weight_store *store, struct unit *unit, struct stream *stream, bool fresh, bool last);
    /* Ends the unit's writes to its gradients. last: the step has no later contribution to them. The reduction over
     * ranks starts at the next start_transfers, or at `end`. */
    void (*gradients_close)(struct weight_store *store, struct unit *unit, struct stream *stream, bool last);
    /* Starts the reductions of all closed units (execution_start_transfers in model/execution.h). */
    void (*start_transfers)(struct weight_store *store, struct stream *stream);
    /* Ends the action: starts the remaining reductions, and makes the stream wait for all of them. Exception: after a
     * step's last backward (last), of any chunk, gradients_wait waits instead. */
    void (*end)(struct weight_store *store, struct stream *stream, bool last);
    /* Makes later launches on the stream wait until the unit's gradients are reduced. Called after the step's last
     * backward. */
    void (*gradients_wait)(struct weight_store *store, struct unit *unit, struct stream *stream);
    /* Returns this rank's shard. */
    struct store_shard (*shard)(struct weight_store *store, struct unit *unit, enum storage_class storage);
    /* Returns the elements of the unit's flat buffer, in which its matrices come first; 0: this rank trains none. */
    int64_t (*flat_elements)(struct weight_store *store, const struct unit *unit);
    /* Gathers a buffer of this form, in which this rank has written its shard's elements. Collective over the sharding
     * group; nothing happens in a group of one rank. */
    void (*gather_flat)(struct weight_store *store, const struct unit *unit, struct tensor flat, struct stream *stream);
    void (*destroy)(struct weight_store *store);
};

/* The sharding level: which state is sharded over the n ranks of a sharding group, and when the rest is communicated.
 * Bytes per parameter on a rank, for bf16 weights with fp32 remainders, without the buffers of three units:
 *
 *   level            weights  remainders, moments  gradients  reduction of gradients     gather of weights
 *   SHARD_NONE       2        10                   4          in the last micro-batch    none
 *   SHARD_OPTIMIZER  2        10 / n               4          in the last micro-batch    in a step's first forward
 *   SHARD_GRADIENTS  2        10 / n               4 / n      in each micro-batch        in a step's first forward
 *   SHARD_FULL       2 / n    10 / n               4 / n      in each micro-batch        in each forward and backward
 *
 * Gradients are reduce-scattered over the sharding group, and all-reduced over replicas (with SHARD_NONE only this). */
enum shard_level { SHARD_NONE, SHARD_OPTIMIZER, SHARD_GRADIENTS, SHARD_FULL };

struct sharding {
    enum shard_level level;
    bool whole_gradients; /* from SHARD_GRADIENTS on: gradients stay whole, 4 bytes, and are reduced once per step */
    bool bf16_sums;       /* gradients are sent as bf16 between the ranks of a sharding group, and added in fp32 */
    bool bf16_gradients;  /* gradients are stored as bf16, 2 bytes; each contribution is added in fp32, then rounded */
    bool no_masters;      /* weights, gradients and moments are bf16, no remainders: 8 bytes per parameter in all */
    /* Reproducible sums: gradients are summed exactly in f64, and rounded to fp32 once. Whole sums take 8 bytes per
     * parameter and are sent as f64; sharded sums take 8 / n, and each micro-batch's contribution is sent as fp32. The
     * gradients then take 4 / n. Excludes bf16_sums, bf16_gradients, no_masters, and gradients computed from gathered
     * activations (unit->complete_gradients). */
    struct exact_quanta exact;
};

/* Returns whether weights are sharded, so that each action gathers the weights that it reads. */
static inline bool sharding_shards_values(const struct sharding *sharding, const struct parallel_groups *groups)
{
    return sharding->level == SHARD_FULL && group_size(groups->gather) > 1;
}

/* Returns whether gradients are sharded over the sharding group. */
static inline bool sharding_shards_gradients(const struct sharding *sharding)
{
    return sharding->level >= SHARD_GRADIENTS && !sharding->whole_gradients;
}

/* Returns whether gradients are reduced by an all-to-all and additions of the store, instead of a reduce-scatter. */
static inline bool sharding_exchanges(const struct sharding *sharding)
{
    return sharding->bf16_sums || (sharding->exact.gradient > 0 && sharding_shards_gradients(sharding));
}

/* Returns whether gradients are stored as bf16. */
static inline bool sharding_rounds(const struct sharding *sharding)
{
    return sharding->bf16_gradients || sharding->no_masters;
}

/* Returns the bytes that a rank receives per step to reduce `elements` gradients: over the `ranks` of a sharding group,
 * once or per micro-batch as the level says, and over its `replicas`. */
int64_t store_sum_bytes(const struct sharding *sharding, int ranks, int replicas, int64_t elements,
                        int64_t micro_batches);

/* Arguments of store_create. Pointers are borrowed for the life of the store. */
struct store_request {
    struct model *model;
    struct budget *budget;  /* allocates the store's memory */
    struct stream *streams; /* [STREAM_COUNT]; collectives run on STREAM_REDUCE and STREAM_GATHER */
    const struct parallel_groups *groups;
    struct sharding sharding;
    enum dtype compute;                     /* type of the weights that units read */
    enum dtype statistic;                   /* type of masters, gradients and moments that are not bf16 */
    bool trains;                            /* false: no gradients, moments or quantized weights */
    const struct execution *execution;      /* in which units quantize their weights: unit_class.quantize_weights */
    const struct acquisition_order *orders; /* [chunks of the model] */
    /* [units] memory of whole gradients that the store does not allocate; an entry, or all: NULL. It has other contents
     * until the unit's gradients are opened. */
    char *const *gradients;
};

/* Makes a store; the caller destroys it with class->destroy. Weights are zero until they are written. A unit has one
 * flat buffer of matrices, vectors and padding, so that it divides evenly over a sharding group and one collective
 * moves it. With SHARD_NONE, or one rank per sharding group, every rank owns all state, and `replicas` are all ranks of
 * `data`. Out of memory is fatal. Collective over groups->data. */
struct weight_store *store_create(const struct store_request *request);

#endif
