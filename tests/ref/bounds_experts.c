#include "bounds_internal.h"
#include "reference_ops.h"

static int64_t index_at(const struct tensor *t, int64_t row, int64_t col)
{
    return *(const int32_t *)tensor_at(t, row, col);
}

/* Roundings of each exponential's argument (subtraction, change of base), exp, the additions, and the quotient. The
 * weights' sum begins with 1, the first expert's. */
void bounds_route_forward(struct trial *trial, const struct route_forward_args *args)
{
    struct tensor bound = trial_bound(trial, OP_ROUTE_FORWARD, args, "weights");
    reference_route_forward(args); /* for the experts; the trial runs it again */
    for (int64_t t = 0; t < bound.rows; t++) {
        double first = reference_load(&args->logits, t, index_at(&args->experts, t, 0)), range = 0.0, sum = 0.0;
        for (int64_t c = 0; c < bound.cols; c++) {
            const double logit = reference_load(&args->logits, t, index_at(&args->experts, t, c));
            range = fmax(range, first - logit);
            sum += exp(logit - first);
        }
        for (int64_t c = 0; c < bound.cols; c++) {
            const double logit = reference_load(&args->logits, t, index_at(&args->experts, t, c));
            const double relative = 2.0 * (2.0 * BOUNDS_U * range + BOUNDS_FUNCTION) +
                                    bounds_gamma((double)bound.cols + 2.0) + BOUNDS_FUNCTION;
            reference_store(&bound, t, c, exp(logit - first) / sum * relative + BOUNDS_EXP_FLOOR);
        }
    }
}

/* Returns the bound of the auxiliary loss's gradient: of softmax (as bounds_route_forward's weights), of the mean of
 * the load, and of two products. */
static double auxiliary_bound(const struct route_backward_args *args, int64_t t, int64_t expert)
{
    const int64_t experts = args->logits.cols, row = t / (args->logits.rows / args->load.rows);
    const double labels = reference_load(&args->load, row, experts);
    double largest = -INFINITY, smallest = INFINITY, sum = 0.0, mean = 0.0;
    for (int64_t e = 0; e < experts; e++) {
        largest = fmax(largest, reference_load(&args->logits, t, e));
        smallest = fmin(smallest, reference_load(&args->logits, t, e));
    }
    for (int64_t e = 0; e < experts; e++)
        sum += exp(reference_load(&args->logits, t, e) - largest);
    for (int64_t e = 0; e < experts; e++)
        mean += exp(reference_load(&args->logits, t, e) - largest) / sum * reference_load(&args->load, row, e) / labels;
    const double softmax = 2.0 * (2.0 * BOUNDS_U * (largest - smallest) + BOUNDS_FUNCTION) +
                           bounds_gamma((double)experts + 2.0) + BOUNDS_FUNCTION;
    const double p = exp(reference_load(&args->logits, t, expert) - largest) / sum + BOUNDS_EXP_FLOOR;
    const double magnitude = fabs(args->auxiliary) * p * (reference_load(&args->load, row, expert) / labels + mean);
    return magnitude * (2.0 * softmax + bounds_gamma((double)experts + 6.0) + BOUNDS_FUNCTION);
}

/* A sum of products of the experts' weights, a difference and a product; with the auxiliary loss one more addition. */
void bounds_route_backward(struct trial *trial, const struct route_backward_args *args)
{
    struct tensor bound = trial_bound(trial, OP_ROUTE_BACKWARD, args, "d_logits");
    const int64_t count = args->experts.cols;
    for (int64_t t = 0; t < bound.rows; t++) {
        double mean = 0.0;
        for (int64_t c = 0; c < count; c++)
            mean += bounds_absolute(&args->weights, t, c) * bounds_absolute(&args->d_weights, t, c);
        for (int64_t e = 0; e < bound.cols; e++) {
            double error = 0.0;
            for (int64_t c = 0; c < count; c++)
                if (index_at(&args->experts, t, c) == e)
                    error += bounds_gamma((double)count + 4.0) * bounds_absolute(&args->weights, t, c) *
                             (bounds_absolute(&args->d_weights, t, c) + mean);
            if (tensor_present(&args->load) && reference_index(&args->labels, t) >= 0)
                error += auxiliary_bound(args, t, e);
            reference_store(&bound, t, e, error);
        }
    }
}

/* Returns the first row of expert e, and its rows in *count. */
static int64_t rows_of(const struct tensor *ends, int64_t e, int64_t *count)
{
    const int64_t first = e > 0 ? index_at(ends, 0, e - 1) : 0;
    *count = index_at(ends, 0, e) - first;
    return first;
}

/* K products and additions. */
void bounds_expert_gemm(struct trial *trial, const struct expert_gemm_args *args)
{
    struct tensor bound = trial_bound(trial, OP_EXPERT_GEMM, args, "d");
    const int64_t experts = args->ends.cols, k = args->a.cols, rows = args->b.rows / experts;
    for (int64_t e = 0, count; e < experts; e++)
        for (int64_t first = rows_of(&args->ends, e, &count), i = first; i < first + count; i++)
            for (int64_t j = 0; j < bound.cols; j++) {
                double sum = 0.0;
                for (int64_t l = 0; l < k; l++)
                    sum += bounds_absolute(&args->a, i, l) * (args->transpose_b
                                                                  ? bounds_absolute(&args->b, e * rows + j, l)
                                                                  : bounds_absolute(&args->b, e * rows + l, j));
                reference_store(&bound, i, j, bounds_gamma((double)k + 1.0) * sum);
            }
}

/* As many products and additions as the expert has rows, and the old value. */
void bounds_expert_gradient(struct trial *trial, const struct expert_gradient_args *args)
{
    struct tensor bound = trial_bound(trial, OP_EXPERT_GRADIENT, args, "dweight");
    for (int64_t e = 0, count; e < args->ends.cols; e++) {
        const int64_t first = rows_of(&args->ends, e, &count);
        for (int64_t i = 0; i < args->dy.cols; i++)
            for (int64_t j = 0; j < args->x.cols; j++) {
                const int64_t row = e * args->dy.cols + i;
                double sum = args->accumulate ? bounds_absolute(&args->dweight, row, j) : 0.0;
                for (int64_t s = first; s < first + count; s++)
                    sum += bounds_absolute(&args->dy, s, i) * bounds_absolute(&args->x, s, j);
                reference_store(&bound, row, j, bounds_gamma((double)count + 2.0) * sum);
            }
    }
}

/* A product and an addition for each expert of the token. */
void bounds_combine_forward(struct trial *trial, const struct combine_forward_args *args)
{
    struct tensor bound = trial_bound(trial, OP_COMBINE_FORWARD, args, "y");
    for (int64_t t = 0; t < bound.rows; t++)
        for (int64_t h = 0; h < bound.cols; h++) {
            double sum = tensor_present(&args->addend) ? bounds_absolute(&args->addend, t, h) : 0.0;
            for (int64_t c = 0; c < args->places.cols; c++)
                if (index_at(&args->places, t, c) >= 0)
                    sum += (tensor_present(&args->weights) ? bounds_absolute(&args->weights, t, c) : 1.0) *
                           bounds_absolute(&args->x, index_at(&args->places, t, c), h);
            reference_store(&bound, t, h, bounds_gamma((double)args->places.cols + 2.0) * sum);
        }
}

/* dx: a product; d_weights: H products and additions. */
void bounds_combine_backward(struct trial *trial, const struct combine_backward_args *args)
{
    struct tensor dx = trial_bound(trial, OP_COMBINE_BACKWARD, args, "dx");
    struct tensor d_weights = trial_bound(trial, OP_COMBINE_BACKWARD, args, "d_weights");
    for (int64_t t = 0; t < args->dy.rows; t++)
        for (int64_t c = 0; c < args->places.cols; c++) {
            const int64_t place = index_at(&args->places, t, c);
            double sum = 0.0;
            for (int64_t h = 0; h < args->dy.cols && place >= 0; h++) {
                const double dy = bounds_absolute(&args->dy, t, h);
                sum += dy * bounds_absolute(&args->x, place, h);
                reference_store(&dx, place, h, BOUNDS_U * dy * bounds_absolute(&args->weights, t, c));
            }
            reference_store(&d_weights, t, c, bounds_gamma((double)args->dy.cols + 2.0) * sum);
        }
}
