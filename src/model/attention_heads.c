/* Context parallelism by exchanging tokens for heads: each rank computes whole rows of its share of the query heads,
 * and of the key and value heads that these need. With fewer kv heads than ranks, several ranks have the same one, and
 * its gradients are summed over them in fp32. (Jacobs et al. 2023.) */
#include "model/attention_private.h"

enum {
    SENT = ATTENTION_OWN, /* in rank order: own tokens, the heads of each rank */
    RECEIVED,             /* in rank order: the tokens of each rank, own heads */
    O_ROWS,               /* output, whole rows of own heads */
    O_SENT,
    O_RECEIVED,
    D_O_ROWS, /* output gradient and output, which is exchanged again: kept, it would be stored twice */
    D_O_SENT,
    D_O_RECEIVED,
    D_ROWS, /* gradients of queries, keys and values */
    D_SENT,
    D_RECEIVED,
    D_SUM, /* with shared kv heads: gradients summed over ranks, own tokens, all heads */
    D_ROUNDED,
    COUNT
};
_Static_assert((int)COUNT <= (int)ATTENTION_TENSORS, "ids");

static struct attention_heads own_heads(const struct unit *unit)
{
    const int ranks = context_ranks(&unit->settings->context);
    const struct attention_heads all = attention_all_heads(unit);
    return (struct attention_heads){all.query / ranks, all.kv % ranks == 0 ? all.kv / ranks : 1};
}

/* Returns whether ranks share key and value heads; each rank then has one. */
static bool shares_heads(const struct unit *unit)
{
    return model_kv_heads(unit->settings) % context_ranks(&unit->settings->context) != 0;
}

/* Returns the columns of a rank's heads, in rows of all heads. */
static struct attention_columns columns_of_rank(const struct unit *unit, struct tensor fused, int rank)
{
    const struct attention_heads own = own_heads(unit);
    const struct attention_columns all = attention_split(unit, fused, attention_all_heads(unit));
    const int64_t dim = unit->settings->head_dim, kv = own.kv * dim;
    const int64_t first = rank * model_kv_heads(unit->settings) / context_ranks(&unit->settings->context) * dim;
    return (struct attention_columns){.q = tensor_columns(&all.q, rank * own.query * dim, own.query * dim),
                                      .k = tensor_columns(&all.k, first, kv),
                                      .v = tensor_columns(&all.v, first, kv)};
}

static void declare(struct unit *unit, const struct attention *ids)
{
    const struct attention_heads own = own_heads(unit);
    const int64_t q = own.query * unit->settings->head_dim, kv = 2 * own.kv * unit->settings->head_dim;
    const enum tensor_role of_gradients = shares_heads(unit) ? ROLE_STATISTIC : ROLE_VALUE;
    unit_declare_tensor(unit, ids->lse, "lse of rows", own.query, UNIT_ROW_TOKENS, ROLE_STATISTIC);
    unit_declare_tensor(unit, ids->first + SENT, "qkv sent", UNIT_ROW_TOKENS, q + kv, ROLE_VALUE);
    unit_declare_tensor(unit, ids->first + RECEIVED, "qkv received", UNIT_ROW_TOKENS, q + kv, ROLE_VALUE);
    unit_declare_tensor(unit, ids->first + HEADS_FUSED, "qkv of rows", UNIT_ROW_TOKENS, q + kv, ROLE_VALUE);
    unit_declare_tensor(unit, ids->first + O_ROWS, "attention of rows", UNIT_ROW_TOKENS, q, ROLE_VALUE);
    unit_declare_tensor(unit, ids->first + O_SENT, "attention sent", UNIT_ROW_TOKENS, q, ROLE_VALUE);
    unit_declare_tensor(unit, ids->first + O_RECEIVED, "attention received", UNIT_ROW_TOKENS, q, ROLE_VALUE);
    unit_declare_tensor(unit, ids->first + D_O_ROWS, "d attention of rows", UNIT_ROW_TOKENS, 2 * q, ROLE_VALUE);
    unit_declare_tensor(unit, ids->first + D_O_SENT, "d attention sent", UNIT_ROW_TOKENS, 2 * q, ROLE_VALUE);
    unit_declare_tensor(unit, ids->first + D_O_RECEIVED, "d attention received", UNIT_ROW_TOKENS, 2 * q, ROLE_VALUE);
    unit_declare_tensor(unit, ids->first + D_ROWS, "d qkv of rows", UNIT_ROW_TOKENS, q + kv, of_gradients);
    unit_declare_tensor(unit, ids->first + D_SENT, "d qkv sent", UNIT_ROW_TOKENS, q + kv, of_gradients);
    unit_declare_tensor(unit, ids->first + D_RECEIVED, "d qkv received", UNIT_ROW_TOKENS, q + kv, of_gradients);
    if (!shares_heads(unit))
        return;
    const struct attention_heads all = attention_all_heads(unit);
    const int64_t all_cols = (all.query + 2 * all.kv) * unit->settings->head_dim;
    unit_declare_tensor(unit, ids->first + D_SUM, "sum of d qkv", UNIT_TOKENS, all_cols, ROLE_STATISTIC);
    unit_declare_tensor(unit, ids->first + D_ROUNDED, "rounded d qkv", UNIT_TOKENS, all_cols, ROLE_VALUE);
}

static void exchange(struct execution *e, struct tensor sent, struct tensor received)
{
    LAUNCH(e->stream, ALL_TO_ALL, all_to_all, .group = e->row, .in = attention_by_ranks(e, sent),
           .out = attention_by_ranks(e, received));
}

/* Exchanges queries, keys and values of own tokens and all heads for those of whole rows and own heads. */
static void exchange_fused(struct execution *e, const struct unit *unit, const struct attention *ids)
{
    struct tensor fused = unit_tensor(e, unit, ids->fused);
    struct tensor sent = unit_tensor(e, unit, ids->first + SENT);
    struct tensor received = unit_tensor(e, unit, ids->first + RECEIVED);
    for (int rank = 0; rank < e->row->size; rank++) {
        const struct attention_columns from = columns_of_rank(unit, fused, rank);
        const struct attention_columns to = attention_split(unit, attention_of_rank(e, sent, rank), own_heads(unit));
        LAUNCH(e->stream, COPY, copy, .from = from.q, .to = to.q);
        LAUNCH(e->stream, COPY, copy, .from = from.k, .to = to.k);
        LAUNCH(e->stream, COPY, copy, .from = from.v, .to = to.v);
    }
    exchange(e, sent, received);
    attention_to_rows(e, received, unit_tensor(e, unit, ids->first + HEADS_FUSED));
}

static struct tensor queries_of_rank(const struct execution *e, struct tensor all, int rank)
{
    const int64_t cols = all.cols / e->row->size;
    return tensor_columns(&all, rank * cols, cols);
}

/* Exchanges the output of whole rows and own heads for the output of own tokens and all heads. */
static void exchange_output(struct execution *e, const struct unit *unit, const struct attention *ids)
{
    struct tensor sent = unit_tensor(e, unit, ids->first + O_SENT);
    struct tensor received = unit_tensor(e, unit, ids->first + O_RECEIVED);
    struct tensor output = unit_tensor(e, unit, ids->output);
    attention_to_ranks(e, unit_tensor(e, unit, ids->first + O_ROWS), sent);
    exchange(e, sent, received);
    for (int rank = 0; rank < e->row->size; rank++)
        LAUNCH(e->stream, COPY, copy, .from = attention_of_rank(e, received, rank),
               .to = queries_of_rank(e, output, rank));
}

/* Exchanges output gradient and output, side by side, to whole rows and own heads. */
static void exchange_output_back(struct execution *e, const struct unit *unit, const struct attention *ids,
                                 struct tensor d_output)
{
    struct tensor sent = unit_tensor(e, unit, ids->first + D_O_SENT);
    struct tensor received = unit_tensor(e, unit, ids->first + D_O_RECEIVED);
    struct tensor output = unit_tensor(e, unit, ids->output);
    const int64_t cols = sent.cols / 2;
    for (int rank = 0; rank < e->row->size; rank++) {
        struct tensor to = attention_of_rank(e, sent, rank);
        LAUNCH(e->stream, COPY, copy, .from = queries_of_rank(e, d_output, rank), .to = tensor_columns(&to, 0, cols));
        LAUNCH(e->stream, COPY, copy, .from = queries_of_rank(e, output, rank), .to = tensor_columns(&to, cols, cols));
    }
    exchange(e, sent, received);
    attention_to_rows(e, received, unit_tensor(e, unit, ids->first + D_O_ROWS));
}

static void forward(struct execution *e, const struct unit *unit, const struct attention *ids)
{
    if (execution_wants(e, ids->first + HEADS_FUSED))
        exchange_fused(e, unit, ids);
    if (!execution_wants(e, ids->output))
        return;
    struct tensor fused = unit_tensor(e, unit, ids->first + HEADS_FUSED);
    const struct attention_columns of = attention_split(unit, fused, own_heads(unit));
    attention_launch(e, unit, own_heads(unit),
                     &(struct attention_forward_args){.q = of.q,
                                                      .k = of.k,
                                                      .v = of.v,
                                                      .o = unit_tensor(e, unit, ids->first + O_ROWS),
                                                      .lse = unit_tensor(e, unit, ids->lse),
                                                      .segments = e->batch->segments});
    exchange_output(e, unit, ids);
}

/* to (+)= from. */
static void write_or_add(struct execution *e, struct tensor from, struct tensor to, bool accumulate)
{
    if (accumulate)
        LAUNCH(e->stream, ADD, add, .from = from, .to = to);
    else
        LAUNCH(e->stream, COPY, copy, .from = from, .to = to);
}

/* Exchanges the gradients of whole rows and own heads for those of own tokens and all heads. */
static void exchange_gradients(struct execution *e, const struct unit *unit, const struct attention *ids,
                               struct tensor d_fused)
{
    const bool shares = shares_heads(unit);
    const int replicas =
        shares ? e->row->size / (int)model_kv_heads(unit->settings) : 1; /* number of ranks with the same kv heads */
    struct tensor sent = unit_tensor(e, unit, ids->first + D_SENT);
    struct tensor received = unit_tensor(e, unit, ids->first + D_RECEIVED);
    struct tensor all = shares ? unit_tensor(e, unit, ids->first + D_SUM) : d_fused;
    attention_to_ranks(e, unit_tensor(e, unit, ids->first + D_ROWS), sent);
    exchange(e, sent, received);
    for (int rank = 0; rank < e->row->size; rank++) {
        const struct attention_columns to = columns_of_rank(unit, all, rank);
        const struct attention_columns from =
            attention_split(unit, attention_of_rank(e, received, rank), own_heads(unit));
        write_or_add(e, from.q, to.q, false);
        write_or_add(e, from.k, to.k, rank % replicas > 0);
        write_or_add(e, from.v, to.v, rank % replicas > 0);
    }
    if (shares)
        attention_round(e, all, unit_tensor(e, unit, ids->first + D_ROUNDED), d_fused);
}

static void backward(struct execution *e, const struct unit *unit, const struct attention *ids, struct tensor d_output,
                     struct tensor d_fused)
{
    struct tensor fused = unit_tensor(e, unit, ids->first + HEADS_FUSED);
    struct tensor d_o = unit_tensor(e, unit, ids->first + D_O_ROWS);
    const struct attention_columns of = attention_split(unit, fused, own_heads(unit));
    const struct attention_columns d =
        attention_split(unit, unit_tensor(e, unit, ids->first + D_ROWS), own_heads(unit));
    exchange_output_back(e, unit, ids, d_output);
    attention_launch_backward(e, unit, own_heads(unit),
                              &(struct attention_backward_args){.q = of.q,
                                                                .k = of.k,
                                                                .v = of.v,
                                                                .o = tensor_columns(&d_o, of.q.cols, of.q.cols),
                                                                .lse = unit_tensor(e, unit, ids->lse),
                                                                .d_o = tensor_columns(&d_o, 0, of.q.cols),
                                                                .dq = d.q,
                                                                .dk = d.k,
                                                                .dv = d.v,
                                                                .segments = e->batch->segments});
    exchange_gradients(e, unit, ids, d_fused);
}

const struct attention_method attention_heads = {declare, forward, backward};
