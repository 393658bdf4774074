#include "bounds_internal.h"
#include "reference.h"
#include "reference_ops.h"

#include "base/memory.h"

static double matrix_unit_rounding;

void bounds_of_matrix_units(void)
{
    matrix_unit_rounding = 0x1p-8;
}

double bounds_matrix_unit(const struct tensor *tensor)
{
    return tensor->dtype == DTYPE_BF16 ? matrix_unit_rounding : 0.0;
}

/* Returns the magnitude of intermediate sums: the product, and its sum with either the bias or the addend, whichever
 * may be added first. */
static double sums_on_the_way(const struct gemm_args *args, double value, int64_t i, int64_t j)
{
    const struct tensor *addend = args->accumulate ? &args->d : &args->c;
    if (!tensor_present(&args->bias) || !tensor_present(addend))
        return fabs(value);
    double with_bias = value + reference_load(&args->bias, 0, j), with_addend = value + reference_load(addend, i, j);
    return fabs(value) + fmax(fabs(with_bias), fabs(with_addend));
}

static void gemm_sum(struct trial *trial, const struct gemm_args *args, int64_t k)
{
    struct tensor bound = trial_bound(trial, OP_GEMM, args, "sum_a");
    for (int64_t i = 0; i < bound.cols; i++) {
        double sum = 0.0, old = args->accumulate ? bounds_absolute(&args->sum_a, 0, i) : 0.0;
        for (int64_t l = 0; l < k; l++)
            sum += fabs(reference_left_operand(args, i, l));
        reference_store(&bound, 0, i, bounds_gamma((double)k + 2.0) * (sum + old));
    }
}

/* k products and additions, four scalings, the addend, and the bias: gamma(k + 5) of the product of magnitudes, with a
 * bias gamma(k + 6). sum_a: k additions. A GPU adds products of 8-bit numbers with fewer bits; the bound holds there
 * too if no sum needs more bits, as for the numbers that tests choose. */
static void gemm(struct trial *trial, const struct gemm_args *args)
{
    struct tensor bound = trial_bound(trial, OP_GEMM, args, "d");
    int64_t k = args->transpose_a ? args->a.rows : args->a.cols;
    double additions = tensor_present(&args->bias) ? 6.0 : 5.0;
    bool added = tensor_present(&args->c) || args->accumulate || tensor_present(&args->bias);
    for (int64_t i = 0; i < bound.rows; i++)
        for (int64_t j = 0; j < bound.cols; j++) {
            double sum = 0.0, product = 0.0, rounded = 0.0;
            for (int64_t l = 0; l < k; l++) {
                double term = reference_left_operand(args, i, l) * reference_right_operand(args, l, j);
                sum += fabs(term);
                product += term;
            }
            if (added) /* intermediate sums are rounded, not their magnitudes */
                rounded = bounds_matrix_unit(&args->d) * sums_on_the_way(args, product, i, j);
            if (tensor_present(&args->bias))
                sum += bounds_absolute(&args->bias, 0, j);
            if (tensor_present(&args->c))
                sum += bounds_absolute(&args->c, i, j);
            if (args->accumulate)
                sum += bounds_absolute(&args->d, i, j);
            reference_store(&bound, i, j, bounds_gamma((double)k + additions) * sum + rounded);
        }
    if (tensor_present(&args->sum_a))
        gemm_sum(trial, args, k);
}

/* One product, if there is a scale. */
static void embedding_forward(struct trial *trial, const struct embedding_forward_args *args)
{
    struct tensor bound = trial_bound(trial, OP_EMBEDDING_FORWARD, args, "y");
    for (int64_t t = 0; tensor_present(&args->scale) && t < bound.rows; t++) {
        int64_t row = reference_index(&args->tokens, t) - args->origin;
        for (int64_t h = 0; row >= 0 && row < args->weight.rows && h < bound.cols; h++)
            reference_store(&bound, t, h,
                            BOUNDS_U * bounds_absolute(&args->scale, 0, t) * bounds_absolute(&args->weight, row, h));
    }
}

/* A sum of the rows with the token, each possibly scaled, and the old value. */
static void embedding_backward(struct trial *trial, const struct embedding_backward_args *args)
{
    struct tensor bound = trial_bound(trial, OP_EMBEDDING_BACKWARD, args, "dweight");
    for (int64_t v = 0; v < bound.rows; v++)
        for (int64_t h = 0; h < bound.cols; h++) {
            double sum = args->accumulate ? bounds_absolute(&args->dweight, v, h) : 0.0;
            double roundings = tensor_present(&args->scale) ? 2.0 : 1.0;
            for (int64_t t = 0; t < args->dy.rows; t++)
                if (reference_index(&args->tokens, t) == args->origin + v && args->origin + v != args->padding) {
                    double scale = tensor_present(&args->scale) ? bounds_absolute(&args->scale, 0, t) : 1.0;
                    sum += bounds_absolute(&args->dy, t, h) * scale;
                    roundings += 1.0;
                }
            reference_store(&bound, v, h, bounds_gamma(roundings) * sum);
        }
}

/* A row's largest element, the sum of exp(x - largest), and the sum's relative error: roundings of each term's argument
 * (subtraction, change of base), exp, and V additions. If the maximum is found while summing, two more exps and
 * products, whose arguments add up to at most the term's own range. */
struct row_sum {
    double largest, sum, relative;
};

static struct row_sum row_sum_of(const struct tensor *logits, int64_t t)
{
    double largest = -INFINITY, smallest = INFINITY, sum = 0.0;
    for (int64_t j = 0; j < logits->cols; j++) {
        largest = fmax(largest, reference_load(logits, t, j));
        smallest = fmin(smallest, reference_load(logits, t, j));
    }
    for (int64_t j = 0; j < logits->cols; j++)
        sum += exp(reference_load(logits, t, j) - largest);
    double relative =
        4.0 * BOUNDS_U * (largest - smallest) + 3.0 * (BOUNDS_FUNCTION + BOUNDS_U) + bounds_gamma((double)logits->cols);
    return (struct row_sum){largest, sum, relative};
}

/* lse = largest + log(sum): the error of log, and the roundings of the result. */
static double lse_bound(const struct row_sum *row)
{
    double value = row->largest + log(row->sum);
    return row->relative + (BOUNDS_FUNCTION + BOUNDS_U) * log(row->sum) +
           4.0 * BOUNDS_U * (fabs(row->largest) + fabs(value));
}

/* Bounds the losses of rows of logits; total adds in double. */
static void bound_losses(const struct tensor *logits, const struct tensor *labels, const struct tensor *old,
                         struct tensor loss, struct tensor total)
{
    double sum_of_errors = 0.0, magnitude = bounds_absolute(old, 0, 0);
    for (int64_t t = 0; t < logits->rows; t++) {
        int64_t label = reference_index(labels, t);
        if (label < 0)
            continue;
        struct row_sum row = row_sum_of(logits, t);
        double row_loss = row.largest + log(row.sum) - reference_load(logits, t, label);
        double error = lse_bound(&row) + 2.0 * BOUNDS_U * row_loss;
        reference_store(&loss, 0, t, error);
        sum_of_errors += error;
        magnitude += row_loss;
    }
    reference_store(&total, 0, 0, sum_of_errors + magnitude * (double)(logits->rows + 1) * 0x1p-53);
}

static void xent_stat(struct trial *trial, const struct xent_stat_args *args)
{
    struct tensor lse = trial_bound(trial, OP_XENT_STAT, args, "lse");
    for (int64_t t = 0; t < args->logits.rows; t++)
        if (reference_index(&args->labels, t) >= 0) {
            struct row_sum row = row_sum_of(&args->logits, t);
            reference_store(&lse, 0, t, lse_bound(&row));
        }
    bound_losses(&args->logits, &args->labels, &args->total, trial_bound(trial, OP_XENT_STAT, args, "loss"),
                 trial_bound(trial, OP_XENT_STAT, args, "total"));
}

static void xent_part(struct trial *trial, const struct xent_part_args *args)
{
    struct tensor bound = trial_bound(trial, OP_XENT_PART, args, "statistics");
    for (int64_t t = 0; t < args->logits.rows; t++) {
        struct row_sum row = row_sum_of(&args->logits, t);
        if (reference_index(&args->labels, t) >= 0)
            reference_store(&bound, XENT_SUM, t, row.sum * row.relative);
    }
}

/* Each part's term has the errors of its argument's roundings, exp and a product; the sum those of its additions. The
 * sum of the targets is exact, since all but one are 0. */
static void xent_merge(struct trial *trial, const struct xent_merge_args *args)
{
    const struct tensor *parts = &args->statistics;
    struct tensor loss = trial_bound(trial, OP_XENT_MERGE, args, "loss");
    struct tensor lse = trial_bound(trial, OP_XENT_MERGE, args, "lse");
    struct tensor total = trial_bound(trial, OP_XENT_MERGE, args, "total");
    double sum_of_errors = 0.0, magnitude = bounds_absolute(&args->total, 0, 0);
    for (int64_t t = 0; t < parts->cols; t++) {
        struct row_sum row = {.largest = -INFINITY};
        double smallest = INFINITY, target = 0.0;
        if (reference_index(&args->labels, t) < 0)
            continue;
        for (int64_t p = 0; p < parts->rows; p += XENT_STATISTICS) {
            row.largest = fmax(row.largest, reference_load(parts, p + XENT_LARGEST, t));
            smallest = fmin(smallest, reference_load(parts, p + XENT_LARGEST, t));
            target += reference_load(parts, p + XENT_TARGET, t);
        }
        for (int64_t p = 0; p < parts->rows; p += XENT_STATISTICS)
            row.sum +=
                reference_load(parts, p + XENT_SUM, t) * exp(reference_load(parts, p + XENT_LARGEST, t) - row.largest);
        row.relative = 2.0 * BOUNDS_U * (row.largest - smallest) + BOUNDS_FUNCTION +
                       bounds_gamma((double)(parts->rows / XENT_STATISTICS) + 1.0);
        double row_loss = row.largest + log(row.sum) - target, error = lse_bound(&row);
        reference_store(&lse, 0, t, error);
        reference_store(&loss, 0, t, error + 2.0 * BOUNDS_U * fabs(row_loss));
        sum_of_errors += error + 2.0 * BOUNDS_U * fabs(row_loss);
        magnitude += fabs(row_loss);
    }
    reference_store(&total, 0, 0, sum_of_errors + magnitude * (double)(parts->cols + 1) * 0x1p-53);
}

/* exp(x - lse): the argument's roundings (subtraction, change of base), the error of lse, and exp; the factor of z-loss
 * with its own roundings and the error of lse; then the subtraction of one. */
static void bound_gradient(const struct tensor *logits, struct tensor bound, int64_t t, int64_t place, double lse,
                           double lse_error, double z_loss)
{
    const double product = 2.0 * z_loss * lse, factor = 1.0 + product;
    const double factor_error =
        z_loss == 0.0 ? 0.0 : BOUNDS_U * (3.0 * fabs(product) + 2.0 * fabs(factor)) + 2.0 * z_loss * lse_error;
    for (int64_t j = 0; j < bound.cols; j++) {
        double x = reference_load(logits, t, j), p = exp(x - lse), result = factor * p - (j == place ? 1.0 : 0.0);
        double relative = 2.0 * BOUNDS_U * (fabs(x) + fabs(lse)) + BOUNDS_FUNCTION + expm1(lse_error);
        reference_store(&bound, t, j,
                        p * (fabs(factor) * relative + factor_error) + BOUNDS_U * fabs(result) +
                            fmax(fabs(factor), 1.0) * BOUNDS_EXP_FLOOR);
    }
}

static void xent_grad(struct trial *trial, const struct xent_grad_args *args)
{
    struct tensor bound = trial_bound(trial, OP_XENT_GRAD, args, "logits");
    for (int64_t t = 0; t < bound.rows; t++) {
        const int64_t label = reference_index(&args->labels, t);
        if (label >= 0)
            bound_gradient(&args->logits, bound, t, label - args->origin, reference_load(&args->lse, 0, t), 0.0,
                           (double)args->z_loss);
    }
}

/* A difference, a share of two roundings, a product; the loss: squares of such differences, added in double. */
static void mse(struct trial *trial, const struct mse_args *args)
{
    struct tensor loss = trial_bound(trial, OP_MSE, args, "loss"), total = trial_bound(trial, OP_MSE, args, "total");
    struct tensor gradient = {0};
    if (tensor_present(&args->gradient))
        gradient = trial_bound(trial, OP_MSE, args, "gradient");
    const double numbers = (double)args->predictions.cols;
    double errors = 0.0, magnitude = bounds_absolute(&args->total, 0, 0);
    for (int64_t t = 0; t < args->predictions.rows; t++) {
        const int64_t label = reference_index(&args->labels, t);
        double sum = 0.0;
        for (int64_t j = 0; label >= 0 && j < args->predictions.cols; j++) {
            const double difference =
                fabs(reference_load(&args->predictions, t, j) - reference_load(&args->targets, label, j));
            sum += difference * difference;
            if (tensor_present(&gradient))
                reference_store(&gradient, t, j, bounds_gamma(4.0) * 2.0 * difference / numbers);
        }
        reference_store(&loss, 0, t, bounds_gamma(3.0) * sum / numbers);
        errors += bounds_gamma(3.0) * sum / numbers;
        magnitude += sum / numbers;
    }
    reference_store(&total, 0, 0, errors + magnitude * (double)(args->predictions.rows + 1) * 0x1p-53);
}

/* A product each. */
static void class_weight(struct trial *trial, const struct class_weight_args *args)
{
    struct tensor loss = trial_bound(trial, OP_CLASS_WEIGHT, args, "loss");
    struct tensor total = trial_bound(trial, OP_CLASS_WEIGHT, args, "total"), gradient = {0};
    if (tensor_present(&args->gradient))
        gradient = trial_bound(trial, OP_CLASS_WEIGHT, args, "gradient");
    double sum = bounds_absolute(&args->total, 0, 0), weights = bounds_absolute(&args->total, 0, 1), errors = 0.0;
    for (int64_t t = 0; t < args->labels.cols; t++) {
        const int64_t label = reference_index(&args->labels, t);
        if (label < 0)
            continue;
        const double weight = bounds_absolute(&args->weights, 0, label);
        const double product = weight * bounds_absolute(&args->loss, 0, t);
        reference_store(&loss, 0, t, BOUNDS_U * product);
        for (int64_t j = 0; tensor_present(&gradient) && j < gradient.cols; j++)
            reference_store(&gradient, t, j, BOUNDS_U * weight * bounds_absolute(&args->gradient, t, j));
        errors += BOUNDS_U * product;
        sum += product;
        weights += weight;
    }
    reference_store(&total, 0, 0, errors + sum * (double)(args->labels.cols + 1) * 0x1p-53);
    reference_store(&total, 0, 1, weights * (double)(args->labels.cols + 1) * 0x1p-53);
}

static void xent_both(struct trial *trial, const struct xent_both_args *args)
{
    struct tensor bound = trial_bound(trial, OP_XENT_BOTH, args, "logits");
    for (int64_t t = 0; t < bound.rows; t++) {
        const int64_t label = reference_index(&args->labels, t);
        const struct row_sum row = row_sum_of(&args->logits, t);
        if (label >= 0)
            bound_gradient(&args->logits, bound, t, label, row.largest + log(row.sum), lse_bound(&row),
                           (double)args->z_loss);
    }
    bound_losses(&args->logits, &args->labels, &args->total, trial_bound(trial, OP_XENT_BOTH, args, "loss"),
                 trial_bound(trial, OP_XENT_BOTH, args, "total"));
}

/* The sum of both may be rounded to f32 only once. */
static void add(struct trial *trial, const struct add_args *args)
{
    struct tensor bound = trial_bound(trial, OP_ADD, args, "to");
    for (int64_t i = 0; i < bound.rows; i++)
        for (int64_t j = 0; j < bound.cols; j++)
            reference_store(&bound, i, j,
                            BOUNDS_U * fabs(reference_load(&args->from, i, j) + reference_load(&args->to, i, j)));
}

/* Everything is double: squares of f32 are exact. */
static void sum_squares(struct trial *trial, const struct sum_squares_args *args)
{
    struct tensor bound = trial_bound(trial, OP_SUM_SQUARES, args, "sum");
    double sum = 0.0;
    for (int64_t i = 0; i < args->x.rows; i++)
        for (int64_t j = 0; j < args->x.cols; j++)
            sum += bounds_absolute(&args->x, i, j) * bounds_absolute(&args->x, i, j);
    reference_store(&bound, 0, 0, (double)tensor_count(&args->x) * 0x1p-53 * sum);
}

/* A root, an addition, a division, a minimum, a division; max_norm and the count may pass through fp32. The powers are
 * computed in double, and at most 1. */
static void gradient_scale(struct trial *trial, const struct gradient_scale_args *args)
{
    struct tensor scale = trial_bound(trial, OP_GRADIENT_SCALE, args, "scale");
    struct tensor norm = trial_bound(trial, OP_GRADIENT_SCALE, args, "norm");
    double squares = 0.0, count = reference_load(&args->total, 0, 1);
    for (int64_t i = 0; i < args->squares.cols; i++)
        squares += reference_load(&args->squares, 0, i);
    if (count > 0.0) {
        reference_store(&norm, 0, 0, 4.0 * BOUNDS_U * sqrt(squares) / count);
        reference_store(&scale, 0, 0, 8.0 * BOUNDS_U / count);
    }
    struct tensor corrections = trial_bound(trial, OP_GRADIENT_SCALE, args, "corrections");
    for (int64_t i = 0; i < 2; i++)
        reference_store(&corrections, 0, i, 0x1p-50);
}

/* g: one rounding. m: products and an addition, gamma(4) of its terms' magnitudes. v: as m, without cancellation. step:
 * m's error, and relative errors of the root, two divisions and three products. */
static void adamw(struct trial *trial, const struct adamw_args *args)
{
    struct tensor weight = trial_bound(trial, OP_ADAMW, args, "weight"), m = trial_bound(trial, OP_ADAMW, args, "m");
    struct tensor v = trial_bound(trial, OP_ADAMW, args, "v"), low = {0};
    if (tensor_present(&args->low))
        low = trial_bound(trial, OP_ADAMW, args, "low");
    double lr = reference_load(&args->step, 0, ADAMW_LR) * (double)args->lr_factor;
    double correction_1 = reference_load(&args->step, 0, ADAMW_CORRECTION_1);
    double correction_2 = reference_load(&args->step, 0, ADAMW_CORRECTION_2);
    double b1 = args->beta1, b2 = args->beta2;
    for (int64_t i = 0; i < weight.cols; i++) {
        double g = bounds_absolute(&args->gradient, 0, i) * bounds_absolute(&args->scale, 0, 0),
               w = bounds_absolute(&args->weight, 0, i);
        double m_size = b1 * bounds_absolute(&args->m, 0, i) + (1.0 - b1) * g, m_error = bounds_gamma(5.0) * m_size;
        double v_size = b2 * bounds_absolute(&args->v, 0, i) + (1.0 - b2) * g * g, v_error = bounds_gamma(6.0) * v_size;
        double quotient = lr * m_size / correction_1 / (sqrt(v_size / correction_2) + (double)args->eps);
        double w_error = bounds_gamma(4.0) * w + bounds_gamma(5.0) * quotient +
                         (bounds_gamma(6.0) + 3.0 * BOUNDS_FUNCTION + bounds_gamma(6.0)) * quotient;
        if (tensor_present(&low)) /* the oracle splits the weight into two parts too, and a tie may go either way */
            w_error += 0x1p-8 * (w + quotient);
        reference_store(&m, 0, i, m_error);
        reference_store(&v, 0, i, v_error);
        reference_store(&weight, 0, i, w_error);
        if (tensor_present(&low)) /* the remainder may have any bits: t_ops compares it with that of whole weights */
            reference_store(&low, 0, i, 0x1p16);
    }
}

/* The factor's rounding, a product and an addition. */
static void affine(struct trial *trial, const struct affine_args *args)
{
    struct tensor bound = trial_bound(trial, OP_AFFINE, args, "to");
    double factor = fabs(args->factor);
    if (tensor_present(&args->squares))
        factor /= fmax(sqrt(reference_load(&args->squares, 0, 0)), args->eps);
    for (int64_t i = 0; i < bound.rows; i++)
        for (int64_t j = 0; j < bound.cols; j++)
            reference_store(&bound, i, j,
                            bounds_gamma(3.0) *
                                (factor * bounds_absolute(&args->from, i, j) + (i == j ? fabs(args->diagonal) : 0.0)));
}

/* The gradient's rounding, products and additions, and both constants' roundings. */
static void momentum(struct trial *trial, const struct momentum_args *args)
{
    struct tensor m = trial_bound(trial, OP_MOMENTUM, args, "m"),
                  update = trial_bound(trial, OP_MOMENTUM, args, "update");
    const double beta = args->momentum, rest = 1.0 - beta;
    if (isnan(reference_load(&args->scale, 0, 0)))
        return;
    for (int64_t i = 0; i < m.cols; i++) {
        const double g = bounds_absolute(&args->gradient, 0, i) * bounds_absolute(&args->scale, 0, 0);
        const double size = beta * bounds_absolute(&args->m, 0, i) + rest * g;
        reference_store(&m, 0, i, bounds_gamma(5.0) * size);
        reference_store(&update, 0, i, bounds_gamma(8.0) * (beta * size + rest * g));
    }
}

/* Two products, a subtraction, and both constants' roundings. */
static void muon(struct trial *trial, const struct muon_args *args)
{
    struct tensor weight = trial_bound(trial, OP_MUON, args, "weight"), low = {0};
    if (tensor_present(&args->low))
        low = trial_bound(trial, OP_MUON, args, "low");
    const double rate = bounds_absolute(&args->rate, 0, 0) * args->lr_factor * args->adjustment;
    if (isnan(reference_load(&args->scale, 0, 0)))
        return;
    for (int64_t i = 0; i < weight.cols; i++) {
        const double size = bounds_absolute(&args->weight, 0, i) + rate * bounds_absolute(&args->update, 0, i);
        /* in halves, the oracle splits the weight into two parts too, and a tie may go either way */
        reference_store(&weight, 0, i, (bounds_gamma(4.0) + (tensor_present(&low) ? 0x1p-8 : 0.0)) * size);
        if (tensor_present(&low)) /* the remainder may have any bits: t_ops compares it with that of whole weights */
            reference_store(&low, 0, i, 0x1p16);
    }
}

void bounds_set(struct trial *trial, enum op op, const void *args)
{
    for (int i = 0; i < TRIAL_FIELDS; i++) { /* bounds of an earlier op of this trial */
        memory_free(trial->bounds[i].data);
        trial->bounds[i] = (struct tensor){0};
    }
    switch (op) {
#define CASE(NAME, name)                                                                                               \
    case OP_##NAME:                                                                                                    \
        name(trial, args);                                                                                             \
        return;
        CASE(GEMM, gemm)
        CASE(EMBEDDING_FORWARD, embedding_forward)
        CASE(EMBEDDING_BACKWARD, embedding_backward)
        CASE(RMSNORM_FORWARD, bounds_rmsnorm_forward)
        CASE(RMSNORM_BACKWARD, bounds_rmsnorm_backward)
        CASE(HEAD_NORM_FORWARD, bounds_head_norm_forward)
        CASE(HEAD_NORM_BACKWARD, bounds_head_norm_backward)
        CASE(LAYERNORM_FORWARD, bounds_layernorm_forward)
        CASE(LAYERNORM_BACKWARD, bounds_layernorm_backward)
        CASE(ROPE, bounds_rope)
        CASE(ATTENTION_FORWARD, bounds_attention_forward)
        CASE(ATTENTION_BACKWARD, bounds_attention_backward)
        CASE(ATTENTION_MERGE, bounds_attention_merge)
        CASE(ROUTE_FORWARD, bounds_route_forward)
        CASE(ROUTE_BACKWARD, bounds_route_backward)
        CASE(EXPERT_GEMM, bounds_expert_gemm)
        CASE(EXPERT_GRADIENT, bounds_expert_gradient)
        CASE(COMBINE_FORWARD, bounds_combine_forward)
        CASE(COMBINE_BACKWARD, bounds_combine_backward)
        CASE(SWIGLU_FORWARD, bounds_swiglu_forward)
        CASE(SWIGLU_BACKWARD, bounds_swiglu_backward)
        CASE(GELU_FORWARD, bounds_gelu_forward)
        CASE(GELU_BACKWARD, bounds_gelu_backward)
        CASE(XENT_STAT, xent_stat)
        CASE(XENT_PART, xent_part)
        CASE(XENT_MERGE, xent_merge)
        CASE(XENT_GRAD, xent_grad)
        CASE(XENT_BOTH, xent_both)
        CASE(TANH_FORWARD, bounds_tanh_forward)
        CASE(TANH_BACKWARD, bounds_tanh_backward)
        CASE(DROPOUT, bounds_dropout)
        CASE(MSE, mse)
        CASE(CLASS_WEIGHT, class_weight)
        CASE(QUANTIZE, bounds_quantize)
        CASE(QUANTIZATION_STATISTIC, bounds_quantization_statistic)
        CASE(ADD, add)
        CASE(SUM_SQUARES, sum_squares)
        CASE(GRADIENT_SCALE, gradient_scale)
        CASE(ADAMW, adamw)
        CASE(AFFINE, affine)
        CASE(MOMENTUM, momentum)
        CASE(MUON, muon)
#undef CASE
    default: /* other ops only round to the storage type */
        return;
    }
}
