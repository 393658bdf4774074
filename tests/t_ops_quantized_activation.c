/* Activations that quantize their results: the results match the oracle, and the operands are what a separate
 * quantization makes of them, to the bit. */
#include "quantized.h"

#include "base/memory.h"

enum activation {
    ACTIVATION_SWIGLU_FORWARD,
    ACTIVATION_SWIGLU_BACKWARD,
    ACTIVATION_GELU_FORWARD,
    ACTIVATION_GELU_BACKWARD
};

union activation_args {
    struct swiglu_forward_args swiglu_forward;
    struct swiglu_backward_args swiglu_backward;
    struct gelu_forward_args gelu_forward;
    struct gelu_backward_args gelu_backward;
};

static enum op make_activation(struct trial *trial, enum activation which, enum dtype dtype, int64_t rows,
                               int64_t width, struct tensor y, const struct quantized_operands *to,
                               union activation_args *args)
{
    const bool swiglu = which == ACTIVATION_SWIGLU_FORWARD || which == ACTIVATION_SWIGLU_BACKWARD;
    struct tensor x = trial_normal(trial, dtype, rows, swiglu ? 2 * width : width, 1.0);
    struct tensor dy = trial_normal(trial, dtype, rows, width, 0.01);
    memset(args, 0, sizeof *args);
    switch (which) {
    case ACTIVATION_SWIGLU_FORWARD:
        args->swiglu_forward = (struct swiglu_forward_args){.x = x, .y = y, .to = *to};
        return OP_SWIGLU_FORWARD;
    case ACTIVATION_SWIGLU_BACKWARD:
        args->swiglu_backward = (struct swiglu_backward_args){.x = x, .dy = dy, .dx = y, .to = *to};
        return OP_SWIGLU_BACKWARD;
    case ACTIVATION_GELU_FORWARD:
        args->gelu_forward = (struct gelu_forward_args){.x = x, .y = y, .to = *to, .tanh_form = rows % 2};
        return OP_GELU_FORWARD;
    case ACTIVATION_GELU_BACKWARD:
        args->gelu_backward = (struct gelu_backward_args){.x = x, .dy = dy, .dx = y, .to = *to, .tanh_form = rows % 2};
        args->gelu_backward.sum = trial_normal(trial, DTYPE_F32, 1, width, 0.1);
        args->gelu_backward.accumulate = rows % 2;
        return OP_GELU_BACKWARD;
    }
    return OP_COUNT;
}

/* Lets a backward make y again, in half of the cases, with columns as padded as dx's. */
static void add_remade(struct trial *trial, enum activation which, const struct kind *kind, const int64_t *size,
                       union activation_args *args)
{
    const bool swiglu = which == ACTIVATION_SWIGLU_BACKWARD;
    const struct quantized_operands *to = swiglu ? &args->swiglu_backward.to : &args->gelu_backward.to;
    if ((!swiglu && which != ACTIVATION_GELU_BACKWARD) || trial_draw(2))
        return;
    struct quantized_operands y_to = operands_for(trial, kind, size[0], size[1]);
    while (tensor_present(&to->column) && tensor_present(&y_to.column) && y_to.column.cols != to->column.cols)
        y_to = operands_for(trial, kind, size[0], size[1]);
    *(swiglu ? &args->swiglu_backward.y_to : &args->gelu_backward.y_to) = y_to;
}

/* Without y: dx of gelu_backward's sum is what it was. */
static void leave_out_y(enum activation which, union activation_args *args)
{
    struct tensor *const y[4] = {[ACTIVATION_SWIGLU_FORWARD] = &args->swiglu_forward.y,
                                 [ACTIVATION_SWIGLU_BACKWARD] = &args->swiglu_backward.dx,
                                 [ACTIVATION_GELU_FORWARD] = &args->gelu_forward.y,
                                 [ACTIVATION_GELU_BACKWARD] = &args->gelu_backward.dx};
    *y[which] = (struct tensor){0};
}

/* Returns what a backward must make again, NULL if nothing, and in `forward` the op that made it first. */
static const struct quantized_operands *remade_of(enum activation which, const union activation_args *args,
                                                  enum op *forward, union activation_args *forward_args)
{
    const struct gelu_backward_args *gelu = &args->gelu_backward;
    const struct swiglu_backward_args *swiglu = &args->swiglu_backward;
    memset(forward_args, 0, sizeof *forward_args);
    switch (which) {
    case ACTIVATION_SWIGLU_BACKWARD:
        *forward = OP_SWIGLU_FORWARD;
        forward_args->swiglu_forward = (struct swiglu_forward_args){.x = swiglu->x, .to = swiglu->y_to};
        return has_quantized(&swiglu->y_to) ? &swiglu->y_to : NULL;
    case ACTIVATION_GELU_BACKWARD:
        *forward = OP_GELU_FORWARD;
        forward_args->gelu_forward =
            (struct gelu_forward_args){.x = gelu->x, .to = gelu->y_to, .tanh_form = gelu->tanh_form};
        return has_quantized(&gelu->y_to) ? &gelu->y_to : NULL;
    default:
        return NULL;
    }
}

/* Do two copies of the trial's memory hold the same bits of a tensor? */
static bool same_bits(const struct trial *trial, const struct tensor *x, char *one, char *other)
{
    struct tensor a = trial_in_copy(trial, x, one), b = trial_in_copy(trial, x, other);
    for (int64_t i = 0; i < x->rows && tensor_present(x); i++)
        if (memcmp(tensor_at(&a, i, 0), tensor_at(&b, i, 0), (size_t)(x->cols * dtype_size(x->dtype))) != 0)
            return false;
    return true;
}

static bool same_operands(const struct trial *trial, const struct quantized_operands *to, char *one, char *other)
{
    return same_bits(trial, &to->row, one, other) && same_bits(trial, &to->column, one, other) &&
           same_bits(trial, &to->row_scale, one, other) && same_bits(trial, &to->column_scale, one, other) &&
           same_bits(trial, &to->amax, one, other);
}

/* y is within its bounds, the copies are what the oracle's quantize makes of the executor's own y, and they are the
 * same when y is left out. What a backward makes again is what the forward has made. */
static void test_activation_case(enum activation which, const struct kind *kind, const int64_t *size, enum dtype dtype)
{
    static struct executor *oracle;
    if (oracle == NULL)
        oracle = reference_executor_create();
    struct trial *trial = trial_create("activation %d, %s, %s, T %d F %d", (int)which, kind_name(kind),
                                       dtype_name(dtype), (int)size[0], (int)size[1]);
    const int64_t cols = which == ACTIVATION_SWIGLU_BACKWARD ? 2 * size[1] : size[1];
    struct tensor y = trial_empty(trial, dtype, size[0], cols);
    struct quantize_args quantize = {.x = y, .to = operands_for(trial, kind, size[0], cols)};
    union activation_args args;
    const enum op op = make_activation(trial, which, dtype, size[0], size[1], y, &quantize.to, &args);
    add_remade(trial, which, kind, size, &args);
    enum op forward = OP_COUNT;
    union activation_args forward_args;
    const struct quantized_operands *remade = remade_of(which, &args, &forward, &forward_args);
    static const char *const fields[11] = {
        "to.row",      "to.column",      "to.row_scale",      "to.column_scale", "to.amax", "y_to.row",
        "y_to.column", "y_to.row_scale", "y_to.column_scale", "y_to.amax",       "sum"};
    bounds_set(trial, op, &args);
    const int64_t free = COUNT(fields) - (op == OP_GELU_BACKWARD && dtype == DTYPE_BF16 ? 0 : 1);
    for (int64_t f = 0; f < free; f++) { /* of the oracle's y they may be others, and so may the sum of a rounded y */
        if (remade == NULL && fields[f][0] == 'y')
            continue;
        struct tensor bound = trial_bound(trial, op, &args, fields[f]);
        for (int64_t i = 0; i < bound.rows; i++)
            for (int64_t j = 0; j < bound.cols; j++)
                reference_store(&bound, i, j, INFINITY);
    }
    trial->coarse = true;
    trial_expect(trial, op, &args);
    for (int e = 0; e < executor_count; e++) {
        CHECK(trial_compare(trial, executors[e], op, &args) == 0);
        char *with_y = trial_run(trial, executors[e], op, &args);
        union activation_args alone = args;
        leave_out_y(which, &alone);
        char *without_y = trial_run(trial, executors[e], op, &alone);
        struct tensor made = trial_in_copy(trial, &y, with_y);
        memcpy(y.data, made.data, (size_t)tensor_extent(&y));
        char *wanted = trial_run(trial, oracle, OP_QUANTIZE, &quantize);
        check_report(__FILE__, __LINE__, same_operands(trial, &quantize.to, with_y, wanted), trial->name);
        check_report(__FILE__, __LINE__, same_operands(trial, &quantize.to, with_y, without_y), trial->name);
        if (remade != NULL) {
            char *made_first = trial_run(trial, executors[e], forward, &forward_args);
            check_report(__FILE__, __LINE__, same_operands(trial, remade, with_y, made_first), trial->name);
            check_report(__FILE__, __LINE__, same_operands(trial, remade, without_y, made_first), trial->name);
            memory_free(made_first);
        }
        if (op == OP_GELU_BACKWARD)
            CHECK(same_bits(trial, &args.gelu_backward.sum, with_y, without_y));
        memset(y.data, 0xff, (size_t)tensor_extent(&y));
        memory_free(with_y);
        memory_free(without_y);
        memory_free(wanted);
    }
    trial_destroy(trial);
}

static void test_activations(void)
{
    static const int64_t shapes[5][2] = {{7, 33}, {130, 144}, {65, 264}, {140, 256}, {129, 128}};
    for (int which = 0; which < 4; which++)
        for (int64_t k = 0; k < COUNT(kinds); k++) {
            const enum scaling scaling = kinds[k].rule.scaling;
            if (kinds[k].given || scaling == SCALING_1X128 || scaling == SCALING_128X128 || scaling == SCALING_1X32)
                for (int64_t s = 0; s < COUNT(shapes); s++)
                    test_activation_case((enum activation)which, &kinds[k], shapes[s],
                                         s < 2 ? storage[(k + s + which) % 2] : DTYPE_BF16);
        }
}

int main(int count, char **arguments)
{
    executors_open(count, arguments);
    test_activations();
    executors_close();
    return check_end();
}
