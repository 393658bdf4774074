/* Generation by ranks that share the key-value cache: each rank has the keys and values of some tokens of every
 * sequence, and all tokens of a call. It attends to its own keys; the partial results of all ranks are gathered, and
 * each rank merges them in rank order, so that all ranks get the same bits. */
#include "model/attention_private.h"

enum {
    PART_OUTPUT = ATTENTION_OWN, /* result over this rank's keys, as PART_LSE */
    PART_LSE,
    ALL_OUTPUTS, /* those of all ranks, in rank order, as ALL_LSE */
    ALL_LSE,
    SUM_OUTPUT, /* merged over the ranks so far */
    COUNT
};
_Static_assert((int)COUNT <= (int)ATTENTION_TENSORS, "ids");

static void declare(struct unit *unit, const struct attention *ids)
{
    const struct model_settings *s = unit->settings;
    const int64_t q = model_heads(s) * s->head_dim;
    unit_declare_tensor(unit, ids->lse, "lse", model_heads(s), UNIT_TOKENS, ROLE_STATISTIC);
    unit_declare_tensor(unit, ids->first + PART_OUTPUT, "part of attention", UNIT_TOKENS, q, ROLE_VALUE);
    unit_declare_tensor(unit, ids->first + PART_LSE, "part of lse", model_heads(s), UNIT_TOKENS, ROLE_STATISTIC);
    unit_declare_tensor(unit, ids->first + ALL_OUTPUTS, "parts of attention", UNIT_ROW_TOKENS, q, ROLE_VALUE);
    unit_declare_tensor(unit, ids->first + ALL_LSE, "parts of lse", model_heads(s), UNIT_ROW_TOKENS, ROLE_STATISTIC);
    unit_declare_tensor(unit, ids->first + SUM_OUTPUT, "merged attention", UNIT_TOKENS, q, ROLE_STATISTIC);
}

/* Gathers the tensor `own` of all ranks to `all`, one after the other. */
static void gather(struct execution *e, struct tensor own, struct tensor all)
{
    LAUNCH(e->stream, ALL_GATHER, all_gather, .group = e->row, .in = attention_flat(own),
           .out = attention_by_ranks(e, all));
}

static void forward(struct execution *e, const struct unit *unit, const struct attention *ids)
{
    const struct model_settings *s = unit->settings;
    const struct attention_heads heads = attention_all_heads(unit);
    if (!execution_wants(e, ids->output))
        return;
    const struct attention_columns of = attention_split(unit, unit_tensor(e, unit, ids->fused), heads);
    const struct attention_columns from = attention_split_kv(attention_cache(e, unit, of.kv));
    const struct tensor part_o = unit_tensor(e, unit, ids->first + PART_OUTPUT);
    const struct tensor part_lse = unit_tensor(e, unit, ids->first + PART_LSE);
    const struct tensor all_o = unit_tensor(e, unit, ids->first + ALL_OUTPUTS);
    const struct tensor all_lse = unit_tensor(e, unit, ids->first + ALL_LSE);
    attention_launch(
        e, unit, heads,
        &(struct attention_forward_args){
            .q = of.q, .k = from.k, .v = from.v, .o = part_o, .lse = part_lse, .segments = attention_again(e, false)});
    gather(e, part_o, all_o);
    gather(e, part_lse, all_lse);
    for (int rank = 0; rank < e->row->size; rank++) {
        const bool last = rank + 1 == e->row->size;
        const struct tensor lse = tensor_matrix((char *)all_lse.data + rank * tensor_extent(&part_lse), part_lse.dtype,
                                                part_lse.rows, part_lse.cols);
        LAUNCH(e->stream, ATTENTION_MERGE, attention_merge, .part_o = attention_of_rank(e, all_o, rank),
               .part_lse = lse, .o = unit_tensor(e, unit, ids->first + SUM_OUTPUT),
               .lse = unit_tensor(e, unit, ids->lse),
               .to = last ? unit_tensor(e, unit, ids->output) : (struct tensor){0}, .heads = model_heads(s),
               .head_dim = s->head_dim, .first = rank == 0);
    }
}

const struct attention_method attention_cached = {declare, forward, NULL};
