/* The oracle's loss, gradient norm and optimizer. */
#include "reference.h"
#include "reference_ops.h"

static double largest_of(const struct tensor *x, int64_t row)
{
    double largest = -INFINITY;
    for (int64_t j = 0; j < x->cols; j++)
        largest = fmax(largest, reference_load(x, row, j));
    return largest;
}

/* The sum does not overflow. */
static double sum_of_exps(const struct tensor *x, int64_t row, double largest)
{
    double sum = 0.0;
    for (int64_t j = 0; j < x->cols; j++)
        sum += exp(reference_load(x, row, j) - largest);
    return sum;
}

static double log_sum_exp(const struct tensor *x, int64_t row)
{
    double largest = largest_of(x, row);
    return largest + log(sum_of_exps(x, row, largest));
}

static double lse_of(const struct tensor *logits, const struct tensor *labels, int64_t t)
{
    return reference_index(labels, t) >= 0 ? log_sum_exp(logits, t) : 0.0;
}

static double loss_of(const struct tensor *logits, const struct tensor *labels, int64_t t, double lse)
{
    const int64_t label = reference_index(labels, t);
    return label >= 0 ? lse - reference_load(logits, t, label) : 0.0;
}

static void add_loss(const struct tensor *total, double loss)
{
    reference_store(total, 0, 0, reference_load(total, 0, 0) + loss);
    reference_store(total, 0, 1, reference_load(total, 0, 1) + 1.0);
}

void reference_xent_stat(const struct xent_stat_args *args)
{
    for (int64_t t = 0; t < args->logits.rows; t++) {
        const double lse = lse_of(&args->logits, &args->labels, t);
        const double loss = loss_of(&args->logits, &args->labels, t, lse);
        reference_store(&args->lse, 0, t, lse);
        reference_store(&args->loss, 0, t, loss);
        if (reference_index(&args->labels, t) >= 0)
            add_loss(&args->total, loss);
    }
}

void reference_xent_part(const struct xent_part_args *args)
{
    for (int64_t t = 0; t < args->logits.rows; t++) {
        int64_t label = reference_index(&args->labels, t), place = label - args->origin;
        double largest = label < 0 ? 0.0 : largest_of(&args->logits, t);
        bool here = label >= 0 && place >= 0 && place < args->logits.cols;
        reference_store(&args->statistics, XENT_LARGEST, t, largest);
        reference_store(&args->statistics, XENT_SUM, t, label < 0 ? 0.0 : sum_of_exps(&args->logits, t, largest));
        reference_store(&args->statistics, XENT_TARGET, t, here ? reference_load(&args->logits, t, place) : 0.0);
    }
}

void reference_xent_merge(const struct xent_merge_args *args)
{
    const struct tensor *parts = &args->statistics;
    double total = reference_load(&args->total, 0, 0), count = reference_load(&args->total, 0, 1);
    for (int64_t t = 0; t < parts->cols; t++) {
        double largest = -INFINITY, sum = 0.0, target = 0.0, lse = 0.0, loss = 0.0;
        for (int64_t p = 0; p < parts->rows; p += XENT_STATISTICS)
            largest = fmax(largest, reference_load(parts, p + XENT_LARGEST, t));
        for (int64_t p = 0; p < parts->rows; p += XENT_STATISTICS) {
            sum += reference_load(parts, p + XENT_SUM, t) * exp(reference_load(parts, p + XENT_LARGEST, t) - largest);
            target += reference_load(parts, p + XENT_TARGET, t);
        }
        if (reference_index(&args->labels, t) >= 0) {
            lse = largest + log(sum);
            loss = lse - target;
            total += loss;
            count += 1.0;
        }
        reference_store(&args->lse, 0, t, lse);
        reference_store(&args->loss, 0, t, loss);
    }
    reference_store(&args->total, 0, 0, total);
    reference_store(&args->total, 0, 1, count);
}

/* Writes the gradient of row t, whose label is in column `place` if that is a column of the row. */
static void differentiate(const struct tensor *logits, int64_t t, bool counts, int64_t place, double lse, double z_loss)
{
    const double factor = 1.0 + 2.0 * z_loss * lse;
    for (int64_t j = 0; j < logits->cols; j++) {
        const double gradient = factor * exp(reference_load(logits, t, j) - lse) - (j == place ? 1.0 : 0.0);
        reference_store(logits, t, j, counts ? gradient : 0.0);
    }
}

void reference_xent_grad(const struct xent_grad_args *args)
{
    for (int64_t t = 0; t < args->logits.rows; t++) {
        const int64_t label = reference_index(&args->labels, t);
        differentiate(&args->logits, t, label >= 0, label - args->origin, reference_load(&args->lse, 0, t),
                      (double)args->z_loss);
    }
}

void reference_xent_both(const struct xent_both_args *args)
{
    for (int64_t t = 0; t < args->logits.rows; t++) {
        const int64_t label = reference_index(&args->labels, t);
        const double lse = lse_of(&args->logits, &args->labels, t);
        const double loss = loss_of(&args->logits, &args->labels, t, lse);
        reference_store(&args->loss, 0, t, loss);
        if (label >= 0)
            add_loss(&args->total, loss);
        differentiate(&args->logits, t, label >= 0, label, lse, (double)args->z_loss);
    }
}

void reference_mse(const struct mse_args *args)
{
    const double numbers = (double)args->predictions.cols;
    for (int64_t t = 0; t < args->predictions.rows; t++) {
        const int64_t label = reference_index(&args->labels, t);
        double sum = 0.0;
        for (int64_t j = 0; j < args->predictions.cols; j++) {
            const double difference =
                label < 0 ? 0.0 : reference_load(&args->predictions, t, j) - reference_load(&args->targets, label, j);
            sum += difference * difference;
            if (tensor_present(&args->gradient))
                reference_store(&args->gradient, t, j, 2.0 * difference / numbers);
        }
        reference_store(&args->loss, 0, t, sum / numbers);
        if (label >= 0)
            add_loss(&args->total, sum / numbers);
    }
}

void reference_class_weight(const struct class_weight_args *args)
{
    double total = reference_load(&args->total, 0, 0), count = reference_load(&args->total, 0, 1);
    for (int64_t t = 0; t < args->labels.cols; t++) {
        const int64_t label = reference_index(&args->labels, t);
        if (label < 0)
            continue;
        const double weight = reference_load(&args->weights, 0, label);
        const double loss = weight * reference_load(&args->loss, 0, t);
        reference_store(&args->loss, 0, t, loss);
        for (int64_t j = 0; tensor_present(&args->gradient) && j < args->gradient.cols; j++)
            reference_store(&args->gradient, t, j, weight * reference_load(&args->gradient, t, j));
        total += loss;
        count += weight;
    }
    reference_store(&args->total, 0, 0, total);
    reference_store(&args->total, 0, 1, count);
}

void reference_exact_add(const struct exact_add_args *args)
{
    for (int64_t i = 0; i < args->to.cols; i++) {
        const double x = reference_load(&args->from, 0, i),
                     old = args->accumulate ? reference_load(&args->to, 0, i) : 0;
        reference_store(&args->to, 0, i,
                        old + (fabs(x) <= args->most ? nearbyint(x / args->quantum) * args->quantum : NAN));
    }
}

void reference_exact_read(const struct exact_read_args *args)
{
    for (int64_t i = 0; i < args->to.cols; i++)
        reference_store(&args->to, 0, i, reference_load(&args->from, 0, i));
}

/* With several parts, the first gets the whole sum and the others 0. */
void reference_sum_squares(const struct sum_squares_args *args)
{
    double sum = 0.0;
    for (int64_t i = 0; i < args->x.rows; i++)
        for (int64_t j = 0; j < args->x.cols; j++) {
            double x = reference_load(&args->x, i, j);
            sum += x * x;
        }
    reference_store(&args->sum, 0, 0, sum);
    for (int64_t p = 1; p < args->sum.cols; p++)
        reference_store(&args->sum, 0, p, 0.0);
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

void reference_affine(const struct affine_args *args)
{
    const bool divides = tensor_present(&args->squares);
    const double norm = divides ? sqrt(reference_load(&args->squares, 0, 0)) : 1.0;
    const double factor = args->factor / (divides && norm < args->eps ? args->eps : norm);
    for (int64_t i = 0; i < args->to.rows; i++)
        for (int64_t j = 0; j < args->to.cols; j++)
            reference_store(&args->to, i, j,
                            factor * reference_load(&args->from, i, j) + (i == j ? args->diagonal : 0.0));
}

void reference_momentum(const struct momentum_args *args)
{
    const double scale = reference_load(&args->scale, 0, 0), beta = args->momentum;
    for (int64_t i = 0; i < args->m.cols; i++) {
        const double g = reference_load(&args->gradient, 0, i) * scale;
        const double m = beta * reference_load(&args->m, 0, i) + (1.0 - beta) * g;
        reference_store(&args->update, 0, i, isnan(scale) ? 0.0 : args->nesterov ? beta * m + (1.0 - beta) * g : m);
        if (!isnan(scale))
            reference_store(&args->m, 0, i, m);
    }
}

void reference_muon(const struct muon_args *args)
{
    const double lr = reference_load(&args->rate, 0, 0) * args->lr_factor;
    if (isnan(reference_load(&args->scale, 0, 0)))
        return;
    for (int64_t i = 0; i < args->weight.cols; i++) {
        double w = reference_load(&args->weight, 0, i);
        if (tensor_present(&args->low))
            w = reference_joined(w, reference_load(&args->low, 0, i));
        w -= lr * args->weight_decay * w;
        w -= lr * args->adjustment * reference_load(&args->update, 0, i);
        if (tensor_present(&args->low)) {
            reference_store(&args->low, 0, i, reference_low((float)w));
            w = reference_high((float)w);
        }
        reference_store(&args->weight, 0, i, w);
    }
}
