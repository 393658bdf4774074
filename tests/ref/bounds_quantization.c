/* Error bounds of quantization. Quantized operands and scales have none, since each of their roundings is defined. */
#include "bounds_internal.h"
#include "reference_ops.h"

/* A sum of T terms and the old value. */
void bounds_quantize(struct trial *trial, const struct quantize_args *args)
{
    if (!tensor_present(&args->sum))
        return;
    struct tensor bound = trial_bound(trial, OP_QUANTIZE, args, "sum");
    for (int64_t j = 0; j < bound.cols; j++) {
        double sum = args->accumulate ? bounds_absolute(&args->sum, 0, j) : 0.0;
        for (int64_t i = 0; i < args->x.rows; i++)
            sum += bounds_absolute(&args->x, i, j);
        reference_store(&bound, 0, j, bounds_gamma((double)args->x.rows) * sum);
    }
}

/* Terms in f32, sums in double. A quantized value is within twice |x| unless it is clipped, and has one rounding; its
 * difference from x has another. A scale may be a product; a reciprocal may be that of a rounded scale, or of the
 * number from which the scale was made. */
void bounds_quantization_statistic(struct trial *trial, const struct quantization_statistic_args *args)
{
    struct tensor bound = trial_bound(trial, OP_QUANTIZATION_STATISTIC, args, "result");
    double squares = 0.0, errors = 0.0;
    for (int64_t i = 0; i < args->x.rows; i++)
        for (int64_t j = 0; j < args->x.cols; j++) {
            double x = bounds_absolute(&args->x, i, j);
            if (!isfinite(x))
                continue;
            squares += BOUNDS_U * x * x;
            errors += 8.0 * BOUNDS_U * x * x;
        }
    const double sums = 0x1p-52 * (double)tensor_count(&args->x);
    reference_store(&bound, 0, STATISTIC_SQUARES, squares + sums * squares / BOUNDS_U);
    reference_store(&bound, 0, STATISTIC_ERROR, errors + sums * squares / BOUNDS_U);
    double result[STATISTICS] = {0.0};
    struct quantization_statistic_args alone = *args;
    alone.result = tensor_vector(result, DTYPE_F64, STATISTICS);
    reference_quantization_statistic(&alone);
    reference_store(&bound, 0, STATISTIC_SCALE, BOUNDS_U * result[STATISTIC_SCALE]);
    reference_store(&bound, 0, STATISTIC_INVERSE, 4.0 * BOUNDS_U * result[STATISTIC_INVERSE]);
}
