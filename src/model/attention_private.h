/* What the methods of attention share. */
#ifndef MODEL_ATTENTION_PRIVATE_H
#define MODEL_ATTENTION_PRIVATE_H

#include "model/attention.h"

/* As the functions of attention.h, for one method. */
struct attention_method {
    void (*declare)(struct unit *unit, const struct attention *ids);
    void (*forward)(struct execution *e, const struct unit *unit, const struct attention *ids);
    void (*backward)(struct execution *e, const struct unit *unit, const struct attention *ids, struct tensor d_output,
                     struct tensor d_fused);
};

extern const struct attention_method attention_gather, attention_heads, attention_ring;

/* Ids, from ids->first on, that are dropped or not with others (attention_drop): keys and values of whole rows;
 * queries, keys and values of whole rows and some heads. */
enum { GATHER_KV, HEADS_FUSED, ATTENTION_OWN };

/* How many heads there are in some columns. */
struct attention_heads {
    int64_t query, kv;
};

struct attention_heads attention_all_heads(const struct unit *unit);

/* Columns of rows that hold queries, keys and values of these heads, in this order; kv: keys and values. */
struct attention_columns {
    struct tensor q, k, v, kv;
};
struct attention_columns attention_split(const struct unit *unit, struct tensor fused, struct attention_heads heads);
/* The same of rows that hold keys and values alone: q is absent. */
struct attention_columns attention_split_kv(struct tensor kv);

/* Launch the op with the tensors of `args`; what else it has is filled in, of the unit and of `heads`. */
void attention_launch(struct execution *e, const struct unit *unit, struct attention_heads heads,
                      struct attention_forward_args *args);
void attention_launch_backward(struct execution *e, const struct unit *unit, struct attention_heads heads,
                               struct attention_backward_args *args);

/* The same for the queries of this rank's part. Several segments may see the same keys here, but not those of one half
 * (data/context_cut.h): one launch for each. skip_first: the queries of the first chunks see nothing. What `args`
 * says of accumulation holds for the first launch; the second adds. */
void attention_launch_halves(struct execution *e, const struct unit *unit, const struct attention_segments *part,
                             bool skip_first, struct attention_backward_args *args);

/* Copies rows of tokens between two orders, each [ranks * T, any columns]: as ranks have them, one after the other, and
 * as they follow one another in whole rows. */
void attention_to_rows(struct execution *e, struct tensor ranks, struct tensor rows);
void attention_to_ranks(struct execution *e, struct tensor rows, struct tensor ranks);

/* Rows number `rank` of [ranks * T, cols]. */
struct tensor attention_of_rank(const struct execution *e, struct tensor ranks, int rank);

/* All elements in one row, and in a row for each rank, as collectives take them. */
struct tensor attention_flat(struct tensor x);
struct tensor attention_by_ranks(const struct execution *e, struct tensor x);

/* to = from, rounded. from: stat [rows, cols], contiguous; rounded: f [rows, cols], contiguous, for use here; to: f. */
void attention_round(struct execution *e, struct tensor from, struct tensor rounded, struct tensor to);

#endif
