/* Context parallelism by a ring: at step i a rank has the keys and values of the rank i positions before it, and passes
 * them on while it computes. Partial results are merged in fp32. Gradients of keys and values follow one step later, in
 * fp32, and reach their rank one step after the last. (Liu et al. 2023.) */
#include "model/attention_private.h"

enum {
    BLOCK = ATTENTION_OWN, /* keys and values of a rank: two buffers, used alternately */
    BLOCK_OTHER,
    PART_OUTPUT, /* result of one step, as PART_LSE */
    PART_LSE,
    SUM_OUTPUT, /* merged over the steps so far */
    D_Q,
    D_BLOCK, /* gradients of a rank's keys and values: two buffers, used alternately */
    D_BLOCK_OTHER,
    D_PART, /* the gradients that one step adds */
    ROUNDED_Q,
    ROUNDED_KV,
    COUNT
};
_Static_assert((int)COUNT <= (int)ATTENTION_TENSORS, "ids");

static void declare(struct unit *unit, const struct attention *ids)
{
    const struct model_settings *s = unit->settings;
    const int64_t q = model_heads(s) * s->head_dim, kv = 2 * model_kv_heads(s) * s->head_dim;
    unit_declare_tensor(unit, ids->lse, "lse", model_heads(s), UNIT_TOKENS, ROLE_STATISTIC);
    unit_declare_tensor(unit, ids->first + BLOCK, "kv of a rank", UNIT_TOKENS, kv, ROLE_VALUE);
    unit_declare_tensor(unit, ids->first + BLOCK_OTHER, "kv of the next rank", UNIT_TOKENS, kv, ROLE_VALUE);
    unit_declare_tensor(unit, ids->first + PART_OUTPUT, "part of attention", UNIT_TOKENS, q, ROLE_VALUE);
    unit_declare_tensor(unit, ids->first + PART_LSE, "part of lse", model_heads(s), UNIT_TOKENS, ROLE_STATISTIC);
    unit_declare_tensor(unit, ids->first + SUM_OUTPUT, "merged attention", UNIT_TOKENS, q, ROLE_STATISTIC);
    unit_declare_tensor(unit, ids->first + D_Q, "d q", UNIT_TOKENS, q, ROLE_STATISTIC);
    unit_declare_tensor(unit, ids->first + D_BLOCK, "d kv of a rank", UNIT_TOKENS, kv, ROLE_STATISTIC);
    unit_declare_tensor(unit, ids->first + D_BLOCK_OTHER, "d kv of the next rank", UNIT_TOKENS, kv, ROLE_STATISTIC);
    unit_declare_tensor(unit, ids->first + D_PART, "part of d kv", UNIT_TOKENS, kv, ROLE_STATISTIC);
    unit_declare_tensor(unit, ids->first + ROUNDED_Q, "rounded d q", UNIT_TOKENS, q, ROLE_VALUE);
    unit_declare_tensor(unit, ids->first + ROUNDED_KV, "rounded d kv", UNIT_TOKENS, kv, ROLE_VALUE);
}

/* Returns the buffer of step `step`, of the two with ids `id` and id + 1. */
static struct tensor ring_buffer(const struct execution *e, const struct unit *unit, const struct attention *ids,
                                 int id, int step)
{
    return unit_tensor(e, unit, ids->first + id + step % 2);
}

/* Sends the buffer of step `step` to the next rank, and receives that of step + 1. */
static void pass_on(struct execution *e, const struct unit *unit, const struct attention *ids, int id, int step)
{
    LAUNCH(e->transfers, SHIFT, shift, .group = e->row, .in = attention_flat(ring_buffer(e, unit, ids, id, step)),
           .out = attention_flat(ring_buffer(e, unit, ids, id, step + 1)));
}

static void forward(struct execution *e, const struct unit *unit, const struct attention *ids)
{
    if (!execution_wants(e, ids->output))
        return;
    const struct model_settings *s = unit->settings;
    const int steps = e->row->size;
    const struct attention_columns of =
        attention_split(unit, unit_tensor(e, unit, ids->fused), attention_all_heads(unit));
    struct tensor part_o = unit_tensor(e, unit, ids->first + PART_OUTPUT);
    struct tensor part_lse = unit_tensor(e, unit, ids->first + PART_LSE);
    LAUNCH(e->stream, COPY, copy, .from = of.kv, .to = ring_buffer(e, unit, ids, BLOCK, 0));
    for (int step = 0; step < steps; step++) {
        const bool last = step + 1 == steps;
        const struct attention_columns block = attention_split_kv(ring_buffer(e, unit, ids, BLOCK, step));
        if (!last) {
            execution_fork(e);
            pass_on(e, unit, ids, BLOCK, step);
        }
        attention_launch(e, unit, attention_all_heads(unit),
                         &(struct attention_forward_args){.q = of.q,
                                                          .k = block.k,
                                                          .v = block.v,
                                                          .o = part_o,
                                                          .lse = part_lse,
                                                          .segments = e->batch->parts[step]});
        LAUNCH(e->stream, ATTENTION_MERGE, attention_merge, .part_o = part_o, .part_lse = part_lse,
               .o = unit_tensor(e, unit, ids->first + SUM_OUTPUT), .lse = unit_tensor(e, unit, ids->lse),
               .to = last ? unit_tensor(e, unit, ids->output) : (struct tensor){0}, .heads = model_heads(s),
               .head_dim = s->head_dim, .first = step == 0);
        if (!last)
            execution_join(e);
    }
}

static void backward(struct execution *e, const struct unit *unit, const struct attention *ids, struct tensor d_output,
                     struct tensor d_fused)
{
    const int steps = e->row->size;
    const struct attention_heads heads = attention_all_heads(unit);
    const struct attention_columns of = attention_split(unit, unit_tensor(e, unit, ids->fused), heads);
    const struct attention_columns d = attention_split(unit, d_fused, heads);
    struct tensor d_q = unit_tensor(e, unit, ids->first + D_Q);
    LAUNCH(e->stream, COPY, copy, .from = of.kv, .to = ring_buffer(e, unit, ids, BLOCK, 0));
    for (int step = 0; step < steps; step++) {
        struct tensor d_kv = ring_buffer(e, unit, ids, D_BLOCK, step);
        const struct attention_columns block = attention_split_kv(ring_buffer(e, unit, ids, BLOCK, step));
        const struct attention_columns d_part =
            attention_split_kv(step == 0 ? d_kv : unit_tensor(e, unit, ids->first + D_PART));
        execution_fork(e);
        if (step + 1 < steps)
            pass_on(e, unit, ids, BLOCK, step);
        if (step > 0)
            pass_on(e, unit, ids, D_BLOCK, step - 1);
        attention_launch_halves(
            e, unit, &e->batch->parts[step],
            model_causal(unit->settings) &&
                step > e->row->rank, /* for keys of a later rank, the first slice's queries see nothing */
            &(struct attention_backward_args){.q = of.q,
                                              .k = block.k,
                                              .v = block.v,
                                              .o = unit_tensor(e, unit, ids->output),
                                              .lse = unit_tensor(e, unit, ids->lse),
                                              .d_o = d_output,
                                              .dq = d_q,
                                              .dk = d_part.k,
                                              .dv = d_part.v,
                                              .accumulate_q = step > 0});
        execution_join(e);
        if (step > 0)
            LAUNCH(e->stream, ADD, add, .from = d_part.kv, .to = d_kv);
    }
    execution_fork(e);
    pass_on(e, unit, ids, D_BLOCK, steps - 1);
    attention_round(e, d_q, unit_tensor(e, unit, ids->first + ROUNDED_Q), d.q);
    execution_join(e);
    attention_round(e, ring_buffer(e, unit, ids, D_BLOCK, steps), unit_tensor(e, unit, ids->first + ROUNDED_KV), d.kv);
}

const struct attention_method attention_ring = {declare, forward, backward};
