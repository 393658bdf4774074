/* Context parallelism by gathering keys and values of whole rows. Backward gathers them again: keeping them would take
 * `ranks` times the memory of a rank's own keys and values. */
#include "model/attention_private.h"

enum {
    PACKED = ATTENTION_OWN, /* own keys and values, contiguous for the gather */
    GATHERED,               /* those of all ranks, in rank order */
    D_Q,
    ROUNDED_Q,
    D_KV,   /* gradients of the keys and values of whole rows, summed over this rank's queries */
    D_SENT, /* D_KV in rank order */
    D_SUM,  /* gradients of own keys and values, summed over all ranks */
    ROUNDED_KV,
    COUNT
};
_Static_assert((int)COUNT <= (int)ATTENTION_TENSORS, "ids");

static void declare(struct unit *unit, const struct attention *ids)
{
    const struct model_settings *s = unit->settings;
    const int64_t q = model_heads(s) * s->head_dim, kv = 2 * model_kv_heads(s) * s->head_dim;
    unit_declare_tensor(unit, ids->lse, "lse", model_heads(s), UNIT_TOKENS, ROLE_STATISTIC);
    unit_declare_tensor(unit, ids->first + PACKED, "own kv", UNIT_TOKENS, kv, ROLE_VALUE);
    unit_declare_tensor(unit, ids->first + GATHERED, "gathered kv", UNIT_ROW_TOKENS, kv, ROLE_VALUE);
    unit_declare_tensor(unit, ids->first + GATHER_KV, "kv of rows", UNIT_ROW_TOKENS, kv, ROLE_VALUE);
    unit_declare_tensor(unit, ids->first + D_Q, "d q", UNIT_TOKENS, q, ROLE_STATISTIC);
    unit_declare_tensor(unit, ids->first + ROUNDED_Q, "rounded d q", UNIT_TOKENS, q, ROLE_VALUE);
    unit_declare_tensor(unit, ids->first + D_KV, "d kv of rows", UNIT_ROW_TOKENS, kv, ROLE_STATISTIC);
    unit_declare_tensor(unit, ids->first + D_SENT, "d kv by ranks", UNIT_ROW_TOKENS, kv, ROLE_STATISTIC);
    unit_declare_tensor(unit, ids->first + D_SUM, "sum of d kv", UNIT_TOKENS, kv, ROLE_STATISTIC);
    unit_declare_tensor(unit, ids->first + ROUNDED_KV, "rounded d kv", UNIT_TOKENS, kv, ROLE_VALUE);
}

static void gather(struct execution *e, const struct unit *unit, const struct attention *ids, struct tensor own)
{
    struct tensor packed = unit_tensor(e, unit, ids->first + PACKED);
    struct tensor gathered = unit_tensor(e, unit, ids->first + GATHERED);
    LAUNCH(e->stream, COPY, copy, .from = own, .to = packed);
    LAUNCH(e->stream, ALL_GATHER, all_gather, .group = e->row, .in = attention_flat(packed),
           .out = attention_by_ranks(e, gathered));
    attention_to_rows(e, gathered, unit_tensor(e, unit, ids->first + GATHER_KV));
}

static void forward(struct execution *e, const struct unit *unit, const struct attention *ids)
{
    const struct attention_heads heads = attention_all_heads(unit);
    struct attention_columns of = attention_split(unit, unit_tensor(e, unit, ids->fused), heads);
    struct attention_columns rows = attention_split_kv(unit_tensor(e, unit, ids->first + GATHER_KV));
    if (execution_wants(e, ids->first + GATHER_KV))
        gather(e, unit, ids, of.kv);
    if (execution_wants(e, ids->output))
        attention_launch(e, unit, heads,
                         &(struct attention_forward_args){.q = of.q,
                                                          .k = rows.k,
                                                          .v = rows.v,
                                                          .o = unit_tensor(e, unit, ids->output),
                                                          .lse = unit_tensor(e, unit, ids->lse),
                                                          .segments = e->batch->parts[0]});
}

static void backward(struct execution *e, const struct unit *unit, const struct attention *ids, struct tensor d_output,
                     struct tensor d_fused)
{
    const struct attention_heads heads = attention_all_heads(unit);
    struct attention_columns of = attention_split(unit, unit_tensor(e, unit, ids->fused), heads);
    struct attention_columns d = attention_split(unit, d_fused, heads);
    struct attention_columns rows = attention_split_kv(unit_tensor(e, unit, ids->first + GATHER_KV));
    struct attention_columns d_rows = attention_split_kv(unit_tensor(e, unit, ids->first + D_KV));
    struct tensor d_q = unit_tensor(e, unit, ids->first + D_Q);
    struct tensor sent = unit_tensor(e, unit, ids->first + D_SENT), sum = unit_tensor(e, unit, ids->first + D_SUM);
    attention_launch_halves(e, unit, &e->batch->parts[0], false,
                            &(struct attention_backward_args){.q = of.q,
                                                              .k = rows.k,
                                                              .v = rows.v,
                                                              .o = unit_tensor(e, unit, ids->output),
                                                              .lse = unit_tensor(e, unit, ids->lse),
                                                              .d_o = d_output,
                                                              .dq = d_q,
                                                              .dk = d_rows.k,
                                                              .dv = d_rows.v});
    attention_round(e, d_q, unit_tensor(e, unit, ids->first + ROUNDED_Q), d.q);
    attention_to_ranks(e, d_rows.kv, sent);
    LAUNCH(e->stream, REDUCE_SCATTER, reduce_scatter, .group = e->row, .in = attention_by_ranks(e, sent),
           .out = attention_flat(sum),
           .scratch = e->row->copies && e->tensor == NULL ? attention_by_ranks(e, d_rows.kv) : (struct tensor){0});
    attention_round(e, sum, unit_tensor(e, unit, ids->first + ROUNDED_KV), d.kv);
}

const struct attention_method attention_gather = {declare, forward, backward};
