#include "model/attention_private.h"
#include "data/context_split.h"

#include <math.h>

/* -- Shared by the methods --------------------------------------------------------------------------------------- */

struct attention_heads attention_all_heads(const struct unit *unit)
{
    return (struct attention_heads){model_heads(unit->settings), model_kv_heads(unit->settings)};
}

struct attention_columns attention_split(const struct unit *unit, struct tensor fused, struct attention_heads heads)
{
    const int64_t q = heads.query * unit->settings->head_dim, kv = heads.kv * unit->settings->head_dim;
    return (struct attention_columns){tensor_columns(&fused, 0, q), tensor_columns(&fused, q, kv),
                                      tensor_columns(&fused, q + kv, kv), tensor_columns(&fused, q, 2 * kv)};
}

struct attention_columns attention_split_kv(struct tensor kv)
{
    const int64_t half = kv.cols / 2;
    return (struct attention_columns){
        .k = tensor_columns(&kv, 0, half), .v = tensor_columns(&kv, half, half), .kv = kv};
}

static float softmax_scale(const struct unit *unit)
{
    return (float)(1.0 / sqrt((double)unit->settings->head_dim));
}

void attention_launch(struct execution *e, const struct unit *unit, struct attention_heads heads,
                      struct attention_forward_args *args)
{
    args->heads = heads.query;
    args->kv_heads = heads.kv;
    args->head_dim = unit->settings->head_dim;
    args->scale = softmax_scale(unit);
    args->causal = model_causal(unit->settings);
    args->window = model_window(unit->settings, unit->layer);
    launch(e->stream, OP_ATTENTION_FORWARD, args);
}

void attention_launch_backward(struct execution *e, const struct unit *unit, struct attention_heads heads,
                               struct attention_backward_args *args)
{
    args->heads = heads.query;
    args->kv_heads = heads.kv;
    args->head_dim = unit->settings->head_dim;
    args->scale = softmax_scale(unit);
    args->causal = model_causal(unit->settings);
    args->window = model_window(unit->settings, unit->layer);
    launch(e->stream, OP_ATTENTION_BACKWARD, args);
}

static struct attention_segments some_slots(const struct attention_segments *all, int64_t first, int64_t count)
{
    struct attention_segments some = *all;
    some.q_start = tensor_columns(&all->q_start, first, count);
    some.q_length = tensor_columns(&all->q_length, first, count);
    some.kv_start = tensor_columns(&all->kv_start, first, count);
    some.kv_length = tensor_columns(&all->kv_length, first, count);
    some.q_offset = tensor_columns(&all->q_offset, first, count);
    return some;
}

void attention_launch_halves(struct execution *e, const struct unit *unit, const struct attention_segments *part,
                             bool skip_first, struct attention_backward_args *args)
{
    const int64_t halves = context_halves(model_causal(unit->settings)), each = part->q_start.cols / halves;
    for (int64_t half = skip_first ? 1 : 0; half < halves; half++) {
        args->segments = some_slots(part, half * each, each);
        attention_launch_backward(e, unit, attention_all_heads(unit), args);
        args->accumulate_q = args->accumulate_kv = true;
    }
}

static struct tensor slices_of_rank(const struct execution *e, const struct tensor *ranks, int rank, int half)
{
    const int64_t slice = e->batch->row_tokens / 2, tokens = e->batch->tokens.cols;
    return (struct tensor){tensor_at(ranks, rank * tokens + half * slice, 0), ranks->dtype, tokens / (2 * slice),
                           slice * ranks->cols, 2 * slice * ranks->cols};
}

static struct tensor slices_of_rows(const struct execution *e, const struct tensor *rows, int number)
{
    const int64_t slice = e->batch->row_tokens / 2, slices = 2 * e->row->size;
    return (struct tensor){tensor_at(rows, number * slice, 0), rows->dtype, rows->rows / (slices * slice),
                           slice * rows->cols, slices * slice * rows->cols};
}

static void reorder(struct execution *e, struct tensor ranks, struct tensor rows, bool to_rows)
{
    for (int rank = 0; rank < e->row->size; rank++)
        for (int half = 0; half < 2; half++) {
            struct tensor a = slices_of_rank(e, &ranks, rank, half);
            struct tensor b = slices_of_rows(e, &rows, context_slice(rank, e->row->size, half));
            LAUNCH(e->stream, COPY, copy, .from = to_rows ? a : b, .to = to_rows ? b : a);
        }
}

void attention_to_rows(struct execution *e, struct tensor ranks, struct tensor rows)
{
    reorder(e, ranks, rows, true);
}

void attention_to_ranks(struct execution *e, struct tensor rows, struct tensor ranks)
{
    reorder(e, ranks, rows, false);
}

struct tensor attention_of_rank(const struct execution *e, struct tensor ranks, int rank)
{
    return tensor_rows(&ranks, rank * e->batch->tokens.cols, e->batch->tokens.cols);
}

struct tensor attention_flat(struct tensor x)
{
    return tensor_vector(x.data, x.dtype, tensor_count(&x));
}

struct tensor attention_by_ranks(const struct execution *e, struct tensor x)
{
    return tensor_matrix(x.data, x.dtype, e->row->size, tensor_count(&x) / e->row->size);
}

void attention_round(struct execution *e, struct tensor from, struct tensor rounded, struct tensor to)
{
    if (from.dtype != to.dtype) {
        LAUNCH(e->stream, SPLIT, split, .from = attention_flat(from), .high = attention_flat(rounded));
        from = rounded;
    }
    LAUNCH(e->stream, COPY, copy, .from = from, .to = to);
}

/* -- Without context parallelism --------------------------------------------------------------------------------- */

static void declare(struct unit *unit, const struct attention *ids)
{
    unit_declare_tensor(unit, ids->lse, "lse", model_heads(unit->settings), UNIT_TOKENS, ROLE_STATISTIC);
}

struct tensor attention_cache(struct execution *e, const struct unit *unit, struct tensor own)
{
    const int64_t rows = e->cache.layer_rows;
    struct tensor all = tensor_rows(&e->cache.rows, unit->layer * rows, rows);
    LAUNCH(e->stream, SCATTER, scatter, .from = tensor_rows(&own, 0, e->batch->places.cols), .rows = e->batch->places,
           .to = all);
    return all;
}

struct attention_segments attention_again(struct execution *e, bool backward)
{
    struct attention_segments segments = e->batch->segments;
    segments.again = e->attended[backward]++;
    return segments;
}

static void forward(struct execution *e, const struct unit *unit, const struct attention *ids)
{
    const struct attention_heads heads = attention_all_heads(unit);
    if (!execution_wants(e, ids->output))
        return;
    struct attention_columns of = attention_split(unit, unit_tensor(e, unit, ids->fused), heads);
    struct attention_columns from =
        attention_split_kv(e->pass == PASS_GENERATE ? attention_cache(e, unit, of.kv) : of.kv);
    attention_launch(e, unit, heads,
                     &(struct attention_forward_args){.q = of.q,
                                                      .k = from.k,
                                                      .v = from.v,
                                                      .o = unit_tensor(e, unit, ids->output),
                                                      .lse = unit_tensor(e, unit, ids->lse),
                                                      .segments = attention_again(e, false)});
    if (e->services->attended != NULL)
        e->services->attended(e, unit, of.q, of.k);
}

void attention_rotate(struct execution *e, const struct unit *unit, struct tensor fused, bool inverse)
{
    const struct model_settings *s = unit->settings;
    LAUNCH(e->stream, ROPE, rope, .x = tensor_columns(&fused, 0, (model_heads(s) + model_kv_heads(s)) * s->head_dim),
           .positions = e->batch->positions, .table = e->rope_table, .head_dim = s->head_dim,
           .interleaved = unit_family(unit)->interleaved, .inverse = inverse);
}

static void backward(struct execution *e, const struct unit *unit, const struct attention *ids, struct tensor d_output,
                     struct tensor d_fused)
{
    const struct attention_heads heads = attention_all_heads(unit);
    struct attention_columns of = attention_split(unit, unit_tensor(e, unit, ids->fused), heads);
    struct attention_columns d = attention_split(unit, d_fused, heads);
    attention_launch_backward(e, unit, heads,
                              &(struct attention_backward_args){.q = of.q,
                                                                .k = of.k,
                                                                .v = of.v,
                                                                .o = unit_tensor(e, unit, ids->output),
                                                                .lse = unit_tensor(e, unit, ids->lse),
                                                                .d_o = d_output,
                                                                .dq = d.q,
                                                                .dk = d.k,
                                                                .dv = d.v,
                                                                .positions = e->batch->positions,
                                                                .table = e->rope_table,
                                                                .interleaved = unit_family(unit)->interleaved,
                                                                .segments = attention_again(e, true)});
}

static const struct attention_method whole_rows = {declare, forward, backward};

/* -- Choice of the method ---------------------------------------------------------------------------------------- */

static const struct attention_method *method_of(const struct unit *unit)
{
    static const struct attention_method *const methods[] = {[DECK_CONTEXT_GATHER] = &attention_gather,
                                                             [DECK_CONTEXT_HEADS] = &attention_heads,
                                                             [DECK_CONTEXT_RING] = &attention_ring};
    const struct context_parallel *context = &unit->settings->context;
    return context_ranks(context) == 1 ? &whole_rows : context->cache ? &attention_cached : methods[context->method];
}

void attention_declare(struct unit *unit, const struct attention *ids)
{
    method_of(unit)->declare(unit, ids);
}

void attention_forward(struct execution *e, const struct unit *unit, const struct attention *ids)
{
    method_of(unit)->forward(e, unit, ids);
}

void attention_backward(struct execution *e, const struct unit *unit, const struct attention *ids,
                        struct tensor d_output, struct tensor d_fused)
{
    const struct attention_method *method = method_of(unit);
    method->backward(e, unit, ids, d_output, d_fused);
    if (method != &whole_rows) /* the op of whole_rows rotates the gradients itself */
        attention_rotate(e, unit, d_fused, true);
}

void attention_drop(struct id_set *set, const struct attention *ids, bool fused)
{
    id_set_add(set, ids->first + GATHER_KV);
    if (fused)
        id_set_add(set, ids->first + HEADS_FUSED);
}

int attention_check(const struct model_settings *s)
{
    const int ranks = context_ranks(&s->context);
    if (ranks > 1 && model_has_window(s) && s->context.method == DECK_CONTEXT_RING)
        return error_user(
            "key parallel.context_method = \"ring\": not with model.sliding_window = %lld; use \"heads\", "
            "\"gather\" or \"auto\"",
            (long long)s->sliding_window);
    if (ranks == 1 || s->context.method != DECK_CONTEXT_HEADS)
        return ERROR_NONE;
    const char *of_rank = tensor_ranks(&s->tensor) > 1 ? " on a rank (parallel.tensor)" : "";
    const int64_t heads = model_heads(s), kv_heads = model_kv_heads(s);
    if (heads % ranks != 0)
        return error_user("key parallel.context = %d: must divide model.heads, %lld%s, with parallel.context_method = "
                          "\"heads\"",
                          ranks, (long long)heads, of_rank);
    if (kv_heads % ranks != 0 && ranks % kv_heads != 0)
        return error_user("key parallel.context = %d: must divide model.kv_heads, %lld%s, or be a multiple of it, with "
                          "parallel.context_method = \"heads\"",
                          ranks, (long long)kv_heads, of_rank);
    return ERROR_NONE;
}
