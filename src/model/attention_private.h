/* Declarations shared by the files of attention. */
#ifndef MODEL_ATTENTION_PRIVATE_H
#define MODEL_ATTENTION_PRIVATE_H

#include "model/attention.h"

/* One method; each function is as in attention.h. backward: NULL for generation alone. */
struct attention_method {
    void (*declare)(struct unit *unit, const struct attention *ids);
    void (*forward)(struct execution *e, const struct unit *unit, const struct attention *ids);
    void (*backward)(struct execution *e, const struct unit *unit, const struct attention *ids, struct tensor d_output,
                     struct tensor d_fused);
};

extern const struct attention_method attention_gather, attention_heads, attention_ring, attention_cached;

/* Offsets from ids->first of the tensors that attention_drop adds: keys and values of whole rows; queries, keys and
 * values of whole rows and some heads. */
enum { GATHER_KV, HEADS_FUSED, ATTENTION_OWN };

/* Number of heads in a range of columns. */
struct attention_heads {
    int64_t query, kv;
};

struct attention_heads attention_all_heads(const struct unit *unit);

/* Column views on rows of queries, keys and values, in this order; kv: keys and values together. */
struct attention_columns {
    struct tensor q, k, v, kv;
};
struct attention_columns attention_split(const struct unit *unit, struct tensor fused, struct attention_heads heads);
/* As attention_split, for rows of keys and values only; q is absent. */
struct attention_columns attention_split_kv(struct tensor kv);

/* PASS_GENERATE: adds the rows `own`, keys and values of this call, to the layer's part of the cache, and returns all
 * of it, [rows, 2 * kv_heads * head_dim]. */
struct tensor attention_cache(struct execution *e, const struct unit *unit, struct tensor own);
/* Returns the batch's segments, the same for all launches of an action (segments.again). */
struct attention_segments attention_again(struct execution *e, bool backward);

/* Launch the op with the tensors of `args`; the remaining arguments are filled in from the unit and `heads`. */
void attention_launch(struct execution *e, const struct unit *unit, struct attention_heads heads,
                      struct attention_forward_args *args);
void attention_launch_backward(struct execution *e, const struct unit *unit, struct attention_heads heads,
                               struct attention_backward_args *args);

/* Launches the backward for this rank's queries, one launch for each of the context_halves: the segments of one half
 * have different keys (data/context_split.h). skip_first: omits the first half, whose queries see no key. The
 * accumulate flags of `args` apply to the first launch; the second adds. */
void attention_launch_halves(struct execution *e, const struct unit *unit, const struct attention_segments *part,
                             bool skip_first, struct attention_backward_args *args);

/* Copies token rows [ranks * T, any] between two orders: `ranks` has the tokens of rank 0, then of rank 1, ...; `rows`
 * has them in the order of whole rows. */
void attention_to_rows(struct execution *e, struct tensor ranks, struct tensor rows);
void attention_to_ranks(struct execution *e, struct tensor rows, struct tensor ranks);

/* Returns the rows of rank `rank` in [ranks * T, cols]. */
struct tensor attention_of_rank(const struct execution *e, struct tensor ranks, int rank);

/* Return x as collectives need it: all elements in one row, or one row for each rank. */
struct tensor attention_flat(struct tensor x);
struct tensor attention_by_ranks(const struct execution *e, struct tensor x);

/* Rounds: to = from. from: stat [rows, cols], contiguous; rounded: scratch, f [rows, cols], contiguous; to: f. */
void attention_round(struct execution *e, struct tensor from, struct tensor rounded, struct tensor to);

#endif
