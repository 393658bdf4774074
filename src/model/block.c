#include "model/block.h"

#include <math.h>
#include <stdio.h>

static const struct tensor absent;

static struct linear linear_of(const struct unit *unit, enum block_weight weight)
{
    const enum precision *table = unit->settings->precision;
    return (struct linear){(int)weight, BLOCK_LINEARS + (int)weight * LINEAR_TENSORS,
                           table ? table[unit->layer * LINEAR_COUNT + (int)weight] : PRECISION_COMPUTE};
}

/* Columns of the fused projection: query heads, key heads, value heads. */
struct qkv {
    struct tensor q, k, v, qk;
};

static struct qkv split_qkv(const struct unit *unit, struct tensor fused)
{
    const struct model_settings *s = unit->settings;
    int64_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    return (struct qkv){tensor_columns(&fused, 0, q), tensor_columns(&fused, q, kv), tensor_columns(&fused, q + kv, kv),
                        tensor_columns(&fused, 0, q + kv)};
}

/* Where attention finds keys and values, [rows, 2 * kv_heads * head_dim]: in the projection or, where a sequence goes
 * on, in the cache, which these tokens' join first. */
static struct tensor keys_and_values(struct context *c, const struct unit *unit, struct tensor fused)
{
    const struct model_settings *s = unit->settings;
    struct tensor own = tensor_columns(&fused, s->heads * s->head_dim, 2 * s->kv_heads * s->head_dim);
    if (c->pass != PASS_GENERATE)
        return own;
    const struct kv_cache *cache = &c->cache;
    struct tensor all = tensor_rows(&cache->rows, unit->layer * cache->positions, cache->filled + own.rows);
    LAUNCH(c->stream, COPY, copy, .from = own, .to = tensor_rows(&all, cache->filled, own.rows));
    return all;
}

static float softmax_scale(const struct unit *unit)
{
    return (float)(1.0 / sqrt((double)unit->settings->head_dim));
}

static void attention_part(struct context *c, struct unit *unit, struct tensor input)
{
    const struct model_settings *s = unit->settings;
    struct linear qkv_linear = linear_of(unit, BLOCK_QKV), o_linear = linear_of(unit, BLOCK_O);
    struct operand normed = linear_operand(c, unit, &qkv_linear, BLOCK_NORMED1);
    struct operand attention = linear_operand(c, unit, &o_linear, BLOCK_ATTENTION);
    struct tensor fused = unit_tensor(c, unit, BLOCK_QKV_OUT);
    struct qkv part = split_qkv(unit, fused);

    if (context_wants(c, BLOCK_NORMED1)) {
        LAUNCH(c->stream, RMSNORM_FORWARD, rmsnorm_forward, .x = input, .weight = unit_weight(c, unit, BLOCK_NORM1),
               .y = normed.value, .rstd = unit_tensor(c, unit, BLOCK_RSTD1), .eps = (float)s->norm_eps);
        linear_prepare(c, &qkv_linear, &normed);
    }
    if (context_wants(c, BLOCK_QKV_OUT)) {
        linear_forward(c, unit, &qkv_linear, &normed, fused, absent);
        LAUNCH(c->stream, ROPE, rope, .x = part.qk, .positions = c->batch->positions, .table = c->rope_table,
               .head_dim = s->head_dim);
    }
    if (context_wants(c, BLOCK_ATTENTION)) {
        struct tensor kv = keys_and_values(c, unit, fused);
        int64_t width = s->kv_heads * s->head_dim;
        LAUNCH(c->stream, ATTENTION_FORWARD, attention_forward, .q = part.q, .k = tensor_columns(&kv, 0, width),
               .v = tensor_columns(&kv, width, width), .o = attention.value, .lse = unit_tensor(c, unit, BLOCK_LSE),
               .segments = c->batch->segments, .heads = s->heads, .kv_heads = s->kv_heads, .head_dim = s->head_dim,
               .scale = softmax_scale(unit), .causal = true);
        linear_prepare(c, &o_linear, &attention);
    }
    if (context_wants(c, BLOCK_MIDDLE))
        linear_forward(c, unit, &o_linear, &attention, unit_tensor(c, unit, BLOCK_MIDDLE), input);
}

static void mlp_part(struct context *c, struct unit *unit)
{
    const struct model_settings *s = unit->settings;
    struct linear up_linear = linear_of(unit, BLOCK_GATE_UP), down_linear = linear_of(unit, BLOCK_DOWN);
    struct operand normed = linear_operand(c, unit, &up_linear, BLOCK_NORMED2);
    struct operand activated = linear_operand(c, unit, &down_linear, BLOCK_ACTIVATED);
    struct tensor middle = unit_tensor(c, unit, BLOCK_MIDDLE);
    struct tensor gate_up = unit_tensor(c, unit, BLOCK_GATE_UP_OUT);

    if (context_wants(c, BLOCK_NORMED2)) {
        LAUNCH(c->stream, RMSNORM_FORWARD, rmsnorm_forward, .x = middle, .weight = unit_weight(c, unit, BLOCK_NORM2),
               .y = normed.value, .rstd = unit_tensor(c, unit, BLOCK_RSTD2), .eps = (float)s->norm_eps);
        linear_prepare(c, &up_linear, &normed);
    }
    if (context_wants(c, BLOCK_GATE_UP_OUT))
        linear_forward(c, unit, &up_linear, &normed, gate_up, absent);
    if (context_wants(c, BLOCK_ACTIVATED)) {
        LAUNCH(c->stream, SWIGLU_FORWARD, swiglu_forward, .x = gate_up, .y = activated.value);
        linear_prepare(c, &down_linear, &activated);
    }
    if (context_wants(c, UNIT_OUTPUT))
        linear_forward(c, unit, &down_linear, &activated, unit_tensor(c, unit, UNIT_OUTPUT), middle);
}

static void block_forward(struct context *c, struct unit *unit, struct tensor input)
{
    attention_part(c, unit, input);
    mlp_part(c, unit);
}

/* The backward of `y = residual + f(rmsnorm(x))` at its norm: the gradient that by-passed the norm joins here. */
static void norm_backward(struct context *c, struct unit *unit, enum block_weight weight, struct tensor x, int rstd,
                          struct tensor dy, struct tensor residual, struct tensor dx)
{
    LAUNCH(c->stream, RMSNORM_BACKWARD, rmsnorm_backward, .x = x, .weight = unit_weight(c, unit, weight),
           .rstd = unit_tensor(c, unit, rstd), .dy = dy, .residual = c->gradients & GRADIENT_INPUT ? residual : absent,
           .dx = c->gradients & GRADIENT_INPUT ? dx : absent,
           .dweight = c->gradients & GRADIENT_WEIGHT ? unit_gradient(c, unit, weight) : absent,
           .accumulate = unit_accumulates(unit, weight));
}

static void mlp_backward(struct context *c, struct unit *unit, struct tensor dy, struct tensor d_middle)
{
    struct linear up_linear = linear_of(unit, BLOCK_GATE_UP), down_linear = linear_of(unit, BLOCK_DOWN);
    struct operand normed = linear_operand(c, unit, &up_linear, BLOCK_NORMED2);
    struct operand activated = linear_operand(c, unit, &down_linear, BLOCK_ACTIVATED);
    struct tensor d_activated = unit_tensor(c, unit, BLOCK_D_ACTIVATED);
    struct tensor d_gate_up = unit_tensor(c, unit, BLOCK_D_GATE_UP);
    struct tensor d_normed = unit_tensor(c, unit, BLOCK_D_NORMED2);

    linear_backward(c, unit, &down_linear, &activated, dy, d_activated);
    if (c->gradients & GRADIENT_INPUT)
        LAUNCH(c->stream, SWIGLU_BACKWARD, swiglu_backward, .x = unit_tensor(c, unit, BLOCK_GATE_UP_OUT),
               .dy = d_activated, .dx = d_gate_up);
    linear_backward(c, unit, &up_linear, &normed, d_gate_up, d_normed);
    norm_backward(c, unit, BLOCK_NORM2, unit_tensor(c, unit, BLOCK_MIDDLE), BLOCK_RSTD2, d_normed, dy, d_middle);
}

static void attention_part_backward(struct context *c, struct unit *unit, struct tensor input, struct tensor d_middle)
{
    const struct model_settings *s = unit->settings;
    struct linear qkv_linear = linear_of(unit, BLOCK_QKV), o_linear = linear_of(unit, BLOCK_O);
    struct operand normed = linear_operand(c, unit, &qkv_linear, BLOCK_NORMED1);
    struct operand attention = linear_operand(c, unit, &o_linear, BLOCK_ATTENTION);
    struct qkv part = split_qkv(unit, unit_tensor(c, unit, BLOCK_QKV_OUT));
    struct tensor d_fused = unit_tensor(c, unit, BLOCK_D_QKV);
    struct qkv d_part = split_qkv(unit, d_fused);
    struct tensor d_attention = unit_tensor(c, unit, BLOCK_D_ATTENTION);
    struct tensor d_normed = unit_tensor(c, unit, BLOCK_D_NORMED1);

    linear_backward(c, unit, &o_linear, &attention, d_middle, d_attention);
    if (c->gradients & GRADIENT_INPUT) {
        LAUNCH(c->stream, ATTENTION_BACKWARD, attention_backward, .q = part.q, .k = part.k, .v = part.v,
               .o = attention.value, .lse = unit_tensor(c, unit, BLOCK_LSE), .d_o = d_attention, .dq = d_part.q,
               .dk = d_part.k, .dv = d_part.v, .segments = c->batch->segments, .heads = s->heads,
               .kv_heads = s->kv_heads, .head_dim = s->head_dim, .scale = softmax_scale(unit), .causal = true);
        LAUNCH(c->stream, ROPE, rope, .x = d_part.qk, .positions = c->batch->positions, .table = c->rope_table,
               .head_dim = s->head_dim, .inverse = true);
    }
    linear_backward(c, unit, &qkv_linear, &normed, d_fused, d_normed);
    norm_backward(c, unit, BLOCK_NORM1, input, BLOCK_RSTD1, d_normed, d_middle,
                  unit_tensor(c, unit, UNIT_INPUT_GRADIENT));
}

static void block_backward(struct context *c, struct unit *unit, struct tensor input, struct tensor dy)
{
    struct tensor d_middle = unit_tensor(c, unit, BLOCK_D_MIDDLE);
    mlp_backward(c, unit, dy, d_middle);
    attention_part_backward(c, unit, input, d_middle);
}

static const struct unit_class block_class = {"block", block_forward, block_backward};

static void declare_parameter(struct unit *unit, enum block_weight weight, const char *suffix, int64_t rows,
                              double init_std, double init_value)
{
    char name[96];
    snprintf(name, sizeof name, "model.layers.%d.%s.weight", unit->layer, suffix);
    unit_declare_parameter(unit, (int)weight, name, rows, init_std, init_value);
}

static void declare_weights(struct unit *unit)
{
    const struct model_settings *s = unit->settings;
    int64_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    unit_declare_weight(unit, BLOCK_QKV, q + 2 * kv, s->hidden, STORAGE_MATRIX);
    declare_parameter(unit, BLOCK_QKV, "self_attn.q_proj", q, s->init_std, 0);
    declare_parameter(unit, BLOCK_QKV, "self_attn.k_proj", kv, s->init_std, 0);
    declare_parameter(unit, BLOCK_QKV, "self_attn.v_proj", kv, s->init_std, 0);
    unit_declare_weight(unit, BLOCK_O, s->hidden, q, STORAGE_MATRIX);
    declare_parameter(unit, BLOCK_O, "self_attn.o_proj", s->hidden, s->output_std, 0);
    unit_declare_weight(unit, BLOCK_GATE_UP, 2 * s->ffn, s->hidden, STORAGE_MATRIX);
    declare_parameter(unit, BLOCK_GATE_UP, "mlp.gate_proj", s->ffn, s->init_std, 0);
    declare_parameter(unit, BLOCK_GATE_UP, "mlp.up_proj", s->ffn, s->init_std, 0);
    unit_declare_weight(unit, BLOCK_DOWN, s->hidden, s->ffn, STORAGE_MATRIX);
    declare_parameter(unit, BLOCK_DOWN, "mlp.down_proj", s->hidden, s->output_std, 0);
    unit_declare_weight(unit, BLOCK_NORM1, 1, s->hidden, STORAGE_VECTOR);
    declare_parameter(unit, BLOCK_NORM1, "input_layernorm", 1, 0, 1);
    unit_declare_weight(unit, BLOCK_NORM2, 1, s->hidden, STORAGE_VECTOR);
    declare_parameter(unit, BLOCK_NORM2, "post_attention_layernorm", 1, 0, 1);
    unit->decay[STORAGE_MATRIX] = s->decay_matrices;
    unit->decay[STORAGE_VECTOR] = s->decay_vectors;
}

void block_declare(struct unit *unit)
{
    const struct model_settings *s = unit->settings;
    int64_t q = s->heads * s->head_dim, fused = q + 2 * s->kv_heads * s->head_dim;
    unit->class = &block_class;
    declare_weights(unit);
    const struct {
        int id;
        const char *name;
        int64_t rows, cols;
        enum role role;
    } tensors[] = {
        {UNIT_OUTPUT, "output", UNIT_TOKENS, s->hidden, ROLE_VALUE},
        {UNIT_INPUT_GRADIENT, "d input", UNIT_TOKENS, s->hidden, ROLE_VALUE},
        {BLOCK_NORMED1, "normed 1", UNIT_TOKENS, s->hidden, ROLE_VALUE},
        {BLOCK_RSTD1, "rstd 1", 1, UNIT_TOKENS, ROLE_STATISTIC},
        {BLOCK_QKV_OUT, "qkv", UNIT_TOKENS, fused, ROLE_VALUE},
        {BLOCK_ATTENTION, "attention", UNIT_TOKENS, q, ROLE_VALUE},
        {BLOCK_LSE, "lse", s->heads, UNIT_TOKENS, ROLE_STATISTIC},
        {BLOCK_MIDDLE, "middle", UNIT_TOKENS, s->hidden, ROLE_VALUE},
        {BLOCK_NORMED2, "normed 2", UNIT_TOKENS, s->hidden, ROLE_VALUE},
        {BLOCK_RSTD2, "rstd 2", 1, UNIT_TOKENS, ROLE_STATISTIC},
        {BLOCK_GATE_UP_OUT, "gate up", UNIT_TOKENS, 2 * s->ffn, ROLE_VALUE},
        {BLOCK_ACTIVATED, "activated", UNIT_TOKENS, s->ffn, ROLE_VALUE},
        {BLOCK_D_ACTIVATED, "d activated", UNIT_TOKENS, s->ffn, ROLE_VALUE},
        {BLOCK_D_GATE_UP, "d gate up", UNIT_TOKENS, 2 * s->ffn, ROLE_VALUE},
        {BLOCK_D_NORMED2, "d normed 2", UNIT_TOKENS, s->hidden, ROLE_VALUE},
        {BLOCK_D_MIDDLE, "d middle", UNIT_TOKENS, s->hidden, ROLE_VALUE},
        {BLOCK_D_ATTENTION, "d attention", UNIT_TOKENS, q, ROLE_VALUE},
        {BLOCK_D_QKV, "d qkv", UNIT_TOKENS, fused, ROLE_VALUE},
        {BLOCK_D_NORMED1, "d normed 1", UNIT_TOKENS, s->hidden, ROLE_VALUE},
    };
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++)
        unit_declare_tensor(unit, tensors[i].id, tensors[i].name, tensors[i].rows, tensors[i].cols, tensors[i].role);
    for (int weight = BLOCK_QKV; weight <= BLOCK_DOWN; weight++) {
        struct linear linear = linear_of(unit, (enum block_weight)weight);
        linear_declare(unit, &linear);
    }
}
