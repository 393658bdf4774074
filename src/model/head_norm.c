#include "model/head_norm.h"
#include "model/projection_norm.h"

static const struct tensor absent;

/* The norm of the queries, or of the keys: its ids and its columns of a fused projection. */
struct part {
    int weight, rstd, mean;
    int64_t first, columns;
    int64_t heads; /* of all tensor ranks */
    const char *name;
};

enum { PARTS = 2 };

static struct part part_of(const struct unit *unit, const struct head_norm *norm, int number)
{
    const struct model_settings *s = unit->settings;
    const int64_t q = model_heads(s) * s->head_dim, kv = model_kv_heads(s) * s->head_dim;
    const struct family_names *names = &unit_family(unit)->names;
    return number == 0 ? (struct part){norm->q_weight, norm->q_rstd, norm->q_mean, 0, q, s->heads, names->q_norm}
                       : (struct part){norm->k_weight, norm->k_rstd, norm->k_mean, q, kv, s->kv_heads, names->k_norm};
}

/* Returns the part as a norm over all heads. */
static struct projection_norm whole_of(const struct head_norm *norm, const struct part *part)
{
    return (struct projection_norm){.weight = part->weight,
                                    .rstd = part->rstd,
                                    .mean = part->mean,
                                    .first = norm->gathering,
                                    .heads = part->heads,
                                    .columns = part->columns};
}

bool head_norm_present(const struct unit *unit)
{
    return unit_family(unit)->names.q_norm != NULL;
}

/* The gain's gradient on a tensor rank is the term of its own heads. */
static void declare_part(struct unit *unit, const struct part *part, const char *layer)
{
    const struct model_settings *s = unit->settings;
    unit_declare_weight(unit, part->weight, 1, s->head_dim, STORAGE_VECTOR);
    parameter_share(unit_declare_parameter(unit, part->weight, s->head_dim,
                                           unit_constant(s->norm_zero_centered ? 0 : 1), "%s.%s.weight", layer,
                                           part->name),
                    &s->tensor, true);
    unit_declare_tensor(unit, part->rstd, part->first == 0 ? "rstd of q" : "rstd of k", part->columns / s->head_dim,
                        UNIT_TOKENS, ROLE_STATISTIC);
}

void head_norm_declare(struct unit *unit, const struct head_norm *norm, const char *layer)
{
    for (int i = 0; i < PARTS && head_norm_present(unit); i++) {
        const struct part part = part_of(unit, norm, i);
        const struct projection_norm whole = whole_of(norm, &part);
        if (unit_family(unit)->whole_qk_norm)
            projection_norm_declare(unit, &whole, layer, part.name);
        else
            declare_part(unit, &part, layer);
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
        const struct projection_norm whole = whole_of(norm, &part);
        const struct tensor x = tensor_columns(&projected, part.first, part.columns);
        const struct tensor y = tensor_columns(&fused, part.first, part.columns);
        if (unit_family(unit)->whole_qk_norm)
            projection_norm_forward(e, unit, &whole, x, y);
        else
            LAUNCH(e->stream, HEAD_NORM_FORWARD, head_norm_forward, .x = x, .weight = unit_weight(e, unit, part.weight),
                   .y = y, .rstd = unit_tensor(e, unit, part.rstd), .head_dim = s->head_dim, .eps = (float)s->norm_eps,
                   .one_plus = s->norm_zero_centered);
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
        const struct projection_norm whole = whole_of(norm, &part);
        const struct tensor x = tensor_columns(&projected, part.first, part.columns);
        const struct tensor dy = tensor_columns(&d_fused, part.first, part.columns);
        const struct tensor dx = tensor_columns(&d_projected, part.first, part.columns);
        if (unit_family(unit)->whole_qk_norm)
            projection_norm_backward(e, unit, &whole, x, dy, dx);
        else
            LAUNCH(e->stream, HEAD_NORM_BACKWARD, head_norm_backward, .x = x,
                   .weight = unit_weight(e, unit, part.weight), .rstd = unit_tensor(e, unit, part.rstd), .dy = dy,
                   .dx = want_input ? dx : absent,
                   .dweight = want_weight ? unit_gradient(e, unit, part.weight) : absent, .head_dim = s->head_dim,
                   .accumulate = unit_accumulates(unit, part.weight), .one_plus = s->norm_zero_centered);
    }
    if (want_input)
        copy_values(e, unit, d_fused, d_projected);
}
