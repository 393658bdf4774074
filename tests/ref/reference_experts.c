/* The oracle's ops of mixtures of experts. */
#include "reference.h"
#include "reference_ops.h"

#include <math.h>

static int64_t index_at(const struct tensor *t, int64_t row, int64_t col)
{
    return *(const int32_t *)tensor_at(t, row, col);
}

static void store_index(const struct tensor *t, int64_t row, int64_t col, int64_t value)
{
    *(int32_t *)tensor_at(t, row, col) = (int32_t)value;
}

/* -- The router ---------------------------------------------------------------------------------------------------- */

static bool is_chosen(const struct tensor *experts, int64_t t, int64_t count, int64_t expert)
{
    for (int64_t c = 0; c < count; c++)
        if (index_at(experts, t, c) == expert)
            return true;
    return false;
}

void reference_route_forward(const struct route_forward_args *args)
{
    for (int64_t t = 0; t < args->logits.rows; t++) {
        double sum = 0.0, first = 0.0;
        for (int64_t c = 0; c < args->experts.cols; c++) {
            int64_t best = -1;
            for (int64_t e = 0; e < args->logits.cols; e++)
                if (!is_chosen(&args->experts, t, c, e) &&
                    (best < 0 || reference_load(&args->logits, t, e) > reference_load(&args->logits, t, best)))
                    best = e;
            store_index(&args->experts, t, c, best);
            const double logit = reference_load(&args->logits, t, best);
            if (c == 0)
                first = logit;
            sum += exp(logit - first);
        }
        for (int64_t c = 0; c < args->experts.cols; c++) {
            const double logit = reference_load(&args->logits, t, index_at(&args->experts, t, c));
            reference_store(&args->weights, t, c, exp(logit - first) / sum);
        }
    }
}

/* Returns softmax(logits[t])[expert]. */
static double probability(const struct tensor *logits, int64_t t, int64_t expert)
{
    double sum = 0.0;
    for (int64_t e = 0; e < logits->cols; e++)
        sum += exp(reference_load(logits, t, e) - reference_load(logits, t, expert));
    return 1.0 / sum;
}

static double weight_gradient(const struct route_backward_args *args, int64_t t, int64_t expert)
{
    double gradient = 0.0, mean = 0.0;
    for (int64_t c = 0; c < args->experts.cols; c++)
        mean += reference_load(&args->weights, t, c) * reference_load(&args->d_weights, t, c);
    for (int64_t c = 0; c < args->experts.cols; c++)
        if (index_at(&args->experts, t, c) == expert)
            gradient = reference_load(&args->weights, t, c) * (reference_load(&args->d_weights, t, c) - mean);
    return gradient;
}

/* Adds the gradients of the auxiliary loss to those of token t. */
static void add_auxiliary(const struct route_backward_args *args, int64_t t, double *gradient)
{
    const int64_t experts = args->logits.cols, row = t / (args->logits.rows / args->load.rows);
    const double labels = reference_load(&args->load, row, experts);
    double p[EXPERTS_MOST], mean = 0.0;
    for (int64_t e = 0; e < experts; e++) {
        p[e] = probability(&args->logits, t, e);
        mean += p[e] * reference_load(&args->load, row, e) / labels;
    }
    for (int64_t e = 0; e < experts; e++)
        gradient[e] += args->auxiliary * p[e] * (reference_load(&args->load, row, e) / labels - mean);
}

void reference_route_backward(const struct route_backward_args *args)
{
    for (int64_t t = 0; t < args->logits.rows; t++) {
        double gradient[EXPERTS_MOST];
        for (int64_t e = 0; e < args->logits.cols; e++)
            gradient[e] = weight_gradient(args, t, e);
        if (tensor_present(&args->load) && reference_index(&args->labels, t) >= 0)
            add_auxiliary(args, t, gradient);
        for (int64_t e = 0; e < args->logits.cols; e++)
            reference_store(&args->d_logits, t, e, gradient[e]);
    }
}

void reference_expert_load(const struct expert_load_args *args)
{
    const int64_t tokens = args->experts.rows / args->load.rows, experts = args->load.cols - 1;
    for (int64_t r = 0; r < args->load.rows; r++)
        for (int64_t e = 0; e <= experts; e++) {
            int64_t count = 0;
            for (int64_t t = r * tokens; t < (r + 1) * tokens; t++)
                count += reference_index(&args->labels, t) >= 0 &&
                         (e == experts || is_chosen(&args->experts, t, args->experts.cols, e));
            reference_store(&args->load, r, e, (double)count);
        }
}

/* -- Experts ------------------------------------------------------------------------------------------------------- */

void reference_expert_order(const struct expert_order_args *args)
{
    int64_t place = 0;
    for (int64_t t = 0; t < args->experts.rows; t++)
        for (int64_t c = 0; c < args->experts.cols; c++)
            store_index(&args->places, t, c, -1);
    for (int64_t e = 0; e < args->ends.cols; e++) {
        for (int64_t t = 0; t < args->experts.rows; t++)
            for (int64_t c = 0; c < args->experts.cols; c++)
                if (index_at(&args->experts, t, c) == args->first + e) {
                    store_index(&args->places, t, c, place);
                    store_index(&args->tokens, 0, place++, t);
                }
        store_index(&args->ends, 0, e, place);
    }
}

/* Returns the first row of expert e. */
static int64_t start_of(const struct tensor *ends, int64_t e)
{
    return e > 0 ? index_at(ends, 0, e - 1) : 0;
}

/* Returns the e-th of `experts` equal parts of a matrix's rows. */
static struct tensor part_of(const struct tensor *x, int64_t experts, int64_t e)
{
    return tensor_rows(x, x->rows / experts * e, x->rows / experts);
}

void reference_expert_gemm(const struct expert_gemm_args *args)
{
    for (int64_t e = 0; e < args->ends.cols; e++) {
        const int64_t first = start_of(&args->ends, e), count = index_at(&args->ends, 0, e) - first;
        reference_gemm(&(struct gemm_args){.a = tensor_rows(&args->a, first, count),
                                           .b = part_of(&args->b, args->ends.cols, e),
                                           .d = tensor_rows(&args->d, first, count),
                                           .transpose_b = args->transpose_b});
    }
}

void reference_expert_gradient(const struct expert_gradient_args *args)
{
    for (int64_t e = 0; e < args->ends.cols; e++) {
        const int64_t first = start_of(&args->ends, e), count = index_at(&args->ends, 0, e) - first;
        reference_gemm(&(struct gemm_args){.a = tensor_rows(&args->dy, first, count),
                                           .b = tensor_rows(&args->x, first, count),
                                           .d = part_of(&args->dweight, args->ends.cols, e),
                                           .transpose_a = true,
                                           .accumulate = args->accumulate});
    }
}

void reference_combine_forward(const struct combine_forward_args *args)
{
    for (int64_t t = 0; t < args->y.rows; t++)
        for (int64_t h = 0; h < args->y.cols; h++) {
            double sum = tensor_present(&args->addend) ? reference_load(&args->addend, t, h) : 0.0;
            for (int64_t c = 0; c < args->places.cols; c++)
                if (index_at(&args->places, t, c) >= 0)
                    sum += (tensor_present(&args->weights) ? reference_load(&args->weights, t, c) : 1.0) *
                           reference_load(&args->x, index_at(&args->places, t, c), h);
            reference_store(&args->y, t, h, sum);
        }
}

void reference_combine_backward(const struct combine_backward_args *args)
{
    for (int64_t t = 0; t < args->dy.rows; t++)
        for (int64_t c = 0; c < args->places.cols; c++) {
            const int64_t place = index_at(&args->places, t, c);
            double dot = 0.0;
            for (int64_t h = 0; h < args->dy.cols && place >= 0; h++) {
                const double dy = reference_load(&args->dy, t, h);
                dot += dy * reference_load(&args->x, place, h);
                reference_store(&args->dx, place, h, reference_load(&args->weights, t, c) * dy);
            }
            reference_store(&args->d_weights, t, c, dot);
        }
}
