/* The GEMMs of linear layers, forward and backward. */
#include "model/linear_private.h"
#include "model/sequence.h"

static const struct tensor absent;

/* Returns the tensor for this rank's term of a sum over ranks that ends in `sum`. */
static struct tensor partial(const struct execution *execution, const struct unit *unit, const struct linear *linear,
                             struct tensor sum)
{
    return sequence_parallel(unit) ? unit_tensor(execution, unit, linear->first + LINEAR_PARTIAL) : sum;
}

static void multiply_weight(const struct execution *execution, const struct unit *unit, const struct linear *linear,
                            const struct operand *x, struct tensor y, struct tensor bias, struct tensor addend)
{
    if (!linear_quantizes(execution, linear)) {
        LAUNCH(execution->stream, GEMM, gemm, .a = x->value, .b = unit_weight(execution, unit, linear->weight),
               .transpose_b = true, .bias = bias, .c = addend, .d = y);
        return;
    }
    const struct quantized_operands w = linear_ready_weight(execution, unit, linear, false);
    if (linear_measures(execution, unit, linear))
        linear_measure(execution, unit, linear, OPERAND_WEIGHT,
                       &(struct operand){.value = unit_weight(execution, unit, linear->weight), .to = w});
    LAUNCH(execution->stream, GEMM, gemm, .a = x->to.row, .scale_a = operand_row_scale(&x->to),
           .scaling_a = x->to.rule.scaling, .b = w.row, .scale_b = operand_row_scale(&w), .scaling_b = w.rule.scaling,
           .transpose_b = true, .bias = bias, .c = addend, .d = y, .fast = linear->precision->fast);
}

static void multiply_forward(const struct execution *execution, const struct unit *unit, const struct linear *linear,
                             const struct operand *x, struct tensor y, struct tensor bias, struct tensor addend)
{
    multiply_weight(execution, unit, linear, x, y, bias, addend);
    adapter_project(execution, unit, &linear->adapter, x->value);
    adapter_forward(execution, unit, &linear->adapter, y);
}

void linear_forward(const struct execution *execution, const struct unit *unit, const struct linear *linear,
                    const struct operand *x, struct tensor y, struct tensor addend)
{
    const struct tensor bias = linear->bias >= 0 ? unit_weight(execution, unit, linear->bias) : absent;
    if (!linear_is_split(unit, linear, LINEAR_ROW_PARALLEL)) {
        multiply_forward(execution, unit, linear, x, y, bias, addend);
        return;
    }
    const struct tensor part = partial(execution, unit, linear, y);
    const bool first = execution->tensor->rank == 0,
               whole = !sequence_parallel(unit); /* one rank adds bias and addend */
    multiply_forward(execution, unit, linear, x, part, first ? bias : absent, first && whole ? addend : absent);
    sequence_sum(execution, unit, part, y, linear->first + LINEAR_SCRATCH);
    if (!whole && tensor_present(&addend))
        LAUNCH(execution->stream, ADD, add, .from = addend, .to = y);
}

struct tensor linear_sum(const struct execution *execution, const struct unit *unit, const struct linear *linear)
{
    bool made = linear->summed && execution->gradients == GRADIENT_BOTH;
    return made && linear->bias >= 0 ? unit_gradient(execution, unit, linear->bias) : absent;
}

bool linear_accumulates(const struct unit *unit, const struct linear *linear)
{
    return linear->adds || unit_accumulates(unit, linear->weight);
}

/* Returns the bias gradient if linear_backward computes it. */
static struct tensor own_sum(const struct execution *execution, const struct unit *unit, const struct linear *linear)
{
    struct tensor made = linear_sum(execution, unit, linear);
    bool wanted = (execution->gradients & GRADIENT_WEIGHT) && linear->bias >= 0 && !tensor_present(&made);
    return wanted ? unit_gradient(execution, unit, linear->bias) : absent;
}

static void multiply_weight_gradient(const struct execution *execution, const struct unit *unit,
                                     const struct linear *linear, const struct operand *x, const struct operand *dy)
{
    adapter_weight_gradients(execution, unit, &linear->adapter, x->value, dy->value, linear->adds);
    if ((execution->gradients & GRADIENT_WEIGHT) == 0)
        return;
    if (!linear_quantizes(execution, linear) || linear->precision->wide_weight_gemm)
        LAUNCH(execution->stream, GEMM, gemm, .a = dy->value, .transpose_a = true, .b = x->value,
               .d = unit_gradient(execution, unit, linear->weight), .sum_a = own_sum(execution, unit, linear),
               .accumulate = linear_accumulates(unit, linear));
    else
        LAUNCH(execution->stream, GEMM, gemm, .a = dy->to.column, .scale_a = operand_column_scale(&dy->to),
               .scaling_a = dy->to.rule.scaling, .b = x->to.column, .scale_b = operand_column_scale(&x->to),
               .scaling_b = x->to.rule.scaling, .transpose_b = true,
               .d = unit_gradient(execution, unit, linear->weight), .accumulate = linear_accumulates(unit, linear));
}

void linear_finish(const struct execution *execution, const struct unit *unit, struct linear_pending *pending)
{
    if (pending->present)
        multiply_weight_gradient(execution, unit, &pending->linear, &pending->x, &pending->dy);
    pending->present = false;
}

/* Returns whether a linear postpones its weight gradient. */
static bool defers(const struct execution *execution, const struct unit *unit, const struct linear *linear,
                   const struct linear_pending *pending)
{
    return pending != NULL &&
           (sequence_parallel(unit) || (linear_quantizes(execution, linear) && linear_remakes(linear)));
}

/* As operand_collect for the output gradient, overlapped with the pending weight gradient. */
static bool collect_gradient(struct execution *execution, const struct unit *unit, const struct linear *linear,
                             const struct operand *dy, struct linear_pending *pending)
{
    if (pending == NULL || !pending->present || !tensor_present(&dy->own))
        return operand_collect(execution, unit, linear, OPERAND_GRADIENT, dy);
    const struct execution concurrent = execution_concurrent(execution);
    const bool quantized = operand_place(execution, unit, linear, OPERAND_GRADIENT, dy);
    execution_fork(execution);
    operand_gather(&concurrent, dy, quantized);
    linear_finish(execution, unit, pending);
    execution_join(execution);
    return quantized;
}

/* Returns dy of all tokens, gathered from tensor ranks if they have parts, and quantizes it unless its op has done so.
 */
static struct operand ready_gradient(struct execution *execution, const struct unit *unit, const struct linear *linear,
                                     struct tensor value, struct linear_pending *pending)
{
    const bool gathers = sequence_parallel(unit) && linear_is_split(unit, linear, LINEAR_ROW_PARALLEL);
    struct operand dy =
        linear_gradient(execution, unit, linear, gathers ? linear_gathered(execution, unit, linear) : value);
    dy.own = gathers ? value : absent;
    const bool made = collect_gradient(execution, unit, linear, &dy, pending);
    if (!linear_quantizes(execution, linear))
        return dy;
    if (!made && !linear_is_fused(execution, linear, OPERAND_GRADIENT))
        LAUNCH(execution->stream, QUANTIZE, quantize, .x = dy.value, .to = dy.to,
               .sum = linear->precision->wide_weight_gemm ? absent : own_sum(execution, unit, linear),
               .accumulate = linear_accumulates(unit, linear));
    linear_measure(execution, unit, linear, OPERAND_GRADIENT, &dy);
    return dy;
}

static void multiply_transposed(const struct execution *execution, const struct unit *unit, const struct linear *linear,
                                const struct operand *dy, struct tensor dx)
{
    if (!linear_quantizes(execution, linear)) {
        LAUNCH(execution->stream, GEMM, gemm, .a = dy->value, .b = unit_weight(execution, unit, linear->weight),
               .d = dx);
        return;
    }
    const struct quantized_operands w = linear_ready_weight(execution, unit, linear, true);
    LAUNCH(execution->stream, GEMM, gemm, .a = dy->to.row, .scale_a = operand_row_scale(&dy->to),
           .scaling_a = dy->to.rule.scaling, .b = w.column, .scale_b = operand_column_scale(&w),
           .scaling_b = w.rule.scaling, .transpose_b = true, .d = dx);
}

/* Returns whether this call computes dx. */
static bool computes_input_gradient(const struct execution *execution, const struct linear *linear)
{
    return (execution->gradients & GRADIENT_INPUT) && !linear->ends_backward;
}

static void multiply_input_gradient(const struct execution *execution, const struct unit *unit,
                                    const struct linear *linear, const struct operand *dy, struct tensor dx)
{
    if (!computes_input_gradient(execution, linear))
        return;
    multiply_transposed(execution, unit, linear, dy, dx);
    adapter_input_gradient(execution, unit, &linear->adapter, dx);
}

/* Returns whether backward must gather x again, for the gradients of the weight or of adapters. Not if recompute has
 * done so, and not for quantized GEMMs: their operands are kept or recomputed. */
static bool gathers_again(const struct execution *execution, const struct unit *unit, const struct linear *linear)
{
    const bool weight = !linear_quantizes(execution, linear) && (execution->gradients & GRADIENT_WEIGHT);
    const bool adapters = linear_has_adapters(linear) && execution->trains_adapters;
    return linear_gathers(unit, linear) && (weight || adapters) &&
           !id_set_has(execution->wanted, linear->first + LINEAR_GATHERED);
}

static void gather_next(struct execution *execution, const struct unit *unit, const struct linear *linear,
                        const struct operand *x)
{
    if (!gathers_again(execution, unit, linear))
        return;
    const struct execution concurrent = execution_concurrent(execution);
    sequence_place(execution, x->own, x->value);
    execution_fork(execution);
    sequence_gather(&concurrent, x->value);
}

/* Each rank computes a term of dx. The sum over ranks overlaps with the pending weight gradient, or with the linear's
 * own if it does not postpone. */
static void backward_of_outputs(struct execution *execution, const struct unit *unit, const struct linear *linear,
                                const struct operand *x, const struct operand *dy, struct tensor dx,
                                struct linear_pending *pending)
{
    const struct execution concurrent = execution_concurrent(execution);
    const struct tensor part = partial(execution, unit, linear, dx);
    const bool sums = computes_input_gradient(execution, linear);
    struct linear_pending own = {true, *linear, *x, *dy};
    multiply_input_gradient(execution, unit, linear, dy, part);
    if (gathers_again(execution, unit, linear))
        execution_join(execution);
    if (sums) {
        execution_fork(execution);
        sequence_sum(&concurrent, unit, part, dx, linear->first + LINEAR_SCRATCH);
    }
    const bool postpones = defers(execution, unit, linear, pending);
    linear_finish(execution, unit, postpones ? pending : &own);
    if (sums)
        execution_join(execution);
    if (postpones)
        *pending = own;
}

/* Without sums over ranks and postponing, the weight gradient comes first: afterwards dx may use the memory of x. */
void linear_backward(struct execution *execution, const struct unit *unit, const struct linear *linear,
                     const struct operand *x, struct tensor dy, struct tensor dx, const struct linear_next *next,
                     struct linear_pending *pending)
{
    const struct operand ready = ready_gradient(execution, unit, linear, dy, pending);
    adapter_gradient(execution, unit, &linear->adapter, ready.value);
    if (next != NULL)
        gather_next(execution, unit, next->linear, next->x);
    if (linear_is_split(unit, linear, LINEAR_COLUMN_PARALLEL)) {
        backward_of_outputs(execution, unit, linear, x, &ready, dx, pending);
        return;
    }
    const bool postpones = defers(execution, unit, linear, pending);
    if (!postpones)
        multiply_weight_gradient(execution, unit, linear, x, &ready);
    multiply_input_gradient(execution, unit, linear, &ready, dx);
    if (postpones)
        *pending = (struct linear_pending){true, *linear, *x, ready};
}
