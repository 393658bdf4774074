/* The oracle's loss, gradient norm and optimizer. */
#include "reference.h"
#include "reference_ops.h"

/* log(sum(exp(row))), the largest element taken out so that nothing overflows. */
static double log_sum_exp(const struct tensor *x, int64_t row)
{
    double largest = -INFINITY, sum = 0.0;
    for (int64_t j = 0; j < x->cols; j++)
        largest = fmax(largest, reference_load(x, row, j));
    for (int64_t j = 0; j < x->cols; j++)
        sum += exp(reference_load(x, row, j) - largest);
    return largest + log(sum);
}

void reference_xent_stat(const struct xent_stat_args *args)
{
    double total = reference_load(&args->total, 0, 0), count = reference_load(&args->total, 0, 1);
    for (int64_t t = 0; t < args->logits.rows; t++) {
        int64_t label = reference_index(&args->labels, t);
        double lse = 0.0, loss = 0.0;
        if (label >= 0) {
            lse = log_sum_exp(&args->logits, t);
            loss = lse - reference_load(&args->logits, t, label);
            total += loss;
            count += 1.0;
        }
        reference_store(&args->lse, 0, t, lse);
        reference_store(&args->loss, 0, t, loss);
    }
    reference_store(&args->total, 0, 0, total);
    reference_store(&args->total, 0, 1, count);
}

void reference_xent_grad(const struct xent_grad_args *args)
{
    for (int64_t t = 0; t < args->logits.rows; t++) {
        int64_t label = reference_index(&args->labels, t);
        double lse = reference_load(&args->lse, 0, t);
        for (int64_t j = 0; j < args->logits.cols; j++) {
            double gradient = 0.0;
            if (label >= 0)
                gradient = exp(reference_load(&args->logits, t, j) - lse) - (j == label ? 1.0 : 0.0);
            reference_store(&args->logits, t, j, gradient);
        }
    }
}

void reference_sum_squares(const struct sum_squares_args *args)
{
    double sum = 0.0;
    for (int64_t i = 0; i < args->x.rows; i++)
        for (int64_t j = 0; j < args->x.cols; j++) {
            double x = reference_load(&args->x, i, j);
            sum += x * x;
        }
    reference_store(&args->sum, 0, 0, sum);
}

void reference_gradient_scale(const struct gradient_scale_args *args)
{
    double squares = 0.0, count = reference_load(&args->total, 0, 1), norm = 0.0, scale = 0.0;
    for (int64_t i = 0; i < args->squares.cols; i++)
        squares += reference_load(&args->squares, 0, i);
    if (count > 0.0) {
        norm = sqrt(squares) / count;
        double clip = args->max_norm > 0.0f ? fmin(1.0, (double)args->max_norm / (norm + 1e-6)) : 1.0;
        scale = clip / count;
    }
    if (!isfinite(norm) || !isfinite(reference_load(&args->total, 0, 0)))
        scale = NAN;
    double updates = reference_load(&args->updates, 0, 0) + (isnan(scale) ? 0.0 : 1.0);
    reference_store(&args->scale, 0, 0, scale);
    reference_store(&args->norm, 0, 0, norm);
    reference_store(&args->updates, 0, 0, updates);
    reference_store(&args->corrections, 0, 0, 1.0 - pow(args->beta1, updates));
    reference_store(&args->corrections, 0, 1, 1.0 - pow(args->beta2, updates));
}

void reference_adamw(const struct adamw_args *args)
{
    double lr = reference_load(&args->step, 0, ADAMW_LR) * (double)args->lr_factor;
    double correction_1 = reference_load(&args->step, 0, ADAMW_CORRECTION_1);
    double correction_2 = reference_load(&args->step, 0, ADAMW_CORRECTION_2);
    double scale = reference_load(&args->scale, 0, 0);
    double beta1 = args->beta1, beta2 = args->beta2, eps = args->eps, decay = args->weight_decay;
    if (isnan(scale))
        return;
    for (int64_t i = 0; i < args->weight.cols; i++) {
        double g = reference_load(&args->gradient, 0, i) * scale;
        double w = reference_load(&args->weight, 0, i);
        if (tensor_present(&args->low))
            w = reference_joined(w, reference_load(&args->low, 0, i));
        double m = beta1 * reference_load(&args->m, 0, i) + (1.0 - beta1) * g;
        double v = beta2 * reference_load(&args->v, 0, i) + (1.0 - beta2) * g * g;
        w -= lr * decay * w;
        w -= lr * (m / correction_1) / (sqrt(v / correction_2) + eps);
        reference_store(&args->m, 0, i, m);
        reference_store(&args->v, 0, i, v);
        if (tensor_present(&args->low)) {
            reference_store(&args->low, 0, i, reference_low((float)w));
            w = reference_high((float)w);
        }
        reference_store(&args->weight, 0, i, w);
    }
}
