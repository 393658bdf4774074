/* Declarations shared by the store's files. */
#ifndef STORE_STORE_PRIVATE_H
#define STORE_STORE_PRIVATE_H

#include "base/range.h"
#include "model/execution.h"
#include "store/store.h"

/* Number of buffers for whole units, used in rotation by acquisition order. A tied head and its embedding use two; the
 * third receives the next unit's gather, or is read by the previous unit's reduction. */
enum { STORE_BUFFERS = 3 };

/* The tensors of a unit whose matrices are gathered as 8-bit rowwise quantized weights in training. Else absent. */
struct rowwise_weights {
    struct tensor shard;   /* 8 bits [1, shard_elements]: this rank's shard */
    struct tensor vectors; /* compute type [1, elements of STORAGE_VECTOR]: whole vectors */
    /* stat [weights, 1], if scales are computed from the weights; each at a multiple of 16 bytes, as GEMMs need */
    struct tensor amaxes, scales;
};

/* This rank's state of a unit, whose flat buffer has ranks * shard_elements elements. */
struct unit_state {
    int64_t shard_elements;          /* elements of a shard, a multiple of UNIT_ALIGNMENT; 0: no weights on this rank */
    struct tensor values, gradients; /* [1, ranks * shard_elements] if whole, [1, shard_elements] if sharded */
    struct tensor
        vectors;          /* f32, of units whose ops round gradients: sums of the micro-batches' gradients of vectors */
    struct tensor low, m; /* [1, shard_elements] */
    struct tensor v;      /* [1, n]: the last n elements of the shard; fewer than all in a unit with Muon */
    struct tensor sums; /* f64, with exact sums only: [1, ranks * shard_elements] or [1, shard_elements]; gradients are
                           then [1, shard_elements] */
    char *quantized;    /* quantized weights, if weights are whole; NULL: none */
    struct rowwise_weights rowwise;
    int position;          /* position in the action's acquisition order at which the unit was acquired last */
    bool frozen;           /* weights only: neither remainders, gradients nor moments (unit->frozen) */
    bool complete;         /* gradients need no sum over ranks (unit->complete_gradients) */
    bool lent;             /* gradients are in memory that had other contents before this step's (store_request) */
    bool partial;          /* some parameters' gradients are sums of terms of the tensor ranks (parameter->partial) */
    bool current;          /* in this action the stream has waited for whole weights and quantized them */
    struct event gathered; /* the whole weights have been gathered */
    struct event summed;   /* the step's gradients have been reduced */
};

/* Buffer of sharded weights that are gathered. */
struct gathered_values {
    char *values, *quantized;
    struct event ready, released;
};

/* Buffer for a micro-batch's contribution to sharded or exact gradients, or to bf16 gradients that ops do not round. */
struct gradient_contribution {
    char *values;
    bool fresh;   /* it overwrites the gradients */
    bool pending; /* complete on this rank, but its reduction has not started */
    bool used;    /* used before in this action */
    struct event added;
};

/* A reduction over ranks that has not started. */
struct pending_sum {
    struct unit_state *state;
    struct gradient_contribution *from; /* NULL: reduces the whole gradients of the step themselves */
    bool last;                          /* last contribution of the step */
};

struct flat_store {
    struct weight_store store;
    struct stream *gather, *reduce;
    const struct parallel_groups *groups;
    const struct execution *execution;
    enum dtype compute, statistic;
    bool trains, sharded_values, sharded_gradients;
    bool no_masters;
    bool rounds; /* gradients are stored as bf16 */
    struct exact_quanta exact;
    bool contributes; /* a micro-batch's gradients are computed in a buffer and then added to the stored ones, unless
                         ops round them (store_rounds) */
    bool copies;      /* sums may use copies and additions, if the group does (struct group) */
    int rank, ranks;  /* in the sharding group; 0 and 1: this rank owns everything */
    int unit_count;
    struct unit *units;        /* the model's */
    struct unit_state *states; /* [unit_count] */
    struct event complete;     /* this rank's gradients are complete, before they are summed */

    /* The current action. */
    struct unit *const *order;
    int order_count, acquired;
    enum store_written written; /* before it */
    struct event started;
    struct gathered_values gathered[STORE_BUFFERS];
    struct gradient_contribution contributions[STORE_BUFFERS];
    bool contributed; /* the action has made contributions */
    struct event joined;
    char *sent, *received;            /* all-to-all buffers of bf16 sums and of sharded exact sums; NULL: not used */
    char *scratch, *replicas_scratch; /* for sums by copies, over the sharding group and its replicas; NULL: the
                                   executor sums otherwise */
    struct pending_sum *pending;      /* [unit_count + STORE_BUFFERS], pending_count in use */
    int pending_count;
};

static inline struct unit_state *store_state(struct weight_store *store, const struct unit *unit)
{
    struct flat_store *own = store->self;
    return &own->states[unit->index];
}

/* Returns this rank's shard of a tensor that is whole or this shard already. */
static inline struct tensor store_own_shard(const struct flat_store *own, const struct unit_state *state,
                                            const struct tensor *of)
{
    return of->cols > state->shard_elements
               ? tensor_columns(of, own->rank * state->shard_elements, state->shard_elements)
               : *of;
}

/* Returns a whole flat buffer as collectives see it: [ranks, shard_elements]. */
static inline struct tensor store_rows(const struct flat_store *own, const struct unit_state *state, void *data,
                                       enum dtype dtype)
{
    return tensor_matrix(data, dtype, own->ranks, state->shard_elements);
}

/* Returns whether the unit's weights have been written before the action. */
static inline bool store_wrote(const struct flat_store *own, const struct unit *unit)
{
    return own->written == STORE_WRITTEN_ALL || (own->written == STORE_WRITTEN_TRAINED && !unit->frozen);
}

/* Returns whether the action quantizes the unit's weights again, if it has quantized weights. */
static inline bool store_requantizes(const struct flat_store *own, const struct unit *unit)
{
    return store_wrote(own, unit) ||
           (own->written != STORE_WRITTEN_NONE && precision_delays(&unit->settings->precision));
}

/* Returns whether the unit's gradients are summed over ranks. */
static inline bool store_sums(const struct flat_store *own, const struct unit_state *state)
{
    const bool of_many = own->ranks > 1 || group_size(own->groups->replicas) > 1;
    return state->shard_elements > 0 && (state->partial || (!state->complete && of_many));
}

/* Returns whether ops add a micro-batch's gradients to the stored bf16 ones. The step's last contribution is computed
 * in fp32 if it is then summed over ranks. */
static inline bool store_rounds(const struct flat_store *own, const struct unit *unit, bool last)
{
    const struct unit_state *state = &own->states[unit->index];
    return unit->rounds_gradients && state->shard_elements > 0 && !(last && store_sums(own, state));
}

/* Sets base[] to the addresses of a unit's storage classes in a flat buffer; NULL: to NULL. */
void store_point(const struct unit *unit, void *flat, enum dtype dtype, void *base[STORAGE_COUNT]);

/* Returns the common range of a rank's shard and elements first .. end - 1 of the unit's flat buffer. */
static inline struct index_range store_common(const struct unit_state *state, int rank, int64_t first, int64_t end)
{
    return range_common((struct index_range){first, end - first},
                        (struct index_range){rank * state->shard_elements, state->shard_elements});
}

/* -- store_rows.c ------------------------------------------------------------------------------------------------ */

/* Allocates the rowwise quantized weights of a unit that gathers them; returns their bytes, 0 for other units. */
int64_t store_create_rows(const struct flat_store *own, const struct unit *unit, struct unit_state *state,
                          struct budget *budget);
/* Returns whether this action gathers rowwise quantized weights. */
bool store_gathers_rows(const struct flat_store *own, const struct unit_state *state);
/* After an update: quantizes this rank's shard of the matrices, and gathers the vectors. */
void store_make_rows(struct flat_store *own, const struct unit *unit, struct unit_state *state);

/* -- store_weights.c, as struct store_class says ------------------------------------------------------------------ */

/* Returns whether the weights of the unit at position `position` are read in a forward or backward. A lender's are, by
 * the unit after it. */
bool store_reads(struct unit *const *units, int count, int position, bool backward);

void store_begin(struct weight_store *store, struct unit *const *units, int count, struct stream *stream,
                 enum store_written written);
void store_acquire(struct weight_store *store, struct unit *unit, struct stream *stream);
void store_release(struct weight_store *store, struct unit *unit, struct stream *stream);
/* Distributes new weights also of the units that the action has not acquired. */
void store_finish_weights(struct flat_store *own, struct stream *stream);

/* -- store_gradients.c ------------------------------------------------------------------------------------------- */

void store_gradients_open(struct weight_store *store, struct unit *unit, struct stream *stream, bool fresh, bool last);
void store_gradients_close(struct weight_store *store, struct unit *unit, struct stream *stream, bool last);
void store_start_transfers(struct weight_store *store, struct stream *stream);
void store_end(struct weight_store *store, struct stream *stream, bool last);
void store_gradients_wait(struct weight_store *store, struct unit *unit, struct stream *stream);

#endif
