/* What the store's files share. */
#ifndef STORE_STORE_PRIVATE_H
#define STORE_STORE_PRIVATE_H

#include "base/range.h"
#include "model/execution.h"
#include "store/store.h"

/* Buffers for whole units are used in turn, by an action's visits: a tied head and its embedding have two, and what
 * comes next is gathered into the third, or what came before is summed from it. */
enum { STORE_TURNS = 3 };

/* Of a unit whose matrices training reads as 8-bit row copies alone: what it gathers in place of values. Else absent.
 */
struct row_copies {
    struct tensor cut;     /* 8 bits [1, cut] */
    struct tensor vectors; /* compute [1, elements of STORAGE_VECTOR], of all ranks */
    /* stat [weights, 1], where scales are made of the weights; each starts at 16 bytes, as products read them */
    struct tensor amaxes, scales;
};

/* What this rank holds of a unit, whose flat buffer has ranks * cut elements. */
struct unit_holding {
    int64_t cut; /* elements; a multiple of UNIT_ALIGNMENT; 0 of units that have none, or are of another stage */
    struct tensor values, gradients; /* [1, ranks * cut] where they are whole, else [1, cut] */
    struct tensor low, m, v;         /* [1, cut] */
    struct tensor sums;              /* f64, of exact sums: [1, ranks * cut] or [1, cut]; gradients are [1, cut] then */
    char *copies;                    /* of the weights, where those are whole; NULL: none */
    struct row_copies rows;
    int visit;             /* the place among the action's units at which it was acquired last */
    bool complete;         /* gradients need no sum over ranks (unit.h, complete_gradients) */
    bool partial;          /* those of some parameters are sums of what tensor ranks make (unit.h) */
    bool current;          /* in this action: the stream has waited for whole values, and made the copies */
    struct event gathered; /* the whole values have been */
    struct event summed;   /* the step's gradients have been */
};

/* For the whole values of a unit, where ranks hold cuts. */
struct gathered_values {
    char *values, *copies;
    struct event ready, released;
};

/* For what a micro-batch adds to a unit's gradients, where those are cut, or bf16. */
struct gradient_contribution {
    char *values;
    bool fresh;   /* it replaces what the gradients hold */
    bool pending; /* it is complete on this rank, and its sum has not started */
    bool used;    /* in this action, before */
    struct event added;
};

/* A sum over ranks that has not started. */
struct pending_sum {
    struct unit_holding *holding;
    struct gradient_contribution *from; /* NULL: from the whole gradients themselves, which are the step's */
    bool last;                          /* of the step */
};

struct flat_store {
    struct weight_store store;
    struct stream *gather, *reduce;
    const struct parallel_groups *groups;
    const struct execution *execution;
    enum dtype compute, statistic;
    bool trains, cut_values, cut_gradients;
    bool no_masters;
    bool rounds; /* gradients are kept as bf16 */
    struct exact_units exact;
    bool contributes; /* a micro-batch's gradients are made in a buffer, and then added to those that are kept */
    bool copies;      /* sums may be made of copies, where the group does (struct group) */
    int rank, ranks;  /* of the sharding group; 0 and 1: this rank holds everything */
    int unit_count;
    struct unit *units;            /* the model's */
    struct unit_holding *holdings; /* [unit_count] */
    struct event complete;         /* gradients of this rank, before they are summed */

    /* The action that runs. */
    struct unit *const *visits;
    int visit_count, acquired;
    bool written; /* weights have been, before it */
    struct event begun;
    struct gathered_values gathered[STORE_TURNS];
    struct gradient_contribution contributions[STORE_TURNS];
    bool contributed; /* it has made any */
    struct event joined;
    char *sent, *received;       /* of sums that travel as bf16, or parts of exact sums; NULL: they do not */
    char *room, *replicas_room;  /* for sums that are made of copies, over the sharding group and its replicas; NULL:
                                    executors sum otherwise, as where what is summed is not the group's memory */
    struct pending_sum *pending; /* [unit_count + STORE_TURNS], pending_count in use */
    int pending_count;
};

static inline struct unit_holding *store_holding(struct weight_store *store, const struct unit *unit)
{
    struct flat_store *own = store->self;
    return &own->holdings[unit->index];
}

/* This rank's cut of a tensor that is whole, or that cut already. */
static inline struct tensor store_cut(const struct flat_store *own, const struct unit_holding *holding,
                                      const struct tensor *of)
{
    return of->cols > holding->cut ? tensor_columns(of, own->rank * holding->cut, holding->cut) : *of;
}

/* A whole flat buffer as collectives see it: [ranks, cut]. */
static inline struct tensor store_rows(const struct flat_store *own, const struct unit_holding *holding, void *data,
                                       enum dtype dtype)
{
    return tensor_matrix(data, dtype, own->ranks, holding->cut);
}

/* Sets a unit's addresses of its storage classes in a flat buffer; NULL: none. */
void store_point(const struct unit *unit, void *flat, enum dtype dtype, void *base[STORAGE_COUNT]);

/* What a rank's cut of the unit's flat buffer has of the elements first .. end - 1. */
static inline struct index_range store_common(const struct unit_holding *holding, int rank, int64_t first, int64_t end)
{
    return range_common((struct index_range){first, end - first},
                        (struct index_range){rank * holding->cut, holding->cut});
}

/* -- store_rows.c ------------------------------------------------------------------------------------------------ */

/* Allocates a unit's row copies, if it is one that gathers them; returns the bytes of the copies. */
int64_t store_create_rows(const struct flat_store *own, const struct unit *unit, struct unit_holding *holding,
                          struct budget *budget);
/* Are row copies gathered in this action? */
bool store_gathers_rows(const struct flat_store *own, const struct unit_holding *holding);
/* After an update: makes this rank's cut of the copies, and collects the vectors. */
void store_make_rows(struct flat_store *own, const struct unit *unit, struct unit_holding *holding);

/* -- store_weights.c, as struct store_class says ------------------------------------------------------------------ */

/* Are the values of a visit's unit read in that forward or backward? Those of a lender are, by the unit behind it. */
bool store_reads(struct unit *const *visits, int count, int visit, bool backward);

void store_begin(struct weight_store *store, struct unit *const *units, int count, struct stream *stream, bool written);
void store_acquire(struct weight_store *store, struct unit *unit, struct stream *stream);
void store_release(struct weight_store *store, struct unit *unit, struct stream *stream);
/* Whatever units the action has not acquired are current too from here on. */
void store_finish_weights(struct flat_store *own, struct stream *stream);

/* -- store_gradients.c ------------------------------------------------------------------------------------------- */

void store_gradients_open(struct weight_store *store, struct unit *unit, struct stream *stream, bool fresh);
void store_gradients_close(struct weight_store *store, struct unit *unit, struct stream *stream, bool last);
void store_start_transfers(struct weight_store *store, struct stream *stream);
void store_end(struct weight_store *store, struct stream *stream, bool last);
void store_gradients_wait(struct weight_store *store, struct unit *unit, struct stream *stream);

#endif
