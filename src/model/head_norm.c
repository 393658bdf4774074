#include "model/head_norm.h"

static const struct tensor absent;

/* The norm of the queries, or of the keys: its ids and its columns of a fused projection. */
struct part {
    int weight, rstd;
    int64_t first, columns;
};

enum { PARTS = 2 };

static struct part part_of(const struct unit *unit, const struct head_norm *norm, int number)
{
    const struct model_settings *s = unit->settings;
    const int64_t q = model_heads(s) * s->head_dim, kv = model_kv_heads(s) * s->head_dim;
    return number == 0 ? (struct part){norm->q_weight, norm->q_rstd, 0, q}
                       : (struct part){norm->k_weight, norm->k_rstd, q, kv};
}

bool head_norm_present(const struct unit *unit)
{
    return unit_family(unit)->names.q_norm != NULL;
}

void head_norm_declare(struct unit *unit, const struct head_norm *norm, const char *layer)
{
    const struct model_settings *s = unit->settings;
    const struct family_names *names = &unit_family(unit)->names;
    if (!head_norm_present(unit))
        return;
    for (int i = 0; i < PARTS; i++) {
        const struct part part = part_of(unit, norm, i);
        unit_declare_weight(unit, part.weight, 1, s->head_dim, STORAGE_VECTOR);
        struct parameter *gain =
            unit_declare_parameter(unit, part.weight, s->head_dim, unit_constant(s->norm_zero_centered ? 0 : 1),
                                   "%s.%s.weight", layer, i == 0 ? names->q_norm : names->k_norm);
        parameter_share(gain, &s->tensor, true);
        unit_declare_tensor(unit, part.rstd, i == 0 ? "rstd of q" : "rstd of k", part.columns / s->head_dim,
                            UNIT_TOKENS, ROLE_STATISTIC);
    }
}

/* Copies the values, which are the last columns. */
static void copy_values(const struct execution *e, const struct unit *unit, struct tensor from, struct tensor to)
{
    const struct model_settings *s = unit->settings;
    const int64_t first = (model_heads(s) + model_kv_heads(s)) * s->head_dim;
    LAUNCH(e->stream, COPY, copy, .from = tensor_columns(&from, first, from.cols - first),
           .to = tensor_columns(&to, first, to.cols - first));
}

void head_norm_forward(const struct execution *e, const struct unit *unit, const struct head_norm *norm,
                       struct tensor projected, struct tensor fused)
{
    const struct model_settings *s = unit->settings;
    for (int i = 0; i < PARTS; i++) {
        const struct part part = part_of(unit, norm, i);
        LAUNCH(e->stream, HEAD_NORM_FORWARD, head_norm_forward,
               .x = tensor_columns(&projected, part.first, part.columns), .weight = unit_weight(e, unit, part.weight),
               .y = tensor_columns(&fused, part.first, part.columns), .rstd = unit_tensor(e, unit, part.rstd),
               .head_dim = s->head_dim, .eps = (float)s->norm_eps, .one_plus = s->norm_zero_centered);
    }
    copy_values(e, unit, projected, fused);
}

void head_norm_backward(const struct execution *e, const struct unit *unit, const struct head_norm *norm,
                        struct tensor projected, struct tensor d_fused, struct tensor d_projected)
{
    const struct model_settings *s = unit->settings;
    const bool want_input = e->gradients & GRADIENT_INPUT, want_weight = e->gradients & GRADIENT_WEIGHT;
    for (int i = 0; i < PARTS; i++) {
        const struct part part = part_of(unit, norm, i);
        LAUNCH(e->stream, HEAD_NORM_BACKWARD, head_norm_backward,
               .x = tensor_columns(&projected, part.first, part.columns), .weight = unit_weight(e, unit, part.weight),
               .rstd = unit_tensor(e, unit, part.rstd), .dy = tensor_columns(&d_fused, part.first, part.columns),
               .dx = want_input ? tensor_columns(&d_projected, part.first, part.columns) : absent,
               .dweight = want_weight ? unit_gradient(e, unit, part.weight) : absent, .head_dim = s->head_dim,
               .accumulate = unit_accumulates(unit, part.weight), .one_plus = s->norm_zero_centered);
    }
    if (want_input)
        copy_values(e, unit, d_fused, d_projected);
}
