#include "model/block.h"
#include "model/head_norm.h"
#include "model/norm.h"
#include "model/sequence.h"

#include <math.h>
#include <stdio.h>

static const struct tensor absent;

static const struct norm block_norm1 = {BLOCK_NORM1, BLOCK_NORM1_BIAS, BLOCK_RSTD1, BLOCK_MEAN1, true, NORM_BLOCK};
static const struct norm block_norm2 = {BLOCK_NORM2, BLOCK_NORM2_BIAS, BLOCK_RSTD2, BLOCK_MEAN2, true, NORM_BLOCK};

static const struct expert_ids block_experts = {BLOCK_ROUTER, BLOCK_UP, BLOCK_DOWN, BLOCK_EXPERTS};

static const struct head_norm block_head_norm = {BLOCK_Q_NORM, BLOCK_K_NORM, BLOCK_Q_RSTD,   BLOCK_K_RSTD,
                                                 BLOCK_Q_MEAN, BLOCK_K_MEAN, BLOCK_GATHERING};

static bool block_is_post_norm(const struct unit *unit)
{
    return unit_family(unit)->post_norm;
}

/* Returns whether the norms' backwards also sum the gradients that they write. These are output gradients of linears
 * in a pre-norm block, so the sums are bias gradients. With sequence parallelism they would cover only a part of the
 * tokens. */
static bool block_norms_sum(const struct unit *unit)
{
    return unit_family(unit)->bias[LINEAR_O] && unit_family(unit)->layer_norm && !block_is_post_norm(unit) &&
           !sequence_parallel(unit);
}

/* Returns this rank's outputs of a target; 0: the family does not have it. */
static int64_t target_outputs(const struct unit *unit, enum lora_target target)
{
    const struct model_settings *s = unit->settings;
    const struct family *family = unit_family(unit);
    const int64_t up = !family->gelu && family->names.gate == NULL ? 2 * model_ffn(s) : model_ffn(s);
    const int64_t outputs[LORA_TARGETS] = {[LORA_Q] = model_heads(s) * s->head_dim,
                                           [LORA_K] = model_kv_heads(s) * s->head_dim,
                                           [LORA_V] = model_kv_heads(s) * s->head_dim,
                                           [LORA_O] = s->hidden,
                                           [LORA_GATE] = up,
                                           [LORA_UP] = up,
                                           [LORA_DOWN] = s->hidden};
    return lora_module(family, target) != NULL ? outputs[target] : 0;
}

/* Returns the ids of the weights A, and B (+ 1), of a linear's adapters. */
static int adapters_of(enum block_weight weight)
{
    return BLOCK_ADAPTERS + 2 * (int)weight;
}

/* Returns the adapters of a linear. Its outputs are those of its targets, one after the other. */
static struct linear_adapter adapter_of(const struct unit *unit, enum block_weight weight, enum linear_split split)
{
    static const enum lora_target first[] = {LORA_Q, LORA_O, LORA_GATE, LORA_DOWN, LORA_TARGETS};
    const struct model_settings *s = unit->settings;
    const int first_tensor = BLOCK_LINEARS + (int)weight * LINEAR_TENSORS;
    struct linear_adapter adapter = {.a = adapters_of(weight),
                                     .b = adapters_of(weight) + 1,
                                     .adapted = first_tensor + LINEAR_ADAPTED,
                                     .gradient = first_tensor + LINEAR_ADAPTED_GRADIENT,
                                     .dropped = first_tensor + LINEAR_DROPPED,
                                     .salt = (uint32_t)operand_number(unit->layer, (int)weight, OPERAND_INPUT),
                                     .splits_inputs = split == LINEAR_ROW_PARALLEL};
    int64_t outputs = 0;
    for (int t = (int)first[weight]; t < (int)first[weight + 1] && s->lora.rank > 0; t++) {
        const int64_t rows = target_outputs(unit, (enum lora_target)t);
        if (s->lora.targets[t]) {
            adapter.parts[adapter.count].first = outputs;
            adapter.parts[adapter.count++].rows = rows;
        }
        outputs += rows;
    }
    return adapter;
}

static struct linear block_linear(const struct unit *unit, enum block_weight weight)
{
    const bool post = block_is_post_norm(unit);
    const int sections[] = {head_norm_present(unit) ? BLOCK_PROJECTED : BLOCK_QKV_OUT,
                            post ? BLOCK_O_OUT : BLOCK_MIDDLE, BLOCK_UP_OUT, post ? BLOCK_DOWN_OUT : UNIT_OUTPUT};
    static const enum linear_split splits[] = {LINEAR_COLUMN_PARALLEL, LINEAR_ROW_PARALLEL, LINEAR_COLUMN_PARALLEL,
                                               LINEAR_ROW_PARALLEL};
    const bool bias = model_has_bias(unit->settings, (int)weight), gelu = unit_family(unit)->gelu;
    const bool unsummed = bias && !gelu; /* SwiGLU's backward does not sum its result: a separate quantization does */
    return (struct linear){
        .weight = (int)weight,
        .bias = bias ? BLOCK_BIASES + (int)weight : -1,
        .first = BLOCK_LINEARS + (int)weight * LINEAR_TENSORS,
        .first_quantized = (int)weight * LINEAR_QUANTIZED,
        .split = splits[weight],
        .section = sections[weight],
        .tokens = UNIT_TOKENS,
        .quantizes_per_gemm = unit->settings->precision.quantizes_per_gemm,
        .number = operand_number(unit->layer, (int)weight, OPERAND_INPUT),
        .precision = precision_of(&unit->settings->precision, unit->layer, (int)weight),
        .summed = (weight == BLOCK_UP && gelu) || (weight == BLOCK_O && block_norms_sum(unit)),
        .fused = {[OPERAND_INPUT] = weight == BLOCK_DOWN, [OPERAND_GRADIENT] = weight == BLOCK_UP && !unsummed},
        .adapter = adapter_of(unit, weight, splits[weight]),
        .frozen = unit->frozen,
        .remade = weight == BLOCK_DOWN};
}

static const struct attention block_attention = {BLOCK_QKV_OUT, BLOCK_ATTENTION, BLOCK_LSE, BLOCK_EXCHANGE};

/* -- Norms and the residual stream -------------------------------------------------------------------------------- */

/* Returns the input of attention's or the MLP's first linear: x, the residual stream, or in a pre-norm block its norm,
 * the unit's tensor `id`. */
static struct tensor block_input(const struct execution *e, const struct unit *unit, int id, struct tensor x)
{
    return block_is_post_norm(unit) ? x : unit_tensor(e, unit, id);
}

/* Makes the input of linear `reader` (block_input). */
static struct operand make_input(struct execution *e, struct unit *unit, const struct norm *norm, int id,
                                 struct tensor x, const struct linear *reader)
{
    const struct tensor y = block_input(e, unit, id, x);
    const struct operand input = linear_input(e, unit, reader, y);
    const bool gathers = linear_gathers(unit, reader), post = block_is_post_norm(unit);
    if (!post && execution_wants(e, id)) {
        norm_forward(e, unit, norm, x, y);
        if (!gathers)
            linear_prepare(e, unit, reader, &input);
    }
    if ((gathers || post) && execution_wants(e, reader->first + (gathers ? LINEAR_GATHERED : LINEAR_ROW)))
        linear_prepare(e, unit, reader, &input);
    return input;
}

/* Post-norm: makes sum = stream + norm(output), the unit's tensor `id`. */
static void add_normed(struct execution *e, const struct unit *unit, const struct norm *norm, struct tensor output,
                       struct tensor stream, int id)
{
    const struct tensor sum = unit_tensor(e, unit, id);
    if (!execution_wants(e, id))
        return;
    norm_forward(e, unit, norm, output, sum);
    LAUNCH(e->stream, ADD, add, .from = stream, .to = sum);
}

/* Makes the unit's tensor `id`: the residual stream plus the output of attention's or the MLP's last linear. */
static void add_output(struct execution *e, const struct unit *unit, const struct linear *linear,
                       const struct operand *x, const struct norm *norm, struct tensor stream, int id)
{
    const bool post = block_is_post_norm(unit);
    const struct tensor output = unit_tensor(e, unit, linear->section);
    if (execution_wants(e, linear->section))
        linear_forward(e, unit, linear, x, output, post ? absent : stream);
    if (post)
        add_normed(e, unit, norm, output, stream, id);
}

/* Post-norm: returns the gradient of the norm's input `output`, the unit's tensor `id`, from dy, that of its output. */
static struct tensor output_gradient(const struct execution *e, const struct unit *unit, const struct norm *norm,
                                     struct tensor output, struct tensor dy, int id)
{
    const struct tensor dx = unit_tensor(e, unit, id);
    norm_backward(e, unit, norm, &(struct norm_gradients){.x = output, .dy = dy, .dx = dx});
    return dx;
}

/* Post-norm: adds dy, the gradient that passes the residual connection, to dx. */
static void add_gradient(const struct execution *e, struct tensor dy, struct tensor dx)
{
    if (e->gradients & GRADIENT_INPUT)
        LAUNCH(e->stream, ADD, add, .from = dy, .to = dx);
}

/* -- Attention ---------------------------------------------------------------------------------------------------- */

static void attention_part(struct execution *e, struct unit *unit, struct tensor input)
{
    struct linear qkv_linear = block_linear(unit, BLOCK_QKV), o_linear = block_linear(unit, BLOCK_O);
    struct operand normed = make_input(e, unit, &block_norm1, BLOCK_NORMED1, input, &qkv_linear);
    struct operand attention = linear_input(e, unit, &o_linear, unit_tensor(e, unit, BLOCK_ATTENTION));
    const bool norms = head_norm_present(unit);
    struct tensor fused = unit_tensor(e, unit, BLOCK_QKV_OUT);
    struct tensor projected = norms ? unit_tensor(e, unit, BLOCK_PROJECTED) : fused;

    if (execution_wants(e, qkv_linear.section))
        linear_forward(e, unit, &qkv_linear, &normed, projected, absent);
    if (execution_wants(e, BLOCK_QKV_OUT)) {
        if (norms)
            head_norm_forward(e, unit, &block_head_norm, projected, fused);
        attention_rotate(e, unit, fused, false);
    }
    attention_forward(e, unit, &block_attention);
    if (execution_wants(e, BLOCK_LINEARS + BLOCK_O * LINEAR_TENSORS)) /* so that attention is not recomputed for them */
        linear_prepare(e, unit, &o_linear, &attention);
    add_output(e, unit, &o_linear, &attention, &block_norm1, input, BLOCK_MIDDLE);
}

/* -- The MLP's activation ----------------------------------------------------------------------------------------- */

/* y: the input of `down`. */
static void block_activate(struct execution *e, const struct unit *unit, const struct linear *down, struct tensor x,
                           const struct operand *y)
{
    const struct operand made = linear_made(e, unit, down, OPERAND_INPUT, y);
    if (unit_family(unit)->gelu)
        LAUNCH(e->stream, GELU_FORWARD, gelu_forward, .x = x, .y = made.value, .to = made.to,
               .tanh_form = unit->settings->tanh_gelu);
    else
        LAUNCH(e->stream, SWIGLU_FORWARD, swiglu_forward, .x = x, .y = made.value, .to = made.to);
}

/* x: the output of `up`; dx: its gradient. remade: the recomputed input of `down`. */
static void block_activate_backward(struct execution *e, const struct unit *unit, const struct linear *up,
                                    struct tensor x, struct tensor dy, struct tensor dx,
                                    struct quantized_operands remade)
{
    const struct operand gradient = linear_gradient(e, unit, up, dx);
    const struct operand made = linear_made(e, unit, up, OPERAND_GRADIENT, &gradient);
    if (unit_family(unit)->gelu)
        LAUNCH(e->stream, GELU_BACKWARD, gelu_backward, .x = x, .dy = dy, .dx = made.value, .to = made.to,
               .y_to = remade, .sum = linear_sum(e, unit, up), .tanh_form = unit->settings->tanh_gelu,
               .accumulate = linear_accumulates(unit, up));
    else
        LAUNCH(e->stream, SWIGLU_BACKWARD, swiglu_backward, .x = x, .dy = dy, .dx = made.value, .to = made.to,
               .y_to = remade);
}

/* -- The MLP in slices of tokens ---------------------------------------------------------------------------------- */

/* The rows of a slice, whose tensors up_out, activated and their gradients have memory of their own. */
struct mlp_slice {
    struct linear up, down;
    struct operand normed, activated;
    struct tensor up_out, d_activated, d_up;
    int64_t first, count;
};

static struct mlp_slice slice_at(const struct execution *e, const struct unit *unit, int64_t first)
{
    const struct tensor normed = block_input(e, unit, BLOCK_NORMED2, unit_tensor(e, unit, BLOCK_MIDDLE));
    const int64_t count = MIN(normed.rows - first, unit->settings->mlp_tokens);
    struct mlp_slice slice = {.up = block_linear(unit, BLOCK_UP),
                              .down = block_linear(unit, BLOCK_DOWN),
                              .normed.value = tensor_rows(&normed, first, count),
                              .activated.value = unit_first_rows(e, unit, BLOCK_ACTIVATED, count),
                              .up_out = unit_first_rows(e, unit, BLOCK_UP_OUT, count),
                              .first = first,
                              .count = count};
    slice.up.adds = slice.down.adds = first > 0;
    slice.up.adapter.first_token = slice.down.adapter.first_token = first;
    return slice;
}

static void activate_slice(struct execution *e, const struct unit *unit, const struct mlp_slice *slice)
{
    linear_forward(e, unit, &slice->up, &slice->normed, slice->up_out, absent);
    block_activate(e, unit, &slice->down, slice->up_out, &slice->activated);
}

/* addend: absent, or added to the output. */
static void block_sliced_forward(struct execution *e, const struct unit *unit, struct tensor addend,
                                 struct tensor output)
{
    for (int64_t first = 0; first < output.rows; first += unit->settings->mlp_tokens) {
        const struct mlp_slice slice = slice_at(e, unit, first);
        activate_slice(e, unit, &slice);
        linear_forward(e, unit, &slice.down, &slice.activated, tensor_rows(&output, first, slice.count),
                       tensor_present(&addend) ? tensor_rows(&addend, first, slice.count) : absent);
    }
}

/* Computes the activations of each slice again. Both halves of a split backward need the gradient of `activated`. */
static void block_sliced_backward(struct execution *e, const struct unit *unit, struct tensor dy,
                                  struct tensor d_normed)
{
    struct execution down = *e;
    down.gradients |= GRADIENT_INPUT;
    for (int64_t first = 0; first < dy.rows; first += unit->settings->mlp_tokens) {
        struct mlp_slice slice = slice_at(e, unit, first);
        slice.d_activated = unit_first_rows(e, unit, BLOCK_D_ACTIVATED, slice.count);
        slice.d_up = unit_family(unit)->gelu ? slice.d_activated : unit_first_rows(e, unit, BLOCK_D_UP, slice.count);
        slice.down.summed = tensor_present(&e->output_gradient_sum) && e->gradients == GRADIENT_BOTH;
        activate_slice(e, unit, &slice);
        adapter_project(e, unit, &slice.down.adapter, slice.activated.value);
        linear_backward(&down, unit, &slice.down, &slice.activated, tensor_rows(&dy, first, slice.count),
                        slice.d_activated, NULL, NULL);
        block_activate_backward(e, unit, &slice.up, slice.up_out, slice.d_activated, slice.d_up,
                                (struct quantized_operands){0});
        linear_backward(e, unit, &slice.up, &slice.normed, slice.d_up, tensor_rows(&d_normed, first, slice.count), NULL,
                        NULL);
    }
}

/* -- The MLP ------------------------------------------------------------------------------------------------------ */

static void experts_part(struct execution *e, const struct unit *unit)
{
    const struct tensor middle = unit_tensor(e, unit, BLOCK_MIDDLE), normed = unit_tensor(e, unit, BLOCK_NORMED2);
    if (execution_wants(e, BLOCK_NORMED2))
        norm_forward(e, unit, &block_norm2, middle, normed);
    experts_forward(e, unit, &block_experts, normed, middle, unit_tensor(e, unit, UNIT_OUTPUT));
}

static void mlp_part(struct execution *e, struct unit *unit)
{
    struct linear up_linear = block_linear(unit, BLOCK_UP), down_linear = block_linear(unit, BLOCK_DOWN);
    struct tensor middle = unit_tensor(e, unit, BLOCK_MIDDLE);
    struct operand normed = make_input(e, unit, &block_norm2, BLOCK_NORMED2, middle, &up_linear);
    if (block_is_sliced(unit)) {
        const bool post = block_is_post_norm(unit);
        const struct tensor output = unit_tensor(e, unit, down_linear.section);
        if (execution_wants(e, down_linear.section))
            block_sliced_forward(e, unit, post ? absent : middle, output);
        if (post)
            add_normed(e, unit, &block_norm2, output, middle, UNIT_OUTPUT);
        return;
    }
    struct operand activated = linear_input(e, unit, &down_linear, unit_tensor(e, unit, BLOCK_ACTIVATED));
    struct tensor up_out = unit_tensor(e, unit, BLOCK_UP_OUT);

    if (execution_wants(e, BLOCK_UP_OUT))
        linear_forward(e, unit, &up_linear, &normed, up_out, absent);
    if (execution_wants(e, BLOCK_ACTIVATED)) {
        block_activate(e, unit, &down_linear, up_out, &activated);
        linear_prepare(e, unit, &down_linear, &activated);
    }
    add_output(e, unit, &down_linear, &activated, &block_norm2, middle, UNIT_OUTPUT);
}

static void block_forward(struct execution *e, struct unit *unit, struct tensor input)
{
    attention_part(e, unit, input);
    if (experts_present(unit))
        experts_part(e, unit);
    else
        mlp_part(e, unit);
}

/* Copies or adds `sum`, the sum of dy over tokens, to the bias gradient, unless linear_backward computes it. */
static void take_sum(struct execution *e, const struct unit *unit, const struct linear *linear, struct tensor sum)
{
    const struct tensor gradient = linear_sum(e, unit, linear);
    if (!tensor_present(&gradient))
        return;
    if (unit_accumulates(unit, linear->weight))
        LAUNCH(e->stream, ADD, add, .from = sum, .to = gradient);
    else
        LAUNCH(e->stream, COPY, copy, .from = sum, .to = gradient);
}

/* d_normed: the gradient of the input of `up`. */
static void mlp_backward(struct execution *e, struct unit *unit, struct tensor dy, struct tensor d_normed,
                         struct linear_pending *pending)
{
    struct linear up_linear = block_linear(unit, BLOCK_UP), down_linear = block_linear(unit, BLOCK_DOWN);
    const struct tensor input = block_input(e, unit, BLOCK_NORMED2, unit_tensor(e, unit, BLOCK_MIDDLE));
    struct operand normed = linear_input(e, unit, &up_linear, input);
    struct operand activated = linear_input(e, unit, &down_linear, unit_tensor(e, unit, BLOCK_ACTIVATED));
    struct tensor d_activated = unit_tensor(e, unit, BLOCK_D_ACTIVATED);
    /* GELU's backward works in place; the gradient of SwiGLU's input is twice as wide */
    struct tensor d_up = unit_family(unit)->gelu ? d_activated : unit_tensor(e, unit, BLOCK_D_UP);

    down_linear.summed = tensor_present(&e->output_gradient_sum);
    linear_backward(e, unit, &down_linear, &activated, dy, d_activated, &(struct linear_next){&up_linear, &normed},
                    pending);
    if (e->gradients & GRADIENT_INPUT)
        block_activate_backward(e, unit, &up_linear, unit_tensor(e, unit, BLOCK_UP_OUT), d_activated, d_up,
                                linear_remade(e, &down_linear, &activated));
    if (!sequence_parallel(unit))
        linear_finish(e, unit, pending);
    linear_backward(e, unit, &up_linear, &normed, d_up, d_normed, NULL, pending);
}

static void mlp_part_backward(struct execution *e, struct unit *unit, struct tensor dy, struct tensor d_middle,
                              struct linear_pending *pending)
{
    struct linear down_linear = block_linear(unit, BLOCK_DOWN);
    const struct linear o_linear = block_linear(unit, BLOCK_O);
    const bool post = block_is_post_norm(unit);
    struct tensor d_normed = post ? d_middle : unit_tensor(e, unit, BLOCK_D_NORMED2), d_output = dy;

    if (post)
        d_output = output_gradient(e, unit, &block_norm2, unit_tensor(e, unit, BLOCK_DOWN_OUT), dy, BLOCK_D_DOWN_OUT);
    down_linear.summed = tensor_present(&e->output_gradient_sum);
    take_sum(e, unit, &down_linear, e->output_gradient_sum);
    if (experts_present(unit))
        experts_backward(e, unit, &block_experts, unit_tensor(e, unit, BLOCK_NORMED2), dy, d_normed);
    else if (block_is_sliced(unit))
        block_sliced_backward(e, unit, d_output, d_normed);
    else
        mlp_backward(e, unit, d_output, d_normed, pending);
    if (post) {
        add_gradient(e, dy, d_middle);
        return;
    }
    norm_backward(e, unit, &block_norm2,
                  &(struct norm_gradients){.x = unit_tensor(e, unit, BLOCK_MIDDLE),
                                           .dy = d_normed,
                                           .residual = dy,
                                           .dx = d_middle,
                                           .sum = linear_sum(e, unit, &o_linear),
                                           .accumulate_sum = unit_accumulates(unit, BLOCK_O)});
}

static void attention_part_backward(struct execution *e, struct unit *unit, struct tensor input, struct tensor d_middle,
                                    struct linear_pending *pending)
{
    struct linear qkv_linear = block_linear(unit, BLOCK_QKV), o_linear = block_linear(unit, BLOCK_O);
    struct operand normed = linear_input(e, unit, &qkv_linear, block_input(e, unit, BLOCK_NORMED1, input));
    struct operand attention = linear_input(e, unit, &o_linear, unit_tensor(e, unit, BLOCK_ATTENTION));
    const bool norms = head_norm_present(unit), post = block_is_post_norm(unit);
    struct tensor d_projected = unit_tensor(e, unit, BLOCK_D_QKV);
    struct tensor d_fused = norms ? unit_tensor(e, unit, BLOCK_D_HEADS) : d_projected;
    struct tensor d_attention = unit_tensor(e, unit, BLOCK_D_ATTENTION);
    struct tensor d_normed = unit_tensor(e, unit, post ? UNIT_INPUT_GRADIENT : BLOCK_D_NORMED1), d_output = d_middle;

    if (post)
        d_output = output_gradient(e, unit, &block_norm1, unit_tensor(e, unit, BLOCK_O_OUT), d_middle, BLOCK_D_O_OUT);
    linear_backward(e, unit, &o_linear, &attention, d_output, d_attention, &(struct linear_next){&qkv_linear, &normed},
                    pending);
    execution_start_transfers(e);
    if (e->gradients & GRADIENT_INPUT)
        attention_backward(e, unit, &block_attention, d_attention, d_fused);
    if (norms)
        head_norm_backward(e, unit, &block_head_norm, unit_tensor(e, unit, BLOCK_PROJECTED), d_fused, d_projected);
    qkv_linear.ends_backward = unit->ends_backward && (unit->frozen || post);
    linear_backward(e, unit, &qkv_linear, &normed, d_projected, d_normed, NULL, pending);
    if (qkv_linear.ends_backward)
        return;
    if (post) {
        add_gradient(e, d_middle, d_normed);
        return;
    }
    norm_backward(e, unit, &block_norm1,
                  &(struct norm_gradients){.x = input,
                                           .dy = d_normed,
                                           .residual = d_middle,
                                           .dx = unit_tensor(e, unit, UNIT_INPUT_GRADIENT),
                                           .sum = unit_sum_input_gradient(e, unit)});
}

static void block_backward(struct execution *e, struct unit *unit, struct tensor input, struct tensor dy)
{
    struct tensor d_middle = unit_tensor(e, unit, BLOCK_D_MIDDLE);
    struct linear_pending pending = {0};
    mlp_part_backward(e, unit, dy, d_middle, &pending);
    attention_part_backward(e, unit, input, d_middle, &pending);
    linear_finish(e, unit, &pending);
}

/* Returns the number of the block's linear layers; with experts those of attention alone. */
static int block_linear_count(const struct unit *unit)
{
    return experts_present(unit) ? LINEAR_UP : LINEAR_COUNT;
}

static void block_quantize_weights(const struct execution *e, struct unit *unit, bool all)
{
    for (int weight = 0; weight < block_linear_count(unit); weight++) {
        struct linear linear = block_linear(unit, (enum block_weight)weight);
        linear_quantize_weight(e, unit, &linear, all);
    }
}

static const struct unit_class block_class = {
    .name = "block", .forward = block_forward, .backward = block_backward, .quantize_weights = block_quantize_weights};

bool block_is_sliced(const struct unit *unit)
{
    const int64_t tokens = unit->settings->mlp_tokens;
    return unit->class == &block_class && !experts_present(unit) && tokens > 0 && tokens < unit->tokens;
}

/* A parameter of a linear layer's weight. */
struct linear_part {
    enum lora_target target;
    const char *name; /* NULL: not in this family */
    int64_t rows;     /* number of rows in the global tensor */
    double init_std;
    int64_t grains; /* number of heads or rows, which are not split; with more ranks than grains, ranks share grains */
    int pieces;     /* equal pieces, one below the other; a rank has a part of each */
};

/* The share of a tensor rank in a parameter. */
struct share {
    int64_t first, rows; /* first row in the first piece; number of rows in each piece */
    int replicas;        /* number of ranks with the same share */
};

static struct share share_of(const struct unit *unit, const struct linear_part *part, enum linear_split split)
{
    const struct tensor_parallel *tensor = &unit->settings->tensor;
    const int64_t ranks = tensor_ranks(tensor), piece = part->rows / part->pieces;
    const int64_t replicas = part->grains < ranks ? ranks / part->grains : 1, rows = piece * replicas / ranks;
    return split == LINEAR_COLUMN_PARALLEL ? (struct share){tensor->rank / replicas * rows, rows, (int)replicas}
                                           : (struct share){0, piece, 1};
}

static struct parameter *declare_rows(struct unit *unit, int id, const struct linear_part *part,
                                      const struct share *share, struct initial_value initial, const char *what)
{
    char layer[64];
    snprintf(layer, sizeof layer, unit_family(unit)->names.layer, unit->layer);
    struct parameter *p =
        unit_declare_parameter(unit, id, part->pieces * share->rows, initial, "%s.%s.%s", layer, part->name, what);
    p->owner = unit->settings->tensor.rank % share->replicas;
    p->owners = share->replicas;
    p->partial = share->replicas > 1;
    return p;
}

/* Declares a matrix that has the outputs of `part` as rows. first: first column. */
static struct parameter *declare_matrix(struct unit *unit, int id, int64_t inputs, int64_t first,
                                        const struct linear_part *part, const struct share *share,
                                        struct initial_value initial, const char *what)
{
    struct parameter *p = declare_rows(unit, id, part, share, initial, what);
    if (share->rows < part->rows / part->pieces) {
        p->height = share->rows;
        p->apart = part->rows / part->pieces;
    }
    parameter_place(p, part->rows, inputs, share->first, first);
    return p;
}

static void declare_bias(struct unit *unit, int id, const struct linear_part *part, const struct share *share,
                         enum linear_split split)
{
    struct parameter *p = declare_rows(unit, id, part, share, unit_constant(0), "bias");
    parameter_place(p, 1, part->rows, 0, share->first);
    if (part->pieces > 1)
        error_fatal("bug: %s is a vector of several pieces", p->name);
    if (split == LINEAR_ROW_PARALLEL)
        parameter_share(p, &unit->settings->tensor, false);
}

static bool is_target(const struct unit *unit, const struct linear_part *part)
{
    return part->name != NULL && unit->settings->lora.targets[part->target];
}

/* Declares A [r, inputs] of a target; initial values are peft's: uniform with bound 1 / sqrt(inputs). */
static void declare_a(struct unit *adapters, int id, int64_t inputs, const struct linear_part *part,
                      enum linear_split split)
{
    const struct tensor_parallel *tensor = &adapters->settings->tensor;
    const struct linear_part a = {.name = part->name, .pieces = 1};
    const struct share whole = {0, adapters->settings->lora.rank, 1};
    const struct initial_value initial = {INIT_UNIFORM, 1 / sqrt((double)inputs), -1};
    struct parameter *p = declare_rows(adapters, id, &a, &whole, initial, "lora_A.weight");
    parameter_place(p, whole.rows, inputs, 0, split == LINEAR_ROW_PARALLEL ? tensor->rank * p->part.cols : 0);
    if (split != LINEAR_ROW_PARALLEL)
        parameter_share(p, tensor, true);
}

/* Declares B [outputs, r] of a target; its initial values are 0. */
static void declare_b(struct unit *adapters, int id, const struct linear_part *part, enum linear_split split)
{
    const struct share share = share_of(adapters, part, split);
    struct parameter *p =
        declare_matrix(adapters, id, adapters->settings->lora.rank, 0, part, &share, unit_constant(0), "lora_B.weight");
    if (split == LINEAR_ROW_PARALLEL)
        parameter_share(p, &adapters->settings->tensor, true);
}

/* Declares the adapters of a linear's parameters that are targets, and lends them to the block. */
static void declare_adapters(struct unit *unit, struct unit *adapters, enum block_weight id, int64_t inputs,
                             const struct linear_part *parts, int count)
{
    const struct linear linear = block_linear(unit, id);
    const int64_t rank = unit->settings->lora.rank, own_inputs = unit->weights[id].cols;
    const int a = 2 * (int)id, b = a + 1;
    int64_t outputs = 0;
    if (linear.adapter.count == 0)
        return;
    for (int p = 0; p < linear.adapter.count; p++)
        outputs += linear.adapter.parts[p].rows;
    unit_declare_weight(adapters, a, linear.adapter.count * rank, own_inputs, STORAGE_MATRIX);
    for (int i = 0; i < count; i++)
        if (is_target(unit, &parts[i]))
            declare_a(adapters, a, inputs, &parts[i], linear.split);
    unit_declare_weight(adapters, b, outputs, rank, STORAGE_MATRIX);
    for (int i = 0; i < count; i++)
        if (is_target(unit, &parts[i]))
            declare_b(adapters, b, &parts[i], linear.split);
    unit_share_weight(unit, linear.adapter.a, adapters, a);
    unit_share_weight(unit, linear.adapter.b, adapters, b);
}

/* inputs: columns of the global tensor. */
static void declare_linear(struct unit *unit, enum block_weight id, int64_t inputs, const struct linear_part *parts,
                           int count)
{
    const bool bias = model_has_bias(unit->settings, (int)id);
    const enum linear_split split = block_linear(unit, id).split;
    const int64_t own_inputs = split == LINEAR_ROW_PARALLEL ? inputs / tensor_ranks(&unit->settings->tensor) : inputs;
    int64_t rows = 0;
    for (int i = 0; i < count; i++)
        rows += parts[i].name != NULL ? parts[i].pieces * share_of(unit, &parts[i], split).rows : 0;
    unit_declare_weight(unit, (int)id, rows, own_inputs, STORAGE_MATRIX);
    if (bias)
        unit_declare_weight(unit, BLOCK_BIASES + (int)id, 1, rows, STORAGE_VECTOR);
    for (int i = 0; i < count; i++) {
        if (parts[i].name == NULL)
            continue;
        const struct share share = share_of(unit, &parts[i], split);
        declare_matrix(unit, (int)id, inputs,
                       split == LINEAR_ROW_PARALLEL ? unit->settings->tensor.rank * own_inputs : 0, &parts[i], &share,
                       unit_random(unit, parts[i].init_std), "weight");
        if (bias)
            declare_bias(unit, BLOCK_BIASES + (int)id, &parts[i], &share, split);
    }
}

static void declare_norm(struct unit *unit, const struct norm *norm, const char *name)
{
    char layer[64], whole[96];
    snprintf(layer, sizeof layer, unit_family(unit)->names.layer, unit->layer);
    snprintf(whole, sizeof whole, "%s.%s", layer, name);
    norm_declare(unit, norm, whole);
}

static void declare_head_norm(struct unit *unit)
{
    char layer[64];
    snprintf(layer, sizeof layer, unit_family(unit)->names.layer, unit->layer);
    head_norm_declare(unit, &block_head_norm, layer);
}

static void declare_experts(struct unit *unit)
{
    char layer[64];
    snprintf(layer, sizeof layer, unit_family(unit)->names.layer, unit->layer);
    experts_declare_weights(unit, &block_experts, layer);
}

static void block_declare_weights(struct unit *unit, struct unit *adapters)
{
    const struct model_settings *s = unit->settings;
    const struct family *family = unit_family(unit);
    const struct family_names *names = &family->names;
    const int64_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    const int both = !family->gelu && names->gate == NULL ? 2 : 1; /* 2: gate and up are one parameter */
    const struct linear_part qkv[] = {{LORA_Q, names->q, q, s->init_std, s->heads, 1},
                                      {LORA_K, names->k, kv, s->init_std, s->kv_heads, 1},
                                      {LORA_V, names->v, kv, s->init_std, s->kv_heads, 1}};
    const struct linear_part o[] = {{LORA_O, names->o, s->hidden, s->output_std, s->hidden, 1}};
    const struct linear_part gate_up[] = {{LORA_GATE, names->gate, s->ffn, s->init_std, s->ffn, 1},
                                          {LORA_UP, names->up, both * s->ffn, s->init_std, s->ffn, both}};
    const struct linear_part down[] = {{LORA_DOWN, names->down, s->hidden, s->output_std, s->hidden, 1}};
    const struct {
        enum block_weight id;
        int64_t inputs;
        const struct linear_part *parts;
        int count;
    } linears[] = {{BLOCK_QKV, s->hidden, qkv, 3},
                   {BLOCK_O, q, o, 1},
                   {BLOCK_UP, s->hidden, gate_up, 2},
                   {BLOCK_DOWN, s->ffn, down, 1}};
    for (int i = 0; i < block_linear_count(unit); i++)
        declare_linear(unit, linears[i].id, linears[i].inputs, linears[i].parts, linears[i].count);
    if (experts_present(unit))
        declare_experts(unit);
    declare_norm(unit, &block_norm1, names->norm1);
    declare_norm(unit, &block_norm2, names->norm2);
    declare_head_norm(unit);
    for (int i = 0; i < block_linear_count(unit) && adapters != NULL; i++)
        declare_adapters(unit, adapters, linears[i].id, linears[i].inputs, linears[i].parts, linears[i].count);
    unit->decay[STORAGE_MATRIX] = s->decay_matrices;
    unit->decay[STORAGE_VECTOR] = s->decay_vectors;
    unit->muon = s->muon;
}

void block_declare_sum(struct unit *unit)
{
    if (block_norms_sum(unit) && model_has_bias(unit->settings, LINEAR_DOWN))
        unit_declare_tensor(unit, UNIT_INPUT_GRADIENT_SUM, "sum of d input", 1, unit->settings->hidden, ROLE_STATISTIC);
}

static void declare_mlp(struct unit *unit)
{
    const struct model_settings *s = unit->settings;
    const int64_t ffn = model_ffn(s), up = unit_family(unit)->gelu ? ffn : 2 * ffn;
    const int64_t tokens = block_is_sliced(unit) ? s->mlp_tokens : UNIT_TOKENS;
    unit_declare_tensor(unit, BLOCK_UP_OUT, "up", tokens, up, ROLE_VALUE);
    unit_declare_tensor(unit, BLOCK_ACTIVATED, "activated", tokens, ffn, ROLE_VALUE);
    unit_declare_tensor(unit, BLOCK_D_ACTIVATED, "d activated", tokens, ffn, ROLE_VALUE);
    unit_declare_tensor(unit, BLOCK_D_UP, "d up", tokens, up, ROLE_VALUE);
}

/* Declares the outputs of norms and their gradients, or of a post-norm block their inputs. */
static void declare_normed(struct unit *unit)
{
    const struct {
        int id;
        const char *name;
    } pre[] = {{BLOCK_NORMED1, "normed 1"},
               {BLOCK_NORMED2, "normed 2"},
               {BLOCK_D_NORMED2, "d normed 2"},
               {BLOCK_D_NORMED1, "d normed 1"}},
      post[] = {{BLOCK_O_OUT, "o output"},
                {BLOCK_DOWN_OUT, "down output"},
                {BLOCK_D_DOWN_OUT, "d down output"},
                {BLOCK_D_O_OUT, "d o output"}};
    for (size_t i = 0; i < sizeof pre / sizeof pre[0]; i++)
        unit_declare_tensor(unit, block_is_post_norm(unit) ? post[i].id : pre[i].id,
                            block_is_post_norm(unit) ? post[i].name : pre[i].name, UNIT_OWN_TOKENS,
                            unit->settings->hidden, ROLE_VALUE);
}

void block_declare(struct unit *unit, struct unit *adapters)
{
    const struct model_settings *s = unit->settings;
    const int64_t q = model_heads(s) * s->head_dim, fused = q + 2 * model_kv_heads(s) * s->head_dim;
    unit->class = &block_class;
    block_declare_weights(unit, adapters);
    const struct {
        int id;
        const char *name;
        int64_t rows, cols;
        enum tensor_role role;
    } tensors[] = {
        {UNIT_OUTPUT, "output", UNIT_OWN_TOKENS, s->hidden, ROLE_VALUE},
        {UNIT_INPUT_GRADIENT, "d input", UNIT_OWN_TOKENS, s->hidden, ROLE_VALUE},
        {BLOCK_QKV_OUT, "qkv", UNIT_TOKENS, fused, ROLE_VALUE},
        {BLOCK_ATTENTION, "attention", UNIT_TOKENS, q, ROLE_VALUE},
        {BLOCK_MIDDLE, "middle", UNIT_OWN_TOKENS, s->hidden, ROLE_VALUE},
        {BLOCK_D_MIDDLE, "d middle", UNIT_OWN_TOKENS, s->hidden, ROLE_VALUE},
        {BLOCK_D_ATTENTION, "d attention", UNIT_TOKENS, q, ROLE_VALUE},
        {BLOCK_D_QKV, "d qkv", UNIT_TOKENS, fused, ROLE_VALUE},
    };
    if (experts_present(unit))
        experts_declare_tensors(unit, &block_experts);
    else
        declare_mlp(unit);
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++)
        unit_declare_tensor(unit, tensors[i].id, tensors[i].name, tensors[i].rows, tensors[i].cols, tensors[i].role);
    declare_normed(unit);
    if (head_norm_present(unit)) {
        unit_declare_tensor(unit, BLOCK_PROJECTED, "projected qkv", UNIT_TOKENS, fused, ROLE_VALUE);
        unit_declare_tensor(unit, BLOCK_D_HEADS, "d heads", UNIT_TOKENS, fused, ROLE_VALUE);
    }
    if (unit->layer > 0)
        block_declare_sum(unit);
    attention_declare(unit, &block_attention);
    for (int weight = 0; weight < block_linear_count(unit); weight++) {
        struct linear linear = block_linear(unit, (enum block_weight)weight);
        linear_declare(unit, &linear);
    }
}

static void drop_quantized(struct id_set *set, enum block_weight reader)
{
    for (int copy = 0; copy < LINEAR_QUANTIZED; copy++)
        id_set_add(set, BLOCK_LINEARS + (int)reader * LINEAR_TENSORS + copy);
}

struct id_set block_dropped_by(const struct unit *unit, enum deck_recompute policy)
{
    const bool norms = policy >= DECK_RECOMPUTE_NORMS || policy == DECK_RECOMPUTE_ONLY_NORMS;
    struct id_set set = {{0}};
    if (policy >= DECK_RECOMPUTE_ACTIVATION) {
        id_set_add(&set, BLOCK_ACTIVATED);
        drop_quantized(&set, BLOCK_DOWN);
    }
    if (norms) {
        id_set_add(&set, BLOCK_NORMED1);
        id_set_add(&set, BLOCK_NORMED2);
        for (int reader = BLOCK_QKV; reader < BLOCK_DOWN; reader++)
            drop_quantized(&set, (enum block_weight)reader);
    }
    if (policy >= DECK_RECOMPUTE_GATE_UP)
        id_set_add(&set, BLOCK_UP_OUT);
    if (policy >= DECK_RECOMPUTE_QKV) {
        id_set_add(&set, BLOCK_QKV_OUT);
        id_set_add(&set, BLOCK_PROJECTED);
    }
    if (policy >= DECK_RECOMPUTE_ATTENTION) {
        id_set_add(&set, BLOCK_ATTENTION);
        id_set_add(&set, BLOCK_LSE);
    }
    experts_drop(&set, &block_experts, policy);
    attention_drop(&set, &block_attention, policy >= DECK_RECOMPUTE_QKV);
    /* gathered inputs: keeping the tokens of all ranks would undo sequence parallelism */
    id_set_add(&set, BLOCK_LINEARS + (int)BLOCK_QKV * LINEAR_TENSORS + LINEAR_GATHERED);
    id_set_add(&set, BLOCK_LINEARS + (int)BLOCK_UP * LINEAR_TENSORS + LINEAR_GATHERED);
    if (policy >= DECK_RECOMPUTE_FULL || (norms && block_is_post_norm(unit)))
        id_set_add(&set, BLOCK_MIDDLE);
    if (policy >= DECK_RECOMPUTE_FULL) {
        id_set_add(&set, BLOCK_O_OUT);
        id_set_add(&set, BLOCK_DOWN_OUT);
    }
    return set;
}
