/* For tests of the oracle itself: launches on it, tensors of a case, and gradients by central differences. */
#ifndef TESTS_DIFFERENCES_H
#define TESTS_DIFFERENCES_H

#include "check.h"
#include "ref/reference.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"

#include <stdlib.h>

static struct executor *oracle;

static inline void run(enum op op, const void *args)
{
    struct stream stream = {.executor = oracle, .id = STREAM_COMPUTE};
    launch(&stream, op, args);
}

/* -- Tensors of a case, which case_end releases together ----------------------------------------------------------- */

enum { CASE_TENSORS = 64 };
static void *case_memory[CASE_TENSORS];
static int case_count;
static uint64_t draws;

static inline void case_end(void)
{
    while (case_count > 0)
        memory_free(case_memory[--case_count]);
}

static inline struct tensor zeros(enum dtype dtype, int64_t rows, int64_t cols)
{
    if (case_count == CASE_TENSORS)
        error_fatal("t_ref: more than %d tensors in a case", CASE_TENSORS);
    case_memory[case_count] = memory_allocate(rows * cols * dtype_size(dtype));
    return tensor_matrix(case_memory[case_count++], dtype, rows, cols);
}

static inline struct tensor normal(int64_t rows, int64_t cols)
{
    static const struct random_key key = {.seed = 7, .purpose = RANDOM_TEST, .stream = 1};
    struct tensor x = zeros(DTYPE_F64, rows, cols);
    for (int64_t i = 0; i < rows * cols; i++)
        ((double *)x.data)[i] = random_normal(&key, draws++);
    return x;
}

static inline struct tensor integers(int64_t count, const int32_t *values)
{
    struct tensor x = zeros(DTYPE_I32, 1, count);
    memcpy(x.data, values, (size_t)count * sizeof *values);
    return x;
}

static inline struct tensor copy_of(const struct tensor *x)
{
    struct tensor to = zeros(DTYPE_F64, x->rows, x->cols);
    run(OP_COPY, &(struct copy_args){.from = *x, .to = to});
    return to;
}

/* Returns x rounded to another type. */
static inline struct tensor rounded_copy(enum dtype dtype, const struct tensor *x)
{
    struct tensor to = zeros(dtype, x->rows, x->cols);
    for (int64_t i = 0; i < x->rows; i++)
        for (int64_t j = 0; j < x->cols; j++)
            reference_store(&to, i, j, reference_load(x, i, j));
    return to;
}

static inline double sum_of_products(const struct tensor *x, const struct tensor *y)
{
    double sum = 0.0;
    for (int64_t i = 0; i < x->rows; i++)
        for (int64_t j = 0; j < x->cols; j++)
            sum += reference_load(x, i, j) * reference_load(y, i, j);
    return sum;
}

/* -- Finite differences -------------------------------------------------------------------------------------------- */

/* A scalar function of an op's outputs: the sum of outputs times fixed weights. */
struct objective {
    enum op op;
    const void *args;
    struct tensor output, weight;       /* same shape; weight is the output's gradient */
    struct tensor restore, restored_to; /* optional: copied before each run, for ops that work in place */
};

static inline double evaluate(const struct objective *f)
{
    if (tensor_present(&f->restore))
        run(OP_COPY, &(struct copy_args){.from = f->restore, .to = f->restored_to});
    run(f->op, f->args);
    return sum_of_products(&f->output, &f->weight);
}

/* Checks gradient = base + d objective / d x elementwise, to 1e-6 of the gradient's largest element. With step 1e-4 a
 * fourth-order difference has errors of about 1e-12 from rounding and 1e-16 f'''''. base: NULL for zero. */
static inline void check_gradient(const char *what, const struct objective *f, const struct tensor *x,
                                  const struct tensor *gradient, const struct tensor *base)
{
    const double step = 1e-4;
    double largest = 0.0, worst = 0.0;
    for (int64_t i = 0; i < x->rows; i++)
        for (int64_t j = 0; j < x->cols; j++) {
            double value = reference_load(x, i, j), side[4];
            for (int s = 0; s < 4; s++) {
                static const double at[4] = {-2.0, -1.0, 1.0, 2.0};
                reference_store(x, i, j, value + at[s] * step);
                side[s] = evaluate(f);
            }
            reference_store(x, i, j, value);
            double slope = (side[0] - 8.0 * side[1] + 8.0 * side[2] - side[3]) / (12.0 * step);
            double wanted = slope + (base != NULL ? reference_load(base, i, j) : 0.0);
            largest = fmax(largest, fabs(wanted));
            double error = fabs(reference_load(gradient, i, j) - wanted);
            if (!(error <= worst))
                worst = error;
        }
    if (!check_report(__FILE__, __LINE__, largest > 1e-3 && worst <= 1e-6 * largest, what))
        fprintf(stderr, "    largest gradient %.3g, worst error %.3g\n", largest, worst);
}

#endif
