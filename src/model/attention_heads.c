/* Attention where ranks exchange tokens for heads: each computes whole rows of its share of the query heads, and of the
 * key and value heads that these need. Where there are fewer of these than ranks, several ranks have the same one, and
 * its gradients from them are summed in fp32. (Jacobs et al. 2023.) */
#include "model/attention_private.h"

enum {
    SENT = ATTENTION_OWN, /* by ranks: own tokens, the heads of each */
    RECEIVED,             /* by ranks: the tokens of each, own heads */
    O_SENT,
    O_RECEIVED, /* in backward, of gradients */
    D_OUTPUT,   /* of whole rows, own heads, as D_Q and D_KV */
    D_Q,
    D_KV,
    D_KV_SENT,
    D_KV_RECEIVED,
    D_SUM, /* where ranks have the same: own tokens, all heads */
    D_ROUNDED,
    COUNT
};
_Static_assert((int)COUNT <= (int)ATTENTION_TENSORS, "ids");

static struct attention_heads own_heads(const struct unit *unit)
{
    const int ranks = row_ranks(&unit->settings->rows);
    const struct attention_heads all = attention_all_heads(unit);
    return (struct attention_heads){all.query / ranks, all.kv % ranks == 0 ? all.kv / ranks : 1};
}

/* Do ranks have the same key and value heads? Then one each. */
static bool shares_heads(const struct unit *unit)
{
    return unit->settings->kv_heads % row_ranks(&unit->settings->rows) != 0;
}

/* Columns of the heads that a rank has, in rows that have all. */
static struct attention_columns columns_of_rank(const struct unit *unit, struct tensor fused, int rank)
{
    const struct attention_heads own = own_heads(unit);
    const struct attention_columns all = attention_split(unit, fused, attention_all_heads(unit));
    const int64_t dim = unit->settings->head_dim, kv = own.kv * dim;
    const int64_t first = rank * unit->settings->kv_heads / row_ranks(&unit->settings->rows) * dim;
    return (struct attention_columns){.q = tensor_columns(&all.q, rank * own.query * dim, own.query * dim),
                                      .k = tensor_columns(&all.k, first, kv),
                                      .v = tensor_columns(&all.v, first, kv)};
}

static void declare(struct unit *unit, const struct attention *ids)
{
    const struct attention_heads own = own_heads(unit);
    const int64_t q = own.query * unit->settings->head_dim, kv = 2 * own.kv * unit->settings->head_dim;
    const enum role of_kv = shares_heads(unit) ? ROLE_STATISTIC : ROLE_VALUE;
    unit_declare_tensor(unit, ids->lse, "lse of rows", own.query, UNIT_ROW_TOKENS, ROLE_STATISTIC);
    unit_declare_tensor(unit, ids->first + SENT, "qkv sent", UNIT_ROW_TOKENS, q + kv, ROLE_VALUE);
    unit_declare_tensor(unit, ids->first + RECEIVED, "qkv received", UNIT_ROW_TOKENS, q + kv, ROLE_VALUE);
    unit_declare_tensor(unit, ids->first + HEADS_FUSED, "qkv of rows", UNIT_ROW_TOKENS, q + kv, ROLE_VALUE);
    unit_declare_tensor(unit, ids->first + HEADS_OUTPUT, "attention of rows", UNIT_ROW_TOKENS, q, ROLE_VALUE);
    unit_declare_tensor(unit, ids->first + O_SENT, "attention sent", UNIT_ROW_TOKENS, q, ROLE_VALUE);
    unit_declare_tensor(unit, ids->first + O_RECEIVED, "attention received", UNIT_ROW_TOKENS, q, ROLE_VALUE);
    unit_declare_tensor(unit, ids->first + D_OUTPUT, "d attention of rows", UNIT_ROW_TOKENS, q, ROLE_VALUE);
    unit_declare_tensor(unit, ids->first + D_Q, "d q of rows", UNIT_ROW_TOKENS, q, ROLE_VALUE);
    unit_declare_tensor(unit, ids->first + D_KV, "d kv of rows", UNIT_ROW_TOKENS, kv, of_kv);
    unit_declare_tensor(unit, ids->first + D_KV_SENT, "d kv sent", UNIT_ROW_TOKENS, kv, of_kv);
    unit_declare_tensor(unit, ids->first + D_KV_RECEIVED, "d kv received", UNIT_ROW_TOKENS, kv, of_kv);
    if (!shares_heads(unit))
        return;
    const int64_t all_kv = 2 * unit->settings->kv_heads * unit->settings->head_dim;
    unit_declare_tensor(unit, ids->first + D_SUM, "sum of d kv", UNIT_TOKENS, all_kv, ROLE_STATISTIC);
    unit_declare_tensor(unit, ids->first + D_ROUNDED, "rounded d kv", UNIT_TOKENS, all_kv, ROLE_VALUE);
}

static void exchange(struct context *c, struct tensor sent, struct tensor received)
{
    LAUNCH(c->stream, ALL_TO_ALL, all_to_all, .group = c->row, .in = attention_by_ranks(c, sent),
           .out = attention_by_ranks(c, received));
}

/* Queries, keys and values of own tokens become those of whole rows and own heads. */
static void exchange_fused(struct context *c, const struct unit *unit, const struct attention *ids)
{
    struct tensor fused = unit_tensor(c, unit, ids->fused);
    struct tensor sent = unit_tensor(c, unit, ids->first + SENT);
    struct tensor received = unit_tensor(c, unit, ids->first + RECEIVED);
    for (int rank = 0; rank < c->row->size; rank++) {
        const struct attention_columns from = columns_of_rank(unit, fused, rank);
        const struct attention_columns to = attention_split(unit, attention_of_rank(c, sent, rank), own_heads(unit));
        LAUNCH(c->stream, COPY, copy, .from = from.q, .to = to.q);
        LAUNCH(c->stream, COPY, copy, .from = from.k, .to = to.k);
        LAUNCH(c->stream, COPY, copy, .from = from.v, .to = to.v);
    }
    exchange(c, sent, received);
    attention_to_rows(c, received, unit_tensor(c, unit, ids->first + HEADS_FUSED));
}

/* Columns of the query heads of a rank. */
static struct tensor queries_of_rank(const struct context *c, struct tensor all, int rank)
{
    const int64_t cols = all.cols / c->row->size;
    return tensor_columns(&all, rank * cols, cols);
}

/* [T, all query heads] becomes [T of whole rows, own query heads]. */
static void queries_to_rows(struct context *c, const struct unit *unit, const struct attention *ids, struct tensor from,
                            struct tensor to)
{
    struct tensor sent = unit_tensor(c, unit, ids->first + O_SENT);
    struct tensor received = unit_tensor(c, unit, ids->first + O_RECEIVED);
    for (int rank = 0; rank < c->row->size; rank++)
        LAUNCH(c->stream, COPY, copy, .from = queries_of_rank(c, from, rank), .to = attention_of_rank(c, sent, rank));
    exchange(c, sent, received);
    attention_to_rows(c, received, to);
}

/* The inverse. */
static void queries_from_rows(struct context *c, const struct unit *unit, const struct attention *ids,
                              struct tensor from, struct tensor to)
{
    struct tensor sent = unit_tensor(c, unit, ids->first + O_SENT);
    struct tensor received = unit_tensor(c, unit, ids->first + O_RECEIVED);
    attention_to_ranks(c, from, sent);
    exchange(c, sent, received);
    for (int rank = 0; rank < c->row->size; rank++)
        LAUNCH(c->stream, COPY, copy, .from = attention_of_rank(c, received, rank), .to = queries_of_rank(c, to, rank));
}

static void forward(struct context *c, const struct unit *unit, const struct attention *ids)
{
    if (context_wants(c, ids->first + HEADS_FUSED))
        exchange_fused(c, unit, ids);
    if (!context_wants(c, ids->output))
        return;
    struct tensor fused = unit_tensor(c, unit, ids->first + HEADS_FUSED);
    struct tensor o = unit_tensor(c, unit, ids->first + HEADS_OUTPUT);
    const struct attention_columns of = attention_split(unit, fused, own_heads(unit));
    attention_launch(c, unit, own_heads(unit),
                     &(struct attention_forward_args){.q = of.q,
                                                      .k = of.k,
                                                      .v = of.v,
                                                      .o = o,
                                                      .lse = unit_tensor(c, unit, ids->lse),
                                                      .segments = c->batch->segments});
    queries_from_rows(c, unit, ids, o, unit_tensor(c, unit, ids->output));
}

/* from: [T of all ranks, 2 * own kv heads * head_dim], by ranks. */
static void add_shared(struct context *c, const struct unit *unit, const struct attention *ids, struct tensor from,
                       struct tensor to)
{
    const int64_t dim = unit->settings->head_dim, ranks = c->row->size, kv_heads = unit->settings->kv_heads;
    struct tensor sum = unit_tensor(c, unit, ids->first + D_SUM);
    for (int rank = 0; rank < ranks; rank++) {
        struct tensor part = attention_of_rank(c, from, rank);
        for (int value = 0; value < 2; value++) {
            struct tensor one = tensor_columns(&part, value * dim, dim);
            struct tensor at = tensor_columns(&sum, (value * kv_heads + rank * kv_heads / ranks) * dim, dim);
            if (rank % (ranks / kv_heads) == 0)
                LAUNCH(c->stream, COPY, copy, .from = one, .to = at);
            else
                LAUNCH(c->stream, ADD, add, .from = one, .to = at);
        }
    }
    attention_round(c, sum, unit_tensor(c, unit, ids->first + D_ROUNDED), to);
}

static void keys_from_rows(struct context *c, const struct unit *unit, const struct attention *ids, struct tensor from,
                           struct tensor d_fused)
{
    struct tensor sent = unit_tensor(c, unit, ids->first + D_KV_SENT);
    struct tensor received = unit_tensor(c, unit, ids->first + D_KV_RECEIVED);
    const int64_t cols = from.cols / 2;
    attention_to_ranks(c, from, sent);
    exchange(c, sent, received);
    if (shares_heads(unit)) {
        add_shared(c, unit, ids, received, attention_split(unit, d_fused, attention_all_heads(unit)).kv);
        return;
    }
    for (int rank = 0; rank < c->row->size; rank++) {
        struct tensor part = attention_of_rank(c, received, rank);
        const struct attention_columns to = columns_of_rank(unit, d_fused, rank);
        LAUNCH(c->stream, COPY, copy, .from = tensor_columns(&part, 0, cols), .to = to.k);
        LAUNCH(c->stream, COPY, copy, .from = tensor_columns(&part, cols, cols), .to = to.v);
    }
}

static void backward(struct context *c, const struct unit *unit, const struct attention *ids, struct tensor d_output,
                     struct tensor d_fused)
{
    struct tensor fused = unit_tensor(c, unit, ids->first + HEADS_FUSED);
    struct tensor d_o = unit_tensor(c, unit, ids->first + D_OUTPUT);
    struct tensor d_q = unit_tensor(c, unit, ids->first + D_Q), d_kv = unit_tensor(c, unit, ids->first + D_KV);
    const struct attention_columns of = attention_split(unit, fused, own_heads(unit));
    queries_to_rows(c, unit, ids, d_output, d_o);
    attention_launch_backward(c, unit, own_heads(unit),
                              &(struct attention_backward_args){.q = of.q,
                                                                .k = of.k,
                                                                .v = of.v,
                                                                .o = unit_tensor(c, unit, ids->first + HEADS_OUTPUT),
                                                                .lse = unit_tensor(c, unit, ids->lse),
                                                                .d_o = d_o,
                                                                .dq = d_q,
                                                                .dk = tensor_columns(&d_kv, 0, of.k.cols),
                                                                .dv = tensor_columns(&d_kv, of.k.cols, of.v.cols),
                                                                .segments = c->batch->segments});
    queries_from_rows(c, unit, ids, d_q, attention_split(unit, d_fused, attention_all_heads(unit)).q);
    keys_from_rows(c, unit, ids, d_kv, d_fused);
}

const struct attention_method attention_heads = {declare, forward, backward};
