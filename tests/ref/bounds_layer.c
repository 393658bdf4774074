/* Error bounds of norms, rotary positions and activations. */
#include "bounds_internal.h"

static double gain_of(const struct tensor *weight, bool one_plus, int64_t h)
{
    return fabs(reference_load(weight, 0, h) + (one_plus ? 1.0 : 0.0));
}

/* The sum of squares has no cancellation: relative error gamma(H + 2) with the mean and eps, halved by the root; then
 * the root and the reciprocal; then two products for y, and an addition if the gain is 1 + weight. */
static void bound_forward(const struct rmsnorm_forward_args *args, struct tensor y, struct tensor rstd)
{
    double hidden = (double)args->x.cols, relative = 0.5 * bounds_gamma(hidden + 2.0) + 2.0 * BOUNDS_FUNCTION;
    for (int64_t t = 0; t < y.rows; t++) {
        double squares = 0.0;
        for (int64_t h = 0; h < y.cols; h++)
            squares += bounds_absolute(&args->x, t, h) * bounds_absolute(&args->x, t, h);
        double value = 1.0 / sqrt(squares / hidden + (double)args->eps);
        reference_store(&rstd, 0, t, relative * value);
        for (int64_t h = 0; h < y.cols; h++)
            reference_store(&y, t, h,
                            (relative + (args->one_plus ? 4.0 : 3.0) * BOUNDS_U) * value *
                                bounds_absolute(&args->x, t, h) * gain_of(&args->weight, args->one_plus, h));
    }
}

void bounds_rmsnorm_forward(struct trial *trial, const struct rmsnorm_forward_args *args)
{
    bound_forward(args, trial_bound(trial, OP_RMSNORM_FORWARD, args, "y"),
                  trial_bound(trial, OP_RMSNORM_FORWARD, args, "rstd"));
}

void bounds_head_norm_forward(struct trial *trial, const struct head_norm_forward_args *args)
{
    const struct tensor y = trial_bound(trial, OP_HEAD_NORM_FORWARD, args, "y");
    const struct tensor rstd = trial_bound(trial, OP_HEAD_NORM_FORWARD, args, "rstd");
    const int64_t dim = args->head_dim;
    for (int64_t head = 0; head < rstd.rows; head++)
        bound_forward(&(struct rmsnorm_forward_args){.x = tensor_columns(&args->x, head * dim, dim),
                                                     .weight = args->weight,
                                                     .eps = args->eps,
                                                     .one_plus = args->one_plus},
                      tensor_columns(&y, head * dim, dim), tensor_rows(&rstd, head, 1));
}

/* A sum of H terms of three factors; at most eight more roundings. */
static void bound_input_gradient(const struct rmsnorm_backward_args *args, struct tensor dx)
{
    int64_t tokens = args->x.rows, hidden = args->x.cols;
    for (int64_t t = 0; t < tokens; t++) {
        double mean = 0.0, rstd = bounds_absolute(&args->rstd, 0, t);
        for (int64_t h = 0; h < hidden; h++)
            mean += gain_of(&args->weight, args->one_plus, h) * bounds_absolute(&args->dy, t, h) *
                    bounds_absolute(&args->x, t, h) / (double)hidden;
        for (int64_t h = 0; h < hidden; h++) {
            double magnitude = rstd * (gain_of(&args->weight, args->one_plus, h) * bounds_absolute(&args->dy, t, h) +
                                       bounds_absolute(&args->x, t, h) * rstd * rstd * mean);
            if (tensor_present(&args->residual))
                magnitude += bounds_absolute(&args->residual, t, h);
            reference_store(&dx, t, h, bounds_gamma((double)hidden + 10.0) * magnitude);
        }
    }
}

/* dweight: a sum of T terms of three factors. */
void bounds_rmsnorm_backward(struct trial *trial, const struct rmsnorm_backward_args *args)
{
    int64_t tokens = args->x.rows, hidden = args->x.cols;
    if (tensor_present(&args->dx))
        bound_input_gradient(args, trial_bound(trial, OP_RMSNORM_BACKWARD, args, "dx"));
    if (tensor_present(&args->dweight)) {
        struct tensor dweight = trial_bound(trial, OP_RMSNORM_BACKWARD, args, "dweight");
        for (int64_t h = 0; h < hidden; h++) {
            double sum = args->accumulate ? bounds_absolute(&args->dweight, 0, h) : 0.0;
            for (int64_t t = 0; t < tokens; t++)
                sum += bounds_absolute(&args->dy, t, h) * bounds_absolute(&args->x, t, h) *
                       bounds_absolute(&args->rstd, 0, t);
            reference_store(&dweight, 0, h, bounds_gamma((double)tokens + 3.0) * sum);
        }
    }
}

/* dweight: a sum of T terms of three factors for each head. */
void bounds_head_norm_backward(struct trial *trial, const struct head_norm_backward_args *args)
{
    const int64_t tokens = args->x.rows, heads = args->rstd.rows, dim = args->head_dim;
    struct tensor dx = {0}, dweight = {0};
    if (tensor_present(&args->dx))
        dx = trial_bound(trial, OP_HEAD_NORM_BACKWARD, args, "dx");
    if (tensor_present(&args->dweight))
        dweight = trial_bound(trial, OP_HEAD_NORM_BACKWARD, args, "dweight");
    for (int64_t head = 0; head < heads && tensor_present(&dx); head++)
        bound_input_gradient(&(struct rmsnorm_backward_args){.x = tensor_columns(&args->x, head * dim, dim),
                                                             .weight = args->weight,
                                                             .rstd = tensor_rows(&args->rstd, head, 1),
                                                             .dy = tensor_columns(&args->dy, head * dim, dim),
                                                             .one_plus = args->one_plus},
                             tensor_columns(&dx, head * dim, dim));
    for (int64_t i = 0; i < dim && tensor_present(&dweight); i++) {
        double sum = args->accumulate ? bounds_absolute(&args->dweight, 0, i) : 0.0;
        for (int64_t t = 0; t < tokens; t++)
            for (int64_t head = 0; head < heads; head++)
                sum += bounds_absolute(&args->dy, t, head * dim + i) * bounds_absolute(&args->x, t, head * dim + i) *
                       bounds_absolute(&args->rstd, head, t);
        reference_store(&dweight, 0, i, bounds_gamma((double)(tokens * heads) + 3.0) * sum);
    }
}

/* Error of a row's mean: its rounding and a constant's, and the error of the sum of x - (first mean), with which an
 * executor may correct a first mean; the error of the first sum is then of second order. The error of a plain fp32 sum
 * is not allowed: if the mean is far larger than the deviation, nothing else would be left. */
struct moments {
    double mean, mean_error, deviation, variance; /* deviation: mean(|x - mean|) */
};

static struct moments moments_of(const struct tensor *x, int64_t t)
{
    struct moments m = {0.0, 0.0, 0.0, 0.0};
    double hidden = (double)x->cols, magnitude = 0.0;
    for (int64_t h = 0; h < x->cols; h++) {
        m.mean += reference_load(x, t, h) / hidden;
        magnitude += bounds_absolute(x, t, h) / hidden;
    }
    for (int64_t h = 0; h < x->cols; h++) {
        m.deviation += fabs(reference_load(x, t, h) - m.mean) / hidden;
        m.variance += pow(reference_load(x, t, h) - m.mean, 2) / hidden;
    }
    double sum = bounds_gamma(hidden + 2.0);
    m.mean_error = 2.0 * BOUNDS_U * fabs(m.mean) + sum * (m.deviation + sum * magnitude);
    return m;
}

/* If the mean has the error e, the mean square of x - mean has e^2, and gamma(H + 5) for the subtraction, squares, sum,
 * mean and eps; the root halves that relative error. Then the root and the reciprocal. y: e and a rounding in x - mean;
 * two products and the bias. */
void bounds_layernorm_forward(struct trial *trial, const struct layernorm_forward_args *args)
{
    struct tensor y = trial_bound(trial, OP_LAYERNORM_FORWARD, args, "y");
    struct tensor mean = trial_bound(trial, OP_LAYERNORM_FORWARD, args, "mean");
    struct tensor rstd = trial_bound(trial, OP_LAYERNORM_FORWARD, args, "rstd");
    for (int64_t t = 0; t < y.rows; t++) {
        struct moments m = moments_of(&args->x, t);
        double square = m.variance + (double)args->eps, value = 1.0 / sqrt(square), shifted = pow(m.mean_error, 2);
        double relative =
            0.5 * (bounds_gamma((double)y.cols + 5.0) * (square + shifted) + shifted) / square + 2.0 * BOUNDS_FUNCTION;
        reference_store(&mean, 0, t, m.mean_error);
        reference_store(&rstd, 0, t, relative * value);
        for (int64_t h = 0; h < y.cols; h++) {
            double centred = fabs(reference_load(&args->x, t, h) - m.mean) + m.mean_error;
            double weight = gain_of(&args->weight, args->one_plus, h), product = centred * value * weight;
            reference_store(&y, t, h,
                            m.mean_error * value * weight +
                                (relative + (args->one_plus ? 5.0 : 4.0) * BOUNDS_U) * product +
                                (tensor_present(&args->bias) ? BOUNDS_U * bounds_absolute(&args->bias, 0, h) : 0.0));
        }
    }
}

static double normalised(const struct layernorm_backward_args *args, int64_t t, int64_t h)
{
    return fabs(reference_load(&args->x, t, h) - reference_load(&args->mean, 0, t)) *
           bounds_absolute(&args->rstd, 0, t);
}

/* Bounds one row of dx: sums of H terms of at most four factors, one of them a difference; at most eight more
 * roundings. Adds the errors of the row's terms, each with its rounding, to sum if present. */
static void layernorm_input_gradient(const struct layernorm_backward_args *args, int64_t t, const struct tensor *dx,
                                     const struct tensor *sum)
{
    double mean = 0.0, mean_n = 0.0, hidden = (double)args->x.cols;
    for (int64_t h = 0; h < args->x.cols; h++) {
        double d = gain_of(&args->weight, args->one_plus, h) * bounds_absolute(&args->dy, t, h);
        mean += d / hidden;
        mean_n += d * normalised(args, t, h) / hidden;
    }
    for (int64_t h = 0; h < args->x.cols; h++) {
        double d = gain_of(&args->weight, args->one_plus, h) * bounds_absolute(&args->dy, t, h);
        double magnitude = bounds_absolute(&args->rstd, 0, t) * (d + mean + normalised(args, t, h) * mean_n);
        if (tensor_present(&args->residual))
            magnitude += bounds_absolute(&args->residual, t, h);
        reference_store(dx, t, h, bounds_gamma(hidden + 12.0) * magnitude);
        if (tensor_present(sum))
            reference_store(sum, 0, h,
                            reference_load(sum, 0, h) +
                                bounds_gamma(hidden + 12.0 + (double)args->x.rows + 2.0) * magnitude);
    }
}

/* dweight: sums of T terms, each a difference and two products. dbias and sum: sums of T terms. All include the old
 * value. */
void bounds_layernorm_backward(struct trial *trial, const struct layernorm_backward_args *args)
{
    int64_t tokens = args->x.rows;
    if (tensor_present(&args->dx)) {
        struct tensor dx = trial_bound(trial, OP_LAYERNORM_BACKWARD, args, "dx"), sum = {0};
        if (tensor_present(&args->sum))
            sum = trial_bound(trial, OP_LAYERNORM_BACKWARD, args, "sum");
        for (int64_t h = 0; h < sum.cols; h++)
            reference_store(
                &sum, 0, h,
                args->accumulate_sum ? bounds_gamma((double)tokens + 2.0) * bounds_absolute(&args->sum, 0, h) : 0.0);
        for (int64_t t = 0; t < tokens; t++)
            layernorm_input_gradient(args, t, &dx, &sum);
    }
    if (!tensor_present(&args->dweight))
        return;
    struct tensor dweight = trial_bound(trial, OP_LAYERNORM_BACKWARD, args, "dweight");
    for (int64_t h = 0; h < args->x.cols; h++) {
        double sum = args->accumulate ? bounds_absolute(&args->dweight, 0, h) : 0.0;
        for (int64_t t = 0; t < tokens; t++)
            sum += bounds_absolute(&args->dy, t, h) * normalised(args, t, h);
        reference_store(&dweight, 0, h, bounds_gamma((double)tokens + 4.0) * sum);
    }
    if (!tensor_present(&args->dbias))
        return;
    struct tensor dbias = trial_bound(trial, OP_LAYERNORM_BACKWARD, args, "dbias");
    for (int64_t h = 0; h < args->x.cols; h++) {
        double sum = args->accumulate ? bounds_absolute(&args->dbias, 0, h) : 0.0;
        for (int64_t t = 0; t < tokens; t++)
            sum += bounds_absolute(&args->dy, t, h);
        reference_store(&dbias, 0, h, bounds_gamma((double)tokens + 1.0) * sum);
    }
}

/* Two products and an addition. */
void bounds_rope(struct trial *trial, const struct rope_args *args)
{
    struct tensor bound = trial_bound(trial, OP_ROPE, args, "x");
    int64_t half = args->head_dim / 2;
    for (int64_t t = 0; t < bound.rows; t++)
        for (int64_t c = 0; c < bound.cols; c++) {
            int64_t position = reference_index(&args->positions, t), i = c % args->head_dim;
            int64_t pair = args->interleaved ? i / 2 : i % half, apart = args->interleaved ? 1 : half;
            int64_t other = i == (args->interleaved ? 2 * pair : pair) ? c + apart : c - apart;
            double magnitude =
                bounds_absolute(&args->x, t, c) * bounds_absolute(&args->table, position, pair) +
                bounds_absolute(&args->x, t, other) * bounds_absolute(&args->table, position, half + pair);
            reference_store(&bound, t, c, bounds_gamma(2.0) * magnitude);
        }
}

static double sigmoid(double gate)
{
    return 1.0 / (1.0 + exp(-gate));
}

/* Returns the relative error of sigmoid(g) = 1 / (1 + e), e = exp(-g). e has the error |g| u (its argument's change of
 * base) and that of exp, both with the weight e / (1 + e) = 1 - sigmoid(g); then an addition and a reciprocal. */
static double sigmoid_error(double gate)
{
    return (1.0 - sigmoid(gate)) * (fabs(gate) * BOUNDS_U + BOUNDS_FUNCTION) + BOUNDS_FUNCTION + BOUNDS_U;
}

void bounds_swiglu_forward(struct trial *trial, const struct swiglu_forward_args *args)
{
    struct tensor y = trial_bound(trial, OP_SWIGLU_FORWARD, args, "y");
    for (int64_t t = 0; t < y.rows; t++)
        for (int64_t f = 0; f < y.cols; f++) {
            double gate = reference_load(&args->x, t, f);
            double magnitude = fabs(gate) * bounds_absolute(&args->x, t, y.cols + f);
            double relative = sigmoid_error(gate) + 3.0 * BOUNDS_U;
            reference_store(&y, t, f, magnitude * (sigmoid(gate) * relative + BOUNDS_EXP_FLOOR));
        }
}

/* d gate = dy up s (1 + g (1 - s)), where s has the error r s. The bracket has the error |g| (r s + u) from 1 - s, and
 * four roundings of its magnitude; three more products. d up = dy g s. */
void bounds_swiglu_backward(struct trial *trial, const struct swiglu_backward_args *args)
{
    struct tensor dx = trial_bound(trial, OP_SWIGLU_BACKWARD, args, "dx");
    int64_t width = args->dy.cols;
    for (int64_t t = 0; t < dx.rows; t++)
        for (int64_t f = 0; f < width; f++) {
            double gate = reference_load(&args->x, t, f), s = sigmoid(gate), r = sigmoid_error(gate);
            double dy = bounds_absolute(&args->dy, t, f), bracket = 1.0 + fabs(gate) * (1.0 - s);
            double error = bracket * (r + 8.0 * BOUNDS_U) + fabs(gate) * (r * s + BOUNDS_U);
            reference_store(&dx, t, f,
                            dy * bounds_absolute(&args->x, t, width + f) * (s * error + bracket * BOUNDS_EXP_FLOOR));
            reference_store(&dx, t, width + f, dy * fabs(gate) * (s * (r + 3.0 * BOUNDS_U) + BOUNDS_EXP_FLOOR));
        }
}

/* -- dropout ------------------------------------------------------------------------------------------------------ */

/* The factor and the product are rounded, and the sum with the old y. */
void bounds_dropout(struct trial *trial, const struct dropout_args *args)
{
    struct tensor y = trial_bound(trial, OP_DROPOUT, args, "y");
    for (int64_t t = 0; t < y.rows; t++)
        for (int64_t c = 0; c < y.cols; c++) {
            const double kept = bounds_absolute(&args->x, t, c) / (1 - args->probability);
            const double sum = args->accumulate ? BOUNDS_U * (kept + bounds_absolute(&args->y, t, c)) : 0;
            reference_store(&y, t, c, bounds_gamma(2.0) * kept + sum);
        }
}

/* -- tanh --------------------------------------------------------------------------------------------------------- */

void bounds_tanh_forward(struct trial *trial, const struct tanh_forward_args *args)
{
    struct tensor y = trial_bound(trial, OP_TANH_FORWARD, args, "y");
    for (int64_t t = 0; t < y.rows; t++)
        for (int64_t f = 0; f < y.cols; f++)
            reference_store(&y, t, f, BOUNDS_FUNCTION * fabs(tanh(reference_load(&args->x, t, f))));
}

/* A square, a difference, a product. */
void bounds_tanh_backward(struct trial *trial, const struct tanh_backward_args *args)
{
    struct tensor dx = trial_bound(trial, OP_TANH_BACKWARD, args, "dx");
    for (int64_t t = 0; t < dx.rows; t++)
        for (int64_t f = 0; f < dx.cols; f++) {
            double y = reference_load(&args->y, t, f), dy = bounds_absolute(&args->dy, t, f);
            reference_store(&dx, t, f, dy * (BOUNDS_U * y * y + bounds_gamma(2.0) * fabs(1.0 - y * y)));
        }
}

/* -- GELU: y = x share, dy/dx = share + x slope, with errors of share and slope ------------------------------------ */

struct gelu {
    double share, share_error, slope, slope_error;
};

/* Phi and its density. In both tails, Phi is a function of its argument, or exp times another function. The argument, x
 * times a constant or its square, has two roundings, and exp's half of one (change of base): |x| density. The density:
 * exp of x^2 / 2, whose argument has two roundings; a constant. */
static struct gelu gelu_erf(double x)
{
    double cumulative = 0.5 * erfc(-x / sqrt(2.0)), density = exp(-0.5 * x * x) / sqrt(2.0 * acos(-1.0));
    return (struct gelu){cumulative,
                         3.0 * BOUNDS_U * fabs(x) * density + (2.0 * BOUNDS_FUNCTION + 2.0 * BOUNDS_U) * cumulative,
                         density, density * (BOUNDS_U * x * x + BOUNDS_FUNCTION + 2.0 * BOUNDS_U)};
}

/* s = sigmoid(v), v = x (k + l x^2) with terms of one sign, error gamma(7): two constants, square, two products, sum
 * and product. ds/dx = s (1 - s) v', v' = k + 3 l x^2 with error gamma(7) as well; two products. */
static struct gelu gelu_tanh(double x)
{
    double k = 2.0 * sqrt(2.0 / acos(-1.0)), v = k * (x + 0.044715 * x * x * x), s = sigmoid(v), c = sigmoid(-v);
    double slope = s * c * k * (1.0 + 3.0 * 0.044715 * x * x), argument = bounds_gamma(7.0) * fabs(v);
    double s_relative = sigmoid_error(v) + c * argument, c_relative = sigmoid_error(-v) + s * argument;
    return (struct gelu){s, s * s_relative, slope, slope * (s_relative + c_relative + bounds_gamma(9.0))};
}

static struct gelu gelu_at(double x, bool tanh_form)
{
    return tanh_form ? gelu_tanh(x) : gelu_erf(x);
}

/* From 16 on, share and slope are 0 or 1 to fp32's last denormal, so the floor of exp does not apply. */
static double gelu_floor(double x, double power)
{
    return BOUNDS_EXP_FLOOR * (1.0 + pow(fmin(fabs(x), 16.0), power));
}

/* The error of share times x, and a product. */
void bounds_gelu_forward(struct trial *trial, const struct gelu_forward_args *args)
{
    struct tensor y = trial_bound(trial, OP_GELU_FORWARD, args, "y");
    for (int64_t t = 0; t < y.rows; t++)
        for (int64_t f = 0; f < y.cols; f++) {
            double x = reference_load(&args->x, t, f);
            struct gelu gelu = gelu_at(x, args->tanh_form);
            reference_store(&y, t, f, fabs(x) * (gelu.share_error + BOUNDS_U * gelu.share) + gelu_floor(x, 1.0));
        }
}

/* A product, a sum, a product. The slope's factor v' has degree two, times x: the power of the floor. sum: T such
 * values, rounded to f32, and the old one. */
void bounds_gelu_backward(struct trial *trial, const struct gelu_backward_args *args)
{
    struct tensor dx = trial_bound(trial, OP_GELU_BACKWARD, args, "dx"), sum = {0};
    if (tensor_present(&args->sum))
        sum = trial_bound(trial, OP_GELU_BACKWARD, args, "sum");
    for (int64_t f = 0; f < dx.cols; f++) {
        bool adds = tensor_present(&sum) && args->accumulate;
        double magnitude = adds ? bounds_absolute(&args->sum, 0, f) : 0.0, errors = 0.0;
        for (int64_t t = 0; t < dx.rows; t++) {
            double x = reference_load(&args->x, t, f), dy = bounds_absolute(&args->dy, t, f);
            struct gelu gelu = gelu_at(x, args->tanh_form);
            double slope = gelu.share + fabs(x) * gelu.slope;
            double error =
                gelu.share_error + fabs(x) * gelu.slope_error + bounds_gamma(3.0) * slope + gelu_floor(x, 3.0);
            reference_store(&dx, t, f, dy * error);
            magnitude += dy * slope;
            errors += dy * error;
        }
        if (tensor_present(&sum))
            reference_store(&sum, 0, f, errors + bounds_gamma((double)dx.rows + 2.0) * (magnitude + errors));
    }
}
