/* Forward and backward of the block. */
#include "model/block_private.h"
#include "model/sequence.h"

static const struct tensor absent;

/* -- Norms and the residual stream -------------------------------------------------------------------------------- */

struct tensor block_input(const struct execution *e, const struct unit *unit, int id, struct tensor x)
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

void block_activate(struct execution *e, const struct unit *unit, const struct linear *down, struct tensor x,
                    const struct operand *y)
{
    const struct operand made = linear_made(e, unit, down, OPERAND_INPUT, y);
    if (unit_family(unit)->gelu)
        LAUNCH(e->stream, GELU_FORWARD, gelu_forward, .x = x, .y = made.value, .to = made.to,
               .tanh_form = unit->settings->tanh_gelu);
    else
        LAUNCH(e->stream, SWIGLU_FORWARD, swiglu_forward, .x = x, .y = made.value, .to = made.to);
}

void block_activate_backward(struct execution *e, const struct unit *unit, const struct linear *up, struct tensor x,
                             struct tensor dy, struct tensor dx, struct quantized_operands remade)
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

static void block_quantize_weights(const struct execution *e, struct unit *unit, bool all)
{
    for (int weight = 0; weight < block_linear_count(unit); weight++) {
        struct linear linear = block_linear(unit, (enum block_weight)weight);
        linear_quantize_weight(e, unit, &linear, all);
    }
}

const struct unit_class block_class = {
    .name = "block", .forward = block_forward, .backward = block_backward, .quantize_weights = block_quantize_weights};
