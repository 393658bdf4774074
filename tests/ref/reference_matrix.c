/* The oracle's GEMM, embedding, and copies between tensors. */
#include "reference.h"
#include "reference_ops.h"

double reference_left_operand(const struct gemm_args *args, int64_t i, int64_t l)
{
    return args->transpose_a ? reference_load(&args->a, l, i)
                             : reference_load(&args->a, i, l) * reference_scale(&args->scale_a, args->scaling_a, i, l);
}

double reference_right_operand(const struct gemm_args *args, int64_t l, int64_t j)
{
    return args->transpose_b ? reference_load(&args->b, j, l) * reference_scale(&args->scale_b, args->scaling_b, j, l)
                             : reference_load(&args->b, l, j);
}

static void sum_left_operand(const struct gemm_args *args, int64_t k)
{
    for (int64_t i = 0; i < args->sum_a.cols; i++) {
        double sum = 0.0;
        for (int64_t l = 0; l < k; l++)
            sum += reference_left_operand(args, i, l);
        double old = args->accumulate ? reference_load(&args->sum_a, 0, i) : 0.0;
        reference_store(&args->sum_a, 0, i, old + sum);
    }
}

void reference_gemm(const struct gemm_args *args)
{
    int64_t k = args->transpose_a ? args->a.rows : args->a.cols;
    if (tensor_present(&args->sum_a))
        sum_left_operand(args, k);
    for (int64_t i = 0; i < args->d.rows; i++)
        for (int64_t j = 0; j < args->d.cols; j++) {
            double sum = 0.0;
            for (int64_t l = 0; l < k; l++)
                sum += reference_left_operand(args, i, l) * reference_right_operand(args, l, j);
            if (tensor_present(&args->bias))
                sum += reference_load(&args->bias, 0, j);
            if (tensor_present(&args->c))
                sum += reference_load(&args->c, i, j);
            if (args->accumulate)
                sum += reference_load(&args->d, i, j);
            reference_store(&args->d, i, j, sum);
        }
}

static double token_scale(const struct tensor *scale, int64_t t)
{
    return tensor_present(scale) ? reference_load(scale, 0, t) : 1.0;
}

static double embedded(const struct embedding_forward_args *args, int64_t t, int64_t h)
{
    int64_t row = reference_index(&args->tokens, t) - args->origin;
    bool here = row >= 0 && row < args->weight.rows;
    return here ? reference_load(&args->weight, row, h) * token_scale(&args->scale, t) : 0.0;
}

void reference_embedding_forward(const struct embedding_forward_args *args)
{
    for (int64_t t = 0; t < reference_written_rows(&args->ends, args->y.rows); t++)
        for (int64_t h = 0; h < args->y.cols; h++)
            reference_store(&args->y, t, h, embedded(args, t, h));
}

void reference_embedding_backward(const struct embedding_backward_args *args)
{
    for (int64_t v = 0; v < args->dweight.rows; v++)
        for (int64_t h = 0; h < args->dweight.cols; h++) {
            double sum = args->accumulate ? reference_load(&args->dweight, v, h) : 0.0;
            for (int64_t t = 0; t < args->dy.rows; t++)
                if (reference_index(&args->tokens, t) == args->origin + v && args->origin + v != args->padding)
                    sum += reference_load(&args->dy, t, h) * token_scale(&args->scale, t);
            reference_store(&args->dweight, v, h, sum);
        }
}

/* Rounds if the types differ. */
void reference_copy(const struct copy_args *args)
{
    for (int64_t i = 0; i < args->to.rows; i++)
        for (int64_t j = 0; j < args->to.cols; j++)
            reference_store(&args->to, i, j, reference_load(&args->from, i, j));
}

void reference_scatter(const struct scatter_args *args)
{
    for (int64_t t = 0; t < args->from.rows; t++)
        for (int64_t j = 0; j < args->from.cols; j++)
            reference_store(&args->to, reference_index(&args->rows, t), j, reference_load(&args->from, t, j));
}

void reference_transpose(const struct transpose_args *args)
{
    for (int64_t i = 0; i < args->from.rows; i++)
        for (int64_t j = 0; j < args->from.cols; j++)
            reference_store(&args->to, j, i, reference_load(&args->from, i, j));
}

/* Returns the distance of f32 numbers just below x in magnitude, or with `above` just above. */
static double f32_ulp(double x, bool above)
{
    int exponent; /* x = f * 2^exponent, 0.5 <= f < 1 */
    double fraction = frexp(fabs(x), &exponent);
    exponent -= !above && fraction == 0.5;
    return ldexp(1.0, (x == 0 || exponent < -125 ? -125 : exponent) - 24);
}

double reference_high(double x)
{
    double step = 65536.0 * f32_ulp(x, true);
    return copysign(round(fabs(x) / step) * step, x); /* round() takes ties away from zero */
}

double reference_low(double x)
{
    double short_of = fabs(x) - fabs(reference_high(x));
    return short_of / f32_ulp(short_of < 0 ? reference_high(x) : x, short_of >= 0);
}

double reference_joined(double high, double low)
{
    double whole = isinf(high) ? 0x1p128 : fabs(high);
    return copysign(whole + low * f32_ulp(whole, low >= 0), high);
}

void reference_split(const struct split_args *args)
{
    for (int64_t i = 0; i < args->from.cols; i++) {
        double x = reference_load(&args->from, 0, i);
        const bool lost = tensor_present(&args->low) || !isnan(x); /* NaN */
        reference_store(&args->high, 0, i, lost ? reference_high(x) : x);
        if (tensor_present(&args->low))
            reference_store(&args->low, 0, i, reference_low(x));
    }
}

void reference_join(const struct join_args *args)
{
    for (int64_t i = 0; i < args->to.cols; i++) {
        double low = tensor_present(&args->low) ? reference_load(&args->low, 0, i) : 0.0;
        reference_store(&args->to, 0, i, reference_joined(reference_load(&args->high, 0, i), low));
    }
}

void reference_fill(const struct fill_args *args)
{
    for (int64_t i = 0; i < args->x.rows; i++)
        for (int64_t j = 0; j < args->x.cols; j++)
            reference_store(&args->x, i, j, args->value);
}

void reference_add(const struct add_args *args)
{
    for (int64_t i = 0; i < args->to.rows; i++)
        for (int64_t j = 0; j < args->to.cols; j++)
            reference_store(&args->to, i, j, reference_load(&args->to, i, j) + reference_load(&args->from, i, j));
}

void reference_multiply(const struct multiply_args *args)
{
    for (int64_t i = 0; i < args->x.rows; i++)
        for (int64_t j = 0; j < args->x.cols; j++)
            reference_store(&args->x, i, j, args->factor * reference_load(&args->x, i, j));
}
