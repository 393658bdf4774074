#include "model/block.h"
#include "model/norm.h"

#include <stdio.h>

static const struct tensor absent;

static const struct norm norm1 = {BLOCK_NORM1, BLOCK_NORM1_BIAS, BLOCK_RSTD1, BLOCK_MEAN1};
static const struct norm norm2 = {BLOCK_NORM2, BLOCK_NORM2_BIAS, BLOCK_RSTD2, BLOCK_MEAN2};

static struct linear linear_of(const struct unit *unit, enum block_weight weight)
{
    static const int sections[] = {BLOCK_QKV_OUT, BLOCK_MIDDLE, BLOCK_UP_OUT, UNIT_OUTPUT};
    return (struct linear){.weight = (int)weight,
                           .bias = unit_family(unit)->bias ? BLOCK_BIASES + (int)weight : -1,
                           .first = BLOCK_LINEARS + (int)weight * LINEAR_TENSORS,
                           .first_copy = (int)weight * LINEAR_COPIES,
                           .section = sections[weight],
                           .tokens = UNIT_TOKENS,
                           .makes_copies = unit->settings->precision.makes_copies,
                           .number = operand_number(unit->layer, (int)weight, OPERAND_INPUT),
                           .precision = precision_of(&unit->settings->precision, unit->layer, (int)weight),
                           .summed = weight == BLOCK_UP && unit_family(unit)->gelu,
                           .fused = {[OPERAND_INPUT] = weight == BLOCK_DOWN, [OPERAND_GRADIENT] = weight == BLOCK_UP}};
}

static const struct attention attention_ids = {BLOCK_QKV_OUT, BLOCK_ATTENTION, BLOCK_LSE, BLOCK_EXCHANGE};

/* Rotates queries and keys, or, inverse, their gradients. */
static void rotate(struct context *c, const struct unit *unit, struct tensor fused, bool inverse)
{
    const struct model_settings *s = unit->settings;
    LAUNCH(c->stream, ROPE, rope, .x = tensor_columns(&fused, 0, (s->heads + s->kv_heads) * s->head_dim),
           .positions = c->batch->positions, .table = c->rope_table, .head_dim = s->head_dim,
           .interleaved = unit_family(unit)->interleaved, .inverse = inverse);
}

static void attention_part(struct context *c, struct unit *unit, struct tensor input)
{
    struct linear qkv_linear = linear_of(unit, BLOCK_QKV), o_linear = linear_of(unit, BLOCK_O);
    struct operand normed = linear_input(c, unit, &qkv_linear, unit_tensor(c, unit, BLOCK_NORMED1));
    struct operand attention = linear_input(c, unit, &o_linear, unit_tensor(c, unit, BLOCK_ATTENTION));
    struct tensor fused = unit_tensor(c, unit, BLOCK_QKV_OUT);

    if (context_wants(c, BLOCK_NORMED1)) {
        norm_forward(c, unit, &norm1, input, normed.value);
        linear_prepare(c, unit, &qkv_linear, &normed);
    }
    if (context_wants(c, BLOCK_QKV_OUT)) {
        linear_forward(c, unit, &qkv_linear, &normed, fused, absent);
        rotate(c, unit, fused, false);
    }
    attention_forward(c, unit, &attention_ids);
    if (context_wants(c, BLOCK_LINEARS + BLOCK_O * LINEAR_TENSORS)) /* so that attention need not run again for them */
        linear_prepare(c, unit, &o_linear, &attention);
    if (context_wants(c, BLOCK_MIDDLE))
        linear_forward(c, unit, &o_linear, &attention, unit_tensor(c, unit, BLOCK_MIDDLE), input);
}

/* y: what `down` reads. */
static void activate(struct context *c, const struct unit *unit, const struct linear *down, struct tensor x,
                     const struct operand *y)
{
    const struct operand made = linear_made(c, unit, down, OPERAND_INPUT, y);
    if (unit_family(unit)->gelu)
        LAUNCH(c->stream, GELU_FORWARD, gelu_forward, .x = x, .y = made.value, .to = made.to,
               .tanh_form = unit->settings->tanh_gelu);
    else
        LAUNCH(c->stream, SWIGLU_FORWARD, swiglu_forward, .x = x, .y = made.value, .to = made.to);
}

/* x: what `up` made; dx: its gradient. */
static void activate_backward(struct context *c, const struct unit *unit, const struct linear *up, struct tensor x,
                              struct tensor dy, struct tensor dx)
{
    const struct operand gradient = linear_gradient(c, unit, up, dx);
    const struct operand made = linear_made(c, unit, up, OPERAND_GRADIENT, &gradient);
    if (unit_family(unit)->gelu)
        LAUNCH(c->stream, GELU_BACKWARD, gelu_backward, .x = x, .dy = dy, .dx = made.value, .to = made.to,
               .sum = linear_sum(c, unit, up), .tanh_form = unit->settings->tanh_gelu,
               .accumulate = unit_accumulates(unit, up->weight));
    else
        LAUNCH(c->stream, SWIGLU_BACKWARD, swiglu_backward, .x = x, .dy = dy, .dx = made.value, .to = made.to);
}

static void mlp_part(struct context *c, struct unit *unit)
{
    struct linear up_linear = linear_of(unit, BLOCK_UP), down_linear = linear_of(unit, BLOCK_DOWN);
    struct operand normed = linear_input(c, unit, &up_linear, unit_tensor(c, unit, BLOCK_NORMED2));
    struct operand activated = linear_input(c, unit, &down_linear, unit_tensor(c, unit, BLOCK_ACTIVATED));
    struct tensor middle = unit_tensor(c, unit, BLOCK_MIDDLE);
    struct tensor up_out = unit_tensor(c, unit, BLOCK_UP_OUT);

    if (context_wants(c, BLOCK_NORMED2)) {
        norm_forward(c, unit, &norm2, middle, normed.value);
        linear_prepare(c, unit, &up_linear, &normed);
    }
    if (context_wants(c, BLOCK_UP_OUT))
        linear_forward(c, unit, &up_linear, &normed, up_out, absent);
    if (context_wants(c, BLOCK_ACTIVATED)) {
        activate(c, unit, &down_linear, up_out, &activated);
        linear_prepare(c, unit, &down_linear, &activated);
    }
    if (context_wants(c, UNIT_OUTPUT))
        linear_forward(c, unit, &down_linear, &activated, unit_tensor(c, unit, UNIT_OUTPUT), middle);
}

static void block_forward(struct context *c, struct unit *unit, struct tensor input)
{
    attention_part(c, unit, input);
    mlp_part(c, unit);
}

static void mlp_backward(struct context *c, struct unit *unit, struct tensor dy, struct tensor d_middle)
{
    struct linear up_linear = linear_of(unit, BLOCK_UP), down_linear = linear_of(unit, BLOCK_DOWN);
    struct operand normed = linear_input(c, unit, &up_linear, unit_tensor(c, unit, BLOCK_NORMED2));
    struct operand activated = linear_input(c, unit, &down_linear, unit_tensor(c, unit, BLOCK_ACTIVATED));
    struct tensor d_activated = unit_tensor(c, unit, BLOCK_D_ACTIVATED);
    /* gelu's backward works in place; swiglu's result is twice as wide */
    struct tensor d_up = unit_family(unit)->gelu ? d_activated : unit_tensor(c, unit, BLOCK_D_UP);
    struct tensor d_normed = unit_tensor(c, unit, BLOCK_D_NORMED2);

    linear_backward(c, unit, &down_linear, &activated, dy, d_activated);
    if (c->gradients & GRADIENT_INPUT)
        activate_backward(c, unit, &up_linear, unit_tensor(c, unit, BLOCK_UP_OUT), d_activated, d_up);
    linear_backward(c, unit, &up_linear, &normed, d_up, d_normed);
    norm_backward(c, unit, &norm2, unit_tensor(c, unit, BLOCK_MIDDLE), d_normed, dy, d_middle);
}

static void attention_part_backward(struct context *c, struct unit *unit, struct tensor input, struct tensor d_middle)
{
    struct linear qkv_linear = linear_of(unit, BLOCK_QKV), o_linear = linear_of(unit, BLOCK_O);
    struct operand normed = linear_input(c, unit, &qkv_linear, unit_tensor(c, unit, BLOCK_NORMED1));
    struct operand attention = linear_input(c, unit, &o_linear, unit_tensor(c, unit, BLOCK_ATTENTION));
    struct tensor d_fused = unit_tensor(c, unit, BLOCK_D_QKV), d_attention = unit_tensor(c, unit, BLOCK_D_ATTENTION);
    struct tensor d_normed = unit_tensor(c, unit, BLOCK_D_NORMED1);

    linear_backward(c, unit, &o_linear, &attention, d_middle, d_attention);
    context_shares(c);
    if (c->gradients & GRADIENT_INPUT) {
        attention_backward(c, unit, &attention_ids, d_attention, d_fused);
        rotate(c, unit, d_fused, true);
    }
    linear_backward(c, unit, &qkv_linear, &normed, d_fused, d_normed);
    norm_backward(c, unit, &norm1, input, d_normed, d_middle, unit_tensor(c, unit, UNIT_INPUT_GRADIENT));
}

static void block_backward(struct context *c, struct unit *unit, struct tensor input, struct tensor dy)
{
    struct tensor d_middle = unit_tensor(c, unit, BLOCK_D_MIDDLE);
    mlp_backward(c, unit, dy, d_middle);
    attention_part_backward(c, unit, input, d_middle);
}

static void block_copy_weights(const struct context *c, struct unit *unit, bool all)
{
    for (int weight = BLOCK_QKV; weight <= BLOCK_DOWN; weight++) {
        struct linear linear = linear_of(unit, (enum block_weight)weight);
        linear_copy_weight(c, unit, &linear, all);
    }
}

static const struct unit_class block_class = {
    .name = "block", .forward = block_forward, .backward = block_backward, .copy_weights = block_copy_weights};

/* What one linear layer is made of: its parameters one below the other. */
struct part {
    const char *name; /* NULL: not in this family */
    int64_t rows;
    double init_std;
};

static void declare_linear(struct unit *unit, enum block_weight id, int64_t inputs, const struct part *parts, int count)
{
    const struct family *family = unit_family(unit);
    int64_t rows = 0;
    for (int i = 0; i < count; i++)
        rows += parts[i].name != NULL ? parts[i].rows : 0;
    unit_declare_weight(unit, (int)id, rows, inputs, STORAGE_MATRIX);
    if (family->bias)
        unit_declare_weight(unit, BLOCK_BIASES + (int)id, 1, rows, STORAGE_VECTOR);
    for (int i = 0; i < count; i++) {
        if (parts[i].name == NULL)
            continue;
        char layer[64];
        snprintf(layer, sizeof layer, family->names.layer, unit->layer);
        unit_declare_parameter(unit, (int)id, parts[i].rows, unit_random(unit, parts[i].init_std), "%s.%s.weight",
                               layer, parts[i].name);
        if (family->bias)
            unit_declare_parameter(unit, BLOCK_BIASES + (int)id, parts[i].rows, unit_constant(0), "%s.%s.bias", layer,
                                   parts[i].name);
    }
}

static void declare_norm(struct unit *unit, const struct norm *norm, const char *name)
{
    char layer[64], whole[96];
    snprintf(layer, sizeof layer, unit_family(unit)->names.layer, unit->layer);
    snprintf(whole, sizeof whole, "%s.%s", layer, name);
    norm_declare(unit, norm, whole);
}

static void declare_weights(struct unit *unit)
{
    const struct model_settings *s = unit->settings;
    const struct family *family = unit_family(unit);
    const struct family_names *names = &family->names;
    int64_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    int64_t up = !family->gelu && names->gate == NULL ? 2 * s->ffn : s->ffn;
    const struct part qkv[] = {{names->q, q, s->init_std}, {names->k, kv, s->init_std}, {names->v, kv, s->init_std}};
    const struct part o[] = {{names->o, s->hidden, s->output_std}};
    const struct part gate_up[] = {{names->gate, s->ffn, s->init_std}, {names->up, up, s->init_std}};
    const struct part down[] = {{names->down, s->hidden, s->output_std}};
    declare_linear(unit, BLOCK_QKV, s->hidden, qkv, 3);
    declare_linear(unit, BLOCK_O, q, o, 1);
    declare_linear(unit, BLOCK_UP, s->hidden, gate_up, 2);
    declare_linear(unit, BLOCK_DOWN, s->ffn, down, 1);
    declare_norm(unit, &norm1, names->norm1);
    declare_norm(unit, &norm2, names->norm2);
    unit->decay[STORAGE_MATRIX] = s->decay_matrices;
    unit->decay[STORAGE_VECTOR] = s->decay_vectors;
}

void block_declare(struct unit *unit)
{
    const struct model_settings *s = unit->settings;
    int64_t q = s->heads * s->head_dim, fused = q + 2 * s->kv_heads * s->head_dim;
    int64_t up = unit_family(unit)->gelu ? s->ffn : 2 * s->ffn;
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
        {BLOCK_QKV_OUT, "qkv", UNIT_TOKENS, fused, ROLE_VALUE},
        {BLOCK_ATTENTION, "attention", UNIT_TOKENS, q, ROLE_VALUE},
        {BLOCK_MIDDLE, "middle", UNIT_TOKENS, s->hidden, ROLE_VALUE},
        {BLOCK_NORMED2, "normed 2", UNIT_TOKENS, s->hidden, ROLE_VALUE},
        {BLOCK_UP_OUT, "up", UNIT_TOKENS, up, ROLE_VALUE},
        {BLOCK_ACTIVATED, "activated", UNIT_TOKENS, s->ffn, ROLE_VALUE},
        {BLOCK_D_ACTIVATED, "d activated", UNIT_TOKENS, s->ffn, ROLE_VALUE},
        {BLOCK_D_UP, "d up", UNIT_TOKENS, up, ROLE_VALUE},
        {BLOCK_D_NORMED2, "d normed 2", UNIT_TOKENS, s->hidden, ROLE_VALUE},
        {BLOCK_D_MIDDLE, "d middle", UNIT_TOKENS, s->hidden, ROLE_VALUE},
        {BLOCK_D_ATTENTION, "d attention", UNIT_TOKENS, q, ROLE_VALUE},
        {BLOCK_D_QKV, "d qkv", UNIT_TOKENS, fused, ROLE_VALUE},
        {BLOCK_D_NORMED1, "d normed 1", UNIT_TOKENS, s->hidden, ROLE_VALUE},
    };
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++)
        unit_declare_tensor(unit, tensors[i].id, tensors[i].name, tensors[i].rows, tensors[i].cols, tensors[i].role);
    attention_declare(unit, &attention_ids);
    for (int weight = BLOCK_QKV; weight <= BLOCK_DOWN; weight++) {
        struct linear linear = linear_of(unit, (enum block_weight)weight);
        linear_declare(unit, &linear);
    }
}

/* The copies of what a linear reads. */
static void drop_copies(struct id_set *set, enum block_weight reader)
{
    for (int copy = 0; copy < LINEAR_COPIES; copy++)
        id_set_add(set, BLOCK_LINEARS + (int)reader * LINEAR_TENSORS + copy);
}

struct id_set block_dropped_by(enum deck_recompute policy)
{
    struct id_set set = {{0}};
    if (policy >= DECK_RECOMPUTE_ACTIVATION) {
        id_set_add(&set, BLOCK_ACTIVATED);
        drop_copies(&set, BLOCK_DOWN);
    }
    if (policy >= DECK_RECOMPUTE_NORMS) {
        id_set_add(&set, BLOCK_NORMED1);
        id_set_add(&set, BLOCK_NORMED2);
        for (int reader = BLOCK_QKV; reader < BLOCK_DOWN; reader++)
            drop_copies(&set, (enum block_weight)reader);
    }
    if (policy >= DECK_RECOMPUTE_GATE_UP)
        id_set_add(&set, BLOCK_UP_OUT);
    if (policy >= DECK_RECOMPUTE_QKV)
        id_set_add(&set, BLOCK_QKV_OUT);
    if (policy >= DECK_RECOMPUTE_ATTENTION) {
        id_set_add(&set, BLOCK_ATTENTION);
        id_set_add(&set, BLOCK_LSE);
    }
    attention_drop(&set, &attention_ids, policy >= DECK_RECOMPUTE_QKV);
    if (policy >= DECK_RECOMPUTE_FULL)
        id_set_add(&set, BLOCK_MIDDLE);
    return set;
}
