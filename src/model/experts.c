#include "model/experts.h"
#include "model/execution.h"

#include <stdio.h>

bool experts_present(const struct unit *unit)
{
    return unit->settings->experts > 0;
}

/* -- Declaring ----------------------------------------------------------------------------------------------------- */

/* Declares the next rows of a weight as a parameter of expert `number`. */
static void declare_part(struct unit *unit, int id, int64_t rows, double init_std, const char *layer,
                         const char *pattern, int64_t number)
{
    char name[64];
    snprintf(name, sizeof name, pattern, (int)number);
    unit_declare_parameter(unit, id, rows, unit_random(unit, init_std), "%s.%s.weight", layer, name);
}

void experts_declare_weights(struct unit *unit, const struct expert_ids *ids, const char *layer)
{
    const struct model_settings *s = unit->settings;
    const struct family_names *names = &unit_family(unit)->names;
    unit_declare_weight(unit, ids->router, s->experts, s->hidden, STORAGE_MATRIX);
    declare_part(unit, ids->router, s->experts, s->init_std, layer, names->router, 0);
    unit_declare_weight(unit, ids->up, s->experts * 2 * s->ffn, s->hidden, STORAGE_MATRIX);
    for (int64_t e = 0; e < s->experts; e++) {
        declare_part(unit, ids->up, s->ffn, s->init_std, layer, names->gate, e);
        declare_part(unit, ids->up, s->ffn, s->init_std, layer, names->up, e);
    }
    unit_declare_weight(unit, ids->down, s->experts * s->hidden, s->ffn, STORAGE_MATRIX);
    for (int64_t e = 0; e < s->experts; e++)
        declare_part(unit, ids->down, s->hidden, s->output_std, layer, names->down, e);
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
        {EXPERTS_ENDS, "ends of experts", 1, s->experts, ROLE_I32},
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
}

void experts_drop(struct id_set *set, const struct expert_ids *ids, enum deck_recompute policy)
{
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

/* -- Forward ------------------------------------------------------------------------------------------------------- */

static void choose(struct execution *e, const struct unit *unit, const struct expert_ids *ids, struct tensor x)
{
    const struct tensor logits = tensor_of(e, unit, ids, EXPERTS_LOGITS),
                        chosen = tensor_of(e, unit, ids, EXPERTS_CHOSEN);
    LAUNCH(e->stream, GEMM, gemm, .a = x, .b = unit_weight(e, unit, ids->router), .d = logits, .transpose_b = true);
    LAUNCH(e->stream, ROUTE_FORWARD, route_forward, .logits = logits, .experts = chosen,
           .weights = tensor_of(e, unit, ids, EXPERTS_WEIGHTS));
    LAUNCH(e->stream, EXPERT_ORDER, expert_order, .experts = chosen, .places = tensor_of(e, unit, ids, EXPERTS_PLACES),
           .tokens = tensor_of(e, unit, ids, EXPERTS_TOKENS), .ends = tensor_of(e, unit, ids, EXPERTS_ENDS));
}

void experts_forward(struct execution *e, const struct unit *unit, const struct expert_ids *ids, struct tensor x,
                     struct tensor addend, struct tensor output)
{
    const struct tensor ends = tensor_of(e, unit, ids, EXPERTS_ENDS);
    const struct tensor dispatched = tensor_of(e, unit, ids, EXPERTS_DISPATCHED),
                        up = tensor_of(e, unit, ids, EXPERTS_UP);
    const struct tensor activated = tensor_of(e, unit, ids, EXPERTS_ACTIVATED);
    const struct tensor outputs = tensor_of(e, unit, ids, EXPERTS_OUTPUTS);
    if (execution_wants(e, ids->first + EXPERTS_LOGITS))
        choose(e, unit, ids, x);
    if (execution_wants(e, ids->first + EXPERTS_DISPATCHED))
        LAUNCH(e->stream, EMBEDDING_FORWARD, embedding_forward, .tokens = tensor_of(e, unit, ids, EXPERTS_TOKENS),
               .weight = x, .y = dispatched);
    if (execution_wants(e, ids->first + EXPERTS_UP))
        LAUNCH(e->stream, EXPERT_GEMM, expert_gemm, .a = dispatched, .b = unit_weight(e, unit, ids->up), .ends = ends,
               .d = up, .transpose_b = true);
    if (execution_wants(e, ids->first + EXPERTS_ACTIVATED))
        LAUNCH(e->stream, SWIGLU_FORWARD, swiglu_forward, .x = up, .y = activated);
    if (execution_wants(e, ids->first + EXPERTS_OUTPUTS))
        LAUNCH(e->stream, EXPERT_GEMM, expert_gemm, .a = activated, .b = unit_weight(e, unit, ids->down), .ends = ends,
               .d = outputs, .transpose_b = true);
    if (execution_wants(e, UNIT_OUTPUT))
        LAUNCH(e->stream, COMBINE_FORWARD, combine_forward, .x = outputs,
               .places = tensor_of(e, unit, ids, EXPERTS_PLACES), .weights = tensor_of(e, unit, ids, EXPERTS_WEIGHTS),
               .addend = addend, .y = output);
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
    if (s->router_aux_loss_coef > 0) {
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
           .dweight = unit_gradient(e, unit, weight), .accumulate = unit_accumulates(unit, weight));
}

static void input_gradient(struct execution *e, const struct unit *unit, const struct expert_ids *ids, int weight,
                           struct tensor dy, struct tensor dx)
{
    LAUNCH(e->stream, EXPERT_GEMM, expert_gemm, .a = dy, .b = unit_weight(e, unit, weight),
           .ends = tensor_of(e, unit, ids, EXPERTS_ENDS), .d = dx);
}

void experts_backward(struct execution *e, const struct unit *unit, const struct expert_ids *ids, struct tensor x,
                      struct tensor dy, struct tensor dx)
{
    const bool input = e->gradients & GRADIENT_INPUT, weights = e->gradients & GRADIENT_WEIGHT;
    const struct tensor places = tensor_of(e, unit, ids, EXPERTS_PLACES), d_up = tensor_of(e, unit, ids, EXPERTS_D_UP);
    const struct tensor d_outputs = tensor_of(e, unit, ids, EXPERTS_D_OUTPUTS);
    const struct tensor d_activated = tensor_of(e, unit, ids, EXPERTS_D_ACTIVATED);
    const struct tensor d_dispatched = tensor_of(e, unit, ids, EXPERTS_D_DISPATCHED);
    const struct tensor d_logits = tensor_of(e, unit, ids, EXPERTS_D_LOGITS);
    if (input) {
        LAUNCH(e->stream, COMBINE_BACKWARD, combine_backward, .dy = dy, .x = tensor_of(e, unit, ids, EXPERTS_OUTPUTS),
               .places = places, .weights = tensor_of(e, unit, ids, EXPERTS_WEIGHTS), .dx = d_outputs,
               .d_weights = tensor_of(e, unit, ids, EXPERTS_D_WEIGHTS));
        input_gradient(e, unit, ids, ids->down, d_outputs, d_activated);
    }
    if (weights)
        weight_gradient(e, unit, ids, ids->down, d_outputs, tensor_of(e, unit, ids, EXPERTS_ACTIVATED));
    if (input) {
        LAUNCH(e->stream, SWIGLU_BACKWARD, swiglu_backward, .x = tensor_of(e, unit, ids, EXPERTS_UP), .dy = d_activated,
               .dx = d_up);
        input_gradient(e, unit, ids, ids->up, d_up, d_dispatched);
        route_backward(e, unit, ids);
        LAUNCH(e->stream, GEMM, gemm, .a = d_logits, .b = unit_weight(e, unit, ids->router), .d = dx);
        LAUNCH(e->stream, COMBINE_FORWARD, combine_forward, .x = d_dispatched, .places = places, .addend = dx, .y = dx);
    }
    if (weights) {
        weight_gradient(e, unit, ids, ids->up, d_up, tensor_of(e, unit, ids, EXPERTS_DISPATCHED));
        LAUNCH(e->stream, GEMM, gemm, .a = d_logits, .b = x, .d = unit_gradient(e, unit, ids->router),
               .transpose_a = true, .accumulate = unit_accumulates(unit, ids->router));
    }
}
