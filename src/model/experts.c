#include "model/experts.h"
#include "model/sequence.h"

#include <stdio.h>

bool experts_present(const struct unit *unit)
{
    return unit->settings->experts > 0;
}

/* -- Declaring ----------------------------------------------------------------------------------------------------- */

/* Declares the next rows of a weight as a parameter of expert `number`. A rank that does not store the expert has none
 * of its rows: all ranks have the same list of parameters. */
static void declare_part(struct unit *unit, int id, int64_t rows, double init_std, const char *layer,
                         const char *pattern, int64_t number)
{
    const int64_t count = model_experts(unit->settings);
    const bool here = number / count == unit->settings->tensor.rank;
    char name[64];
    snprintf(name, sizeof name, pattern, (int)number);
    parameter_place(
        unit_declare_parameter(unit, id, here ? rows : 0, unit_random(unit, init_std), "%s.%s.weight", layer, name),
        rows, unit->weights[id].cols, 0, 0);
}

static void declare_router(struct unit *unit, int id, const char *layer, const char *name)
{
    const struct model_settings *s = unit->settings;
    unit_declare_weight(unit, id, s->experts, s->hidden, STORAGE_MATRIX);
    parameter_share(
        unit_declare_parameter(unit, id, s->experts, unit_random(unit, s->init_std), "%s.%s.weight", layer, name),
        &s->tensor, true);
}

void experts_declare_weights(struct unit *unit, const struct expert_ids *ids, const char *layer)
{
    const struct model_settings *s = unit->settings;
    const struct family_names *names = &unit_family(unit)->names;
    declare_router(unit, ids->router, layer, names->router);
    unit_declare_weight(unit, ids->up, model_experts(s) * 2 * s->ffn, s->hidden, STORAGE_MATRIX);
    for (int64_t e = 0; e < s->experts; e++) {
        declare_part(unit, ids->up, s->ffn, s->init_std, layer, names->gate, e);
        declare_part(unit, ids->up, s->ffn, s->init_std, layer, names->up, e);
    }
    unit_declare_weight(unit, ids->down, model_experts(s) * s->hidden, s->ffn, STORAGE_MATRIX);
    for (int64_t e = 0; e < s->experts; e++)
        declare_part(unit, ids->down, s->hidden, s->output_std, layer, names->down, e);
}

static void declare_exchange(struct unit *unit, const struct expert_ids *ids)
{
    const int64_t hidden = unit->settings->hidden;
    unit_declare_tensor(unit, ids->first + EXPERTS_GATHERED, "gathered", UNIT_TOKENS, hidden, ROLE_VALUE);
    unit_declare_tensor(unit, ids->first + EXPERTS_D_GATHERED, "gathered d output", UNIT_TOKENS, hidden, ROLE_VALUE);
    unit_declare_tensor(unit, ids->first + EXPERTS_PARTIAL, "part of a sum", UNIT_TOKENS, hidden, ROLE_VALUE);
    sequence_declare_scratch(unit, ids->first + EXPERTS_SCRATCH, UNIT_TOKENS, hidden);
}

void experts_declare_tensors(struct unit *unit, const struct expert_ids *ids)
{
    const struct model_settings *s = unit->settings;
    const struct {
        enum expert_tensor id;
        const char *name;
        int64_t rows, cols;
        enum tensor_role role;
    } tensors[] = {
        {EXPERTS_LOGITS, "router logits", UNIT_TOKENS, s->experts, ROLE_STATISTIC},
        {EXPERTS_CHOSEN, "chosen experts", UNIT_TOKENS, s->experts_per_token, ROLE_I32},
        {EXPERTS_WEIGHTS, "weights of experts", UNIT_TOKENS, s->experts_per_token, ROLE_STATISTIC},
        {EXPERTS_PLACES, "places by expert", UNIT_TOKENS, s->experts_per_token, ROLE_I32},
        {EXPERTS_TOKENS, "tokens by expert", 1, UNIT_PAIRS, ROLE_I32},
        {EXPERTS_ENDS, "ends of experts", 1, model_experts(s), ROLE_I32},
        {EXPERTS_DISPATCHED, "dispatched", UNIT_PAIRS, s->hidden, ROLE_VALUE},
        {EXPERTS_UP, "up", UNIT_PAIRS, 2 * s->ffn, ROLE_VALUE},
        {EXPERTS_ACTIVATED, "activated", UNIT_PAIRS, s->ffn, ROLE_VALUE},
        {EXPERTS_OUTPUTS, "outputs of experts", UNIT_PAIRS, s->hidden, ROLE_VALUE},
        {EXPERTS_D_OUTPUTS, "d outputs of experts", UNIT_PAIRS, s->hidden, ROLE_VALUE},
        {EXPERTS_D_WEIGHTS, "d weights of experts", UNIT_TOKENS, s->experts_per_token, ROLE_STATISTIC},
        {EXPERTS_D_ACTIVATED, "d activated", UNIT_PAIRS, s->ffn, ROLE_VALUE},
        {EXPERTS_D_UP, "d up", UNIT_PAIRS, 2 * s->ffn, ROLE_VALUE},
        {EXPERTS_D_DISPATCHED, "d dispatched", UNIT_PAIRS, s->hidden, ROLE_VALUE},
        {EXPERTS_LOAD, "load of experts", UNIT_TOKENS, s->experts + 1, ROLE_STATISTIC}, /* a row of tokens has one */
        {EXPERTS_D_LOGITS, "d router logits", UNIT_TOKENS, s->experts, ROLE_VALUE},
    };
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++)
        unit_declare_tensor(unit, ids->first + (int)tensors[i].id, tensors[i].name, tensors[i].rows, tensors[i].cols,
                            tensors[i].role);
    if (sequence_parallel(unit))
        declare_exchange(unit, ids);
}

void experts_drop(struct id_set *set, const struct expert_ids *ids, enum deck_recompute policy)
{
    /* keeping the tokens of all ranks would undo sequence parallelism */
    id_set_add(set, ids->first + EXPERTS_GATHERED);
    if (policy >= DECK_RECOMPUTE_ACTIVATION)
        id_set_add(set, ids->first + EXPERTS_ACTIVATED);
    if (policy >= DECK_RECOMPUTE_NORMS || policy == DECK_RECOMPUTE_ONLY_NORMS)
        id_set_add(set, ids->first + EXPERTS_DISPATCHED);
    if (policy >= DECK_RECOMPUTE_GATE_UP) {
        id_set_add(set, ids->first + EXPERTS_UP);
        id_set_add(set, ids->first + EXPERTS_OUTPUTS);
    }
}

static struct tensor tensor_of(const struct execution *e, const struct unit *unit, const struct expert_ids *ids,
                               enum expert_tensor id)
{
    return unit_tensor(e, unit, ids->first + (int)id);
}

/* -- Tensor ranks -------------------------------------------------------------------------------------------------- */

static bool is_split(const struct unit *unit)
{
    return tensor_ranks(&unit->settings->tensor) > 1;
}

static bool is_first_rank(const struct execution *e)
{
    return e->tensor == NULL || e->tensor->rank == 0;
}

/* Returns the tensor `id` for the tokens of all ranks, or without sequence parallelism `own`, which has them. */
static struct tensor of_all(const struct execution *e, const struct unit *unit, const struct expert_ids *ids,
                            enum expert_tensor id, struct tensor own)
{
    return sequence_parallel(unit) ? tensor_of(e, unit, ids, id) : own;
}

/* Returns the expected number of pairs that this rank computes. */
static int64_t mean_pairs(const struct execution *e, const struct unit *unit, const struct expert_ids *ids)
{
    const struct tensor places = tensor_of(e, unit, ids, EXPERTS_PLACES);
    return tensor_count(&places) / tensor_ranks(&unit->settings->tensor);
}

static void sum_ranks(const struct execution *e, const struct unit *unit, const struct expert_ids *ids,
                      struct tensor part, struct tensor sum)
{
    sequence_sum(e, unit, part, sum, ids->first + EXPERTS_SCRATCH);
}

/* -- Forward ------------------------------------------------------------------------------------------------------- */

static void choose(struct execution *e, const struct unit *unit, const struct expert_ids *ids, struct tensor x)
{
    const struct tensor logits = tensor_of(e, unit, ids, EXPERTS_LOGITS),
                        chosen = tensor_of(e, unit, ids, EXPERTS_CHOSEN);
    LAUNCH(e->stream, GEMM, gemm, .a = x, .b = unit_weight(e, unit, ids->router), .d = logits, .transpose_b = true);
    LAUNCH(e->stream, ROUTE_FORWARD, route_forward, .logits = logits, .experts = chosen,
           .weights = tensor_of(e, unit, ids, EXPERTS_WEIGHTS));
    LAUNCH(e->stream, EXPERT_ORDER, expert_order, .experts = chosen, .places = tensor_of(e, unit, ids, EXPERTS_PLACES),
           .tokens = tensor_of(e, unit, ids, EXPERTS_TOKENS), .ends = tensor_of(e, unit, ids, EXPERTS_ENDS),
           .first = unit->settings->tensor.rank * model_experts(unit->settings));
}

/* Computes output = addend + the weighted sum of each token's experts, over the tensor ranks that have them. */
static void combine(struct execution *e, const struct unit *unit, const struct expert_ids *ids, struct tensor addend,
                    struct tensor output)
{
    const struct tensor part = of_all(e, unit, ids, EXPERTS_PARTIAL, output), absent = {0};
    const bool adds = !sequence_parallel(unit) && is_first_rank(e); /* one rank adds the addend */
    LAUNCH(e->stream, COMBINE_FORWARD, combine_forward, .x = tensor_of(e, unit, ids, EXPERTS_OUTPUTS),
           .places = tensor_of(e, unit, ids, EXPERTS_PLACES), .weights = tensor_of(e, unit, ids, EXPERTS_WEIGHTS),
           .addend = adds ? addend : absent, .y = part, .mean_rows = mean_pairs(e, unit, ids));
    if (is_split(unit))
        sum_ranks(e, unit, ids, part, output);
    if (sequence_parallel(unit))
        LAUNCH(e->stream, ADD, add, .from = addend, .to = output);
}

void experts_forward(struct execution *e, const struct unit *unit, const struct expert_ids *ids, struct tensor x,
                     struct tensor addend, struct tensor output)
{
    const struct tensor all = of_all(e, unit, ids, EXPERTS_GATHERED, x);
    const struct tensor ends = tensor_of(e, unit, ids, EXPERTS_ENDS);
    const struct tensor dispatched = tensor_of(e, unit, ids, EXPERTS_DISPATCHED),
                        up = tensor_of(e, unit, ids, EXPERTS_UP);
    const struct tensor activated = tensor_of(e, unit, ids, EXPERTS_ACTIVATED);
    const int64_t mean_rows = mean_pairs(e, unit, ids);
    if (sequence_parallel(unit) && execution_wants(e, ids->first + EXPERTS_GATHERED)) {
        sequence_place(e, x, all);
        sequence_gather(e, all);
    }
    if (execution_wants(e, ids->first + EXPERTS_LOGITS))
        choose(e, unit, ids, all);
    if (execution_wants(e, ids->first + EXPERTS_DISPATCHED))
        LAUNCH(e->stream, EMBEDDING_FORWARD, embedding_forward, .tokens = tensor_of(e, unit, ids, EXPERTS_TOKENS),
               .weight = all, .y = dispatched, .ends = ends, .mean_rows = mean_rows);
    if (execution_wants(e, ids->first + EXPERTS_UP))
        LAUNCH(e->stream, EXPERT_GEMM, expert_gemm, .a = dispatched, .b = unit_weight(e, unit, ids->up), .ends = ends,
               .d = up, .transpose_b = true, .mean_rows = mean_rows);
    if (execution_wants(e, ids->first + EXPERTS_ACTIVATED))
        LAUNCH(e->stream, SWIGLU_FORWARD, swiglu_forward, .x = up, .y = activated, .ends = ends,
               .mean_rows = mean_rows);
    if (execution_wants(e, ids->first + EXPERTS_OUTPUTS))
        LAUNCH(e->stream, EXPERT_GEMM, expert_gemm, .a = activated, .b = unit_weight(e, unit, ids->down), .ends = ends,
               .d = tensor_of(e, unit, ids, EXPERTS_OUTPUTS), .transpose_b = true, .mean_rows = mean_rows);
    if (execution_wants(e, UNIT_OUTPUT))
        combine(e, unit, ids, addend, output);
}

/* -- Backward ------------------------------------------------------------------------------------------------------ */

/* Counts the tokens of each row by expert. Ranks that share a row each have an equal part of it. */
static struct tensor count_load(struct execution *e, const struct unit *unit, const struct expert_ids *ids,
                                struct tensor chosen)
{
    const struct tensor load = unit_first_rows(e, unit, ids->first + EXPERTS_LOAD, chosen.rows / e->batch->row_tokens);
    LAUNCH(e->stream, EXPERT_LOAD, expert_load, .experts = chosen, .labels = e->batch->labels, .load = load);
    if (e->row != NULL)
        LAUNCH(e->stream, ALL_REDUCE, all_reduce, .group = e->row, .x = load);
    return load;
}

static void route_backward(struct execution *e, const struct unit *unit, const struct expert_ids *ids)
{
    const struct model_settings *s = unit->settings;
    const struct tensor chosen = tensor_of(e, unit, ids, EXPERTS_CHOSEN);
    struct route_backward_args args = {.logits = tensor_of(e, unit, ids, EXPERTS_LOGITS),
                                       .experts = chosen,
                                       .weights = tensor_of(e, unit, ids, EXPERTS_WEIGHTS),
                                       .d_weights = tensor_of(e, unit, ids, EXPERTS_D_WEIGHTS),
                                       .d_logits = tensor_of(e, unit, ids, EXPERTS_D_LOGITS)};
    if (s->router_aux_loss_coef > 0 && is_first_rank(e)) {
        args.labels = e->batch->labels;
        args.load = count_load(e, unit, ids, chosen);
        args.auxiliary = s->router_aux_loss_coef * (double)s->experts / (double)s->layers;
    }
    launch(e->stream, OP_ROUTE_BACKWARD, &args);
}

static void weight_gradient(struct execution *e, const struct unit *unit, const struct expert_ids *ids, int weight,
                            struct tensor dy, struct tensor x)
{
    LAUNCH(e->stream, EXPERT_GRADIENT, expert_gradient, .dy = dy, .x = x, .ends = tensor_of(e, unit, ids, EXPERTS_ENDS),
           .dweight = unit_gradient(e, unit, weight), .mean_rows = mean_pairs(e, unit, ids),
           .accumulate = unit_accumulates(unit, weight));
}

static void input_gradient(struct execution *e, const struct unit *unit, const struct expert_ids *ids, int weight,
                           struct tensor dy, struct tensor dx)
{
    LAUNCH(e->stream, EXPERT_GEMM, expert_gemm, .a = dy, .b = unit_weight(e, unit, weight),
           .ends = tensor_of(e, unit, ids, EXPERTS_ENDS), .d = dx, .mean_rows = mean_pairs(e, unit, ids));
}

/* dy: of all ranks' tokens. */
static void down_backward(struct execution *e, const struct unit *unit, const struct expert_ids *ids, struct tensor dy)
{
    const struct tensor d_outputs = tensor_of(e, unit, ids, EXPERTS_D_OUTPUTS);
    LAUNCH(e->stream, COMBINE_BACKWARD, combine_backward, .dy = dy, .x = tensor_of(e, unit, ids, EXPERTS_OUTPUTS),
           .places = tensor_of(e, unit, ids, EXPERTS_PLACES), .weights = tensor_of(e, unit, ids, EXPERTS_WEIGHTS),
           .dx = d_outputs, .d_weights = tensor_of(e, unit, ids, EXPERTS_D_WEIGHTS),
           .mean_rows = mean_pairs(e, unit, ids));
    input_gradient(e, unit, ids, ids->down, d_outputs, tensor_of(e, unit, ids, EXPERTS_D_ACTIVATED));
}

/* Computes this rank's term of the input's gradient, for all ranks' tokens. */
static void up_backward(struct execution *e, const struct unit *unit, const struct expert_ids *ids, struct tensor part)
{
    const struct tensor d_up = tensor_of(e, unit, ids, EXPERTS_D_UP);
    const struct tensor d_dispatched = tensor_of(e, unit, ids, EXPERTS_D_DISPATCHED);
    LAUNCH(e->stream, SWIGLU_BACKWARD, swiglu_backward, .x = tensor_of(e, unit, ids, EXPERTS_UP),
           .dy = tensor_of(e, unit, ids, EXPERTS_D_ACTIVATED), .dx = d_up,
           .ends = tensor_of(e, unit, ids, EXPERTS_ENDS), .mean_rows = mean_pairs(e, unit, ids));
    input_gradient(e, unit, ids, ids->up, d_up, d_dispatched);
    route_backward(e, unit, ids);
    LAUNCH(e->stream, GEMM, gemm, .a = tensor_of(e, unit, ids, EXPERTS_D_LOGITS),
           .b = unit_weight(e, unit, ids->router), .d = part);
    LAUNCH(e->stream, COMBINE_FORWARD, combine_forward, .x = d_dispatched,
           .places = tensor_of(e, unit, ids, EXPERTS_PLACES), .addend = part, .y = part,
           .mean_rows = mean_pairs(e, unit, ids));
}

/* Starts gathering the input for the router's gradient, unless recompute has done so. Returns whether the caller must
 * join. */
static bool gather_again(struct execution *e, const struct unit *unit, const struct expert_ids *ids, struct tensor x)
{
    const struct execution concurrent = execution_concurrent(e);
    if (!sequence_parallel(unit) || id_set_has(e->wanted, ids->first + EXPERTS_GATHERED))
        return false;
    sequence_place(e, x, tensor_of(e, unit, ids, EXPERTS_GATHERED));
    execution_fork(e);
    sequence_gather(&concurrent, tensor_of(e, unit, ids, EXPERTS_GATHERED));
    return true;
}

/* The gathers and the sum over ranks overlap with GEMMs, but for the gather of dy. */
void experts_backward(struct execution *e, const struct unit *unit, const struct expert_ids *ids, struct tensor x,
                      struct tensor dy, struct tensor dx)
{
    const bool input = e->gradients & GRADIENT_INPUT, weights = e->gradients & GRADIENT_WEIGHT;
    const bool sums = input && is_split(unit);
    const struct tensor all_x = of_all(e, unit, ids, EXPERTS_GATHERED, x),
                        all_dy = of_all(e, unit, ids, EXPERTS_D_GATHERED, dy);
    const struct tensor part = of_all(e, unit, ids, EXPERTS_PARTIAL, dx);
    const struct execution concurrent = execution_concurrent(e);
    if (input && sequence_parallel(unit)) {
        sequence_place(e, dy, all_dy);
        sequence_gather(e, all_dy);
    }
    const bool gathering = weights && gather_again(e, unit, ids, x);
    if (input)
        down_backward(e, unit, ids, all_dy);
    if (weights)
        weight_gradient(e, unit, ids, ids->down, tensor_of(e, unit, ids, EXPERTS_D_OUTPUTS),
                        tensor_of(e, unit, ids, EXPERTS_ACTIVATED));
    if (input)
        up_backward(e, unit, ids, part);
    if (gathering)
        execution_join(e);
    if (sums) {
        execution_fork(e);
        sum_ranks(&concurrent, unit, ids, part, dx);
    }
    if (weights) {
        weight_gradient(e, unit, ids, ids->up, tensor_of(e, unit, ids, EXPERTS_D_UP),
                        tensor_of(e, unit, ids, EXPERTS_DISPATCHED));
        LAUNCH(e->stream, GEMM, gemm, .a = tensor_of(e, unit, ids, EXPERTS_D_LOGITS), .b = all_x,
               .d = unit_gradient(e, unit, ids->router), .transpose_a = true,
               .accumulate = unit_accumulates(unit, ids->router));
    }
    if (sums)
        execution_join(e);
}
