/* The block's MLP in slices of tokens (block_is_sliced). */
#include "model/block_private.h"

static const struct tensor absent;

bool block_is_sliced(const struct unit *unit)
{
    const int64_t tokens = unit->settings->mlp_tokens;
    return unit->class == &block_class && !experts_present(unit) && tokens > 0 && tokens < unit->tokens;
}

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

void block_sliced_forward(struct execution *e, const struct unit *unit, struct tensor addend, struct tensor output)
{
    for (int64_t first = 0; first < output.rows; first += unit->settings->mlp_tokens) {
        const struct mlp_slice slice = slice_at(e, unit, first);
        activate_slice(e, unit, &slice);
        linear_forward(e, unit, &slice.down, &slice.activated, tensor_rows(&output, first, slice.count),
                       tensor_present(&addend) ? tensor_rows(&addend, first, slice.count) : absent);
    }
}

void block_sliced_backward(struct execution *e, const struct unit *unit, struct tensor dy, struct tensor d_normed)
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
