/* The oracle's norms, rotary positions and activations. */
#include "reference.h"
#include "reference_ops.h"

static double gain_at(const struct tensor *weight, bool one_plus, int64_t h)
{
    return reference_load(weight, 0, h) + (one_plus ? 1.0 : 0.0);
}

void reference_rmsnorm_forward(const struct rmsnorm_forward_args *args)
{
    int64_t hidden = args->x.cols;
    for (int64_t t = 0; t < args->x.rows; t++) {
        double squares = 0.0;
        for (int64_t h = 0; h < hidden; h++) {
            double x = reference_load(&args->x, t, h);
            squares += x * x;
        }
        double rstd = 1.0 / sqrt(squares / (double)hidden + (double)args->eps);
        reference_store(&args->rstd, 0, t, rstd);
        for (int64_t h = 0; h < hidden; h++)
            reference_store(&args->y, t, h,
                            reference_load(&args->x, t, h) * rstd * gain_at(&args->weight, args->one_plus, h));
    }
}

static void rmsnorm_input_gradient(const struct rmsnorm_backward_args *args)
{
    int64_t hidden = args->x.cols;
    for (int64_t t = 0; t < args->x.rows; t++) {
        double rstd = reference_load(&args->rstd, 0, t);
        double mean = 0.0; /* mean of weight * dy * x */
        for (int64_t h = 0; h < hidden; h++)
            mean += gain_at(&args->weight, args->one_plus, h) * reference_load(&args->dy, t, h) *
                    reference_load(&args->x, t, h) / (double)hidden;
        for (int64_t h = 0; h < hidden; h++) {
            double dx = rstd * (gain_at(&args->weight, args->one_plus, h) * reference_load(&args->dy, t, h) -
                                reference_load(&args->x, t, h) * rstd * rstd * mean);
            if (tensor_present(&args->residual))
                dx += reference_load(&args->residual, t, h);
            reference_store(&args->dx, t, h, dx);
        }
    }
}

static void rmsnorm_weight_gradient(const struct rmsnorm_backward_args *args)
{
    for (int64_t h = 0; h < args->x.cols; h++) {
        double sum = args->accumulate ? reference_load(&args->dweight, 0, h) : 0.0;
        for (int64_t t = 0; t < args->x.rows; t++)
            sum += reference_load(&args->dy, t, h) * reference_load(&args->x, t, h) * reference_load(&args->rstd, 0, t);
        reference_store(&args->dweight, 0, h, sum);
    }
}

void reference_rmsnorm_backward(const struct rmsnorm_backward_args *args)
{
    if (tensor_present(&args->dweight))
        rmsnorm_weight_gradient(args);
    if (tensor_present(&args->dx))
        rmsnorm_input_gradient(args);
}

void reference_head_norm_forward(const struct head_norm_forward_args *args)
{
    for (int64_t head = 0; head < args->rstd.rows; head++)
        reference_rmsnorm_forward(
            &(struct rmsnorm_forward_args){.x = tensor_columns(&args->x, head * args->head_dim, args->head_dim),
                                           .weight = args->weight,
                                           .y = tensor_columns(&args->y, head * args->head_dim, args->head_dim),
                                           .rstd = tensor_rows(&args->rstd, head, 1),
                                           .eps = args->eps,
                                           .one_plus = args->one_plus});
}

/* Heads after the first add to the gradient of the weight. */
void reference_head_norm_backward(const struct head_norm_backward_args *args)
{
    const int64_t dim = args->head_dim;
    for (int64_t head = 0; head < args->rstd.rows; head++)
        reference_rmsnorm_backward(&(struct rmsnorm_backward_args){
            .x = tensor_columns(&args->x, head * dim, dim),
            .weight = args->weight,
            .rstd = tensor_rows(&args->rstd, head, 1),
            .dy = tensor_columns(&args->dy, head * dim, dim),
            .dx = tensor_present(&args->dx) ? tensor_columns(&args->dx, head * dim, dim) : args->dx,
            .dweight = args->dweight,
            .accumulate = args->accumulate || head > 0,
            .one_plus = args->one_plus});
}

void reference_layernorm_forward(const struct layernorm_forward_args *args)
{
    int64_t hidden = args->x.cols;
    for (int64_t t = 0; t < args->x.rows; t++) {
        double mean = 0.0, variance = 0.0;
        for (int64_t h = 0; h < hidden; h++)
            mean += reference_load(&args->x, t, h) / (double)hidden;
        for (int64_t h = 0; h < hidden; h++)
            variance += pow(reference_load(&args->x, t, h) - mean, 2) / (double)hidden;
        double rstd = 1.0 / sqrt(variance + (double)args->eps);
        reference_store(&args->mean, 0, t, mean);
        reference_store(&args->rstd, 0, t, rstd);
        for (int64_t h = 0; h < hidden; h++)
            reference_store(&args->y, t, h,
                            (reference_load(&args->x, t, h) - mean) * rstd * gain_at(&args->weight, args->one_plus, h) +
                                (tensor_present(&args->bias) ? reference_load(&args->bias, 0, h) : 0.0));
    }
}

static double layernorm_normalised(const struct layernorm_backward_args *args, int64_t t, int64_t h)
{
    return (reference_load(&args->x, t, h) - reference_load(&args->mean, 0, t)) * reference_load(&args->rstd, 0, t);
}

static void layernorm_input_gradient(const struct layernorm_backward_args *args)
{
    int64_t hidden = args->x.cols;
    for (int64_t t = 0; t < args->x.rows; t++) {
        double mean = 0.0, mean_n = 0.0; /* means of weight * dy, and of weight * dy times the normalised input */
        for (int64_t h = 0; h < hidden; h++) {
            double d = gain_at(&args->weight, args->one_plus, h) * reference_load(&args->dy, t, h);
            mean += d / (double)hidden;
            mean_n += d * layernorm_normalised(args, t, h) / (double)hidden;
        }
        for (int64_t h = 0; h < hidden; h++) {
            double dx = reference_load(&args->rstd, 0, t) *
                        (gain_at(&args->weight, args->one_plus, h) * reference_load(&args->dy, t, h) - mean -
                         layernorm_normalised(args, t, h) * mean_n);
            if (tensor_present(&args->residual))
                dx += reference_load(&args->residual, t, h);
            reference_store(&args->dx, t, h, dx);
        }
    }
}

void reference_layernorm_backward(const struct layernorm_backward_args *args)
{
    for (int64_t h = 0; tensor_present(&args->dweight) && h < args->x.cols; h++) {
        double dweight = args->accumulate ? reference_load(&args->dweight, 0, h) : 0.0;
        for (int64_t t = 0; t < args->x.rows; t++)
            dweight += reference_load(&args->dy, t, h) * layernorm_normalised(args, t, h);
        reference_store(&args->dweight, 0, h, dweight);
    }
    for (int64_t h = 0; tensor_present(&args->dbias) && h < args->x.cols; h++) {
        double dbias = args->accumulate ? reference_load(&args->dbias, 0, h) : 0.0;
        for (int64_t t = 0; t < args->x.rows; t++)
            dbias += reference_load(&args->dy, t, h);
        reference_store(&args->dbias, 0, h, dbias);
    }
    if (tensor_present(&args->dx))
        layernorm_input_gradient(args);
    for (int64_t h = 0; tensor_present(&args->sum) && h < args->x.cols; h++) {
        double sum = args->accumulate_sum ? reference_load(&args->sum, 0, h) : 0.0;
        for (int64_t t = 0; t < args->x.rows; t++)
            sum += reference_load(&args->dx, t, h);
        reference_store(&args->sum, 0, h, sum);
    }
}

void reference_rope(const struct rope_args *args)
{
    int64_t half = args->head_dim / 2;
    int64_t step = args->interleaved ? 2 : 1,
            apart = args->interleaved ? 1 : half; /* distance between pairs, and between the two elements of a pair */
    for (int64_t t = 0; t < args->x.rows; t++) {
        int64_t position = reference_index(&args->positions, t);
        for (int64_t first = 0; first < args->x.cols; first += args->head_dim)
            for (int64_t i = 0; i < half; i++) {
                double cosine = reference_load(&args->table, position, i);
                double sine = reference_load(&args->table, position, half + i);
                if (args->inverse)
                    sine = -sine;
                int64_t at = first + i * step;
                double x1 = reference_load(&args->x, t, at);
                double x2 = reference_load(&args->x, t, at + apart);
                reference_store(&args->x, t, at, x1 * cosine - x2 * sine);
                reference_store(&args->x, t, at + apart, x2 * cosine + x1 * sine);
            }
    }
}

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

void reference_swiglu_forward(const struct swiglu_forward_args *args)
{
    int64_t width = args->x.cols / 2;
    struct tensor y = reference_made(&args->y, args->x.dtype, args->x.rows, width);
    for (int64_t t = 0; t < reference_written_rows(&args->ends, y.rows); t++)
        for (int64_t f = 0; f < width; f++) {
            double gate = reference_load(&args->x, t, f);
            double up = reference_load(&args->x, t, width + f);
            reference_store(&y, t, f, gate * sigmoid(gate) * up);
        }
    reference_made_end(&y, &args->y, &args->to);
}

void reference_swiglu_backward(const struct swiglu_backward_args *args)
{
    int64_t width = args->dy.cols;
    if (has_quantized(&args->y_to)) /* first: dx may be x */
        reference_swiglu_forward(&(struct swiglu_forward_args){.x = args->x, .to = args->y_to});
    struct tensor dx = reference_made(&args->dx, args->x.dtype, args->x.rows, args->x.cols);
    for (int64_t t = 0; t < reference_written_rows(&args->ends, args->dy.rows); t++)
        for (int64_t f = 0; f < width; f++) {
            double gate = reference_load(&args->x, t, f);
            double up = reference_load(&args->x, t, width + f);
            double dy = reference_load(&args->dy, t, f);
            double s = sigmoid(gate);
            reference_store(&dx, t, f, dy * up * s * (1.0 + gate * (1.0 - s)));
            reference_store(&dx, t, width + f, dy * gate * s);
        }
    reference_made_end(&dx, &args->dx, &args->to);
}

/* The rule of core/dropout.h, written again. */
static uint32_t dropout_mix(uint32_t word)
{
    word = (word ^ word >> 16) * 2654435761u;
    word = (word ^ word >> 13) * 1540483477u;
    return word ^ word >> 15;
}

void reference_dropout(const struct dropout_args *args)
{
    const uint32_t salted = dropout_mix(args->salt + 2654435769u);
    for (int64_t t = 0; t < args->y.rows; t++)
        for (int64_t c = 0; c < args->y.cols; c++) {
            const uint32_t row = dropout_mix(salted + (uint32_t)reference_load(&args->keys, 0, t));
            const uint32_t bits = dropout_mix(row ^ (uint32_t)(args->origin + c) * 3266489909u);
            const bool kept = bits >= floor(args->probability * 4294967296.0);
            const double old = args->accumulate ? reference_load(&args->y, t, c) : 0;
            reference_store(&args->y, t, c,
                            old + (kept ? reference_load(&args->x, t, c) / (1 - args->probability) : 0));
        }
}

void reference_tanh_forward(const struct tanh_forward_args *args)
{
    for (int64_t t = 0; t < args->y.rows; t++)
        for (int64_t f = 0; f < args->y.cols; f++)
            reference_store(&args->y, t, f, tanh(reference_load(&args->x, t, f)));
}

void reference_tanh_backward(const struct tanh_backward_args *args)
{
    for (int64_t t = 0; t < args->dx.rows; t++)
        for (int64_t f = 0; f < args->dx.cols; f++) {
            double y = reference_load(&args->y, t, f);
            reference_store(&args->dx, t, f, reference_load(&args->dy, t, f) * (1.0 - y * y));
        }
}

static const double pi = 3.14159265358979323846;

/* share: the factor of x in GELU; slope: the derivative of share, so that dy/dx = share + x slope. The tanh form is a
 * sigmoid, (1 + tanh(u)) / 2 = sigmoid(2 u), written without cancellation where the share is close to 0 or 1. */
struct gelu {
    double share, slope;
};

static struct gelu gelu_at(double x, bool tanh_form)
{
    if (!tanh_form)
        return (struct gelu){0.5 * erfc(-x / sqrt(2.0)), exp(-0.5 * x * x) / sqrt(2.0 * pi)};
    double inner = sqrt(2.0 / pi) * (x + 0.044715 * x * x * x);
    double inner_slope = sqrt(2.0 / pi) * (1.0 + 3.0 * 0.044715 * x * x);
    return (struct gelu){sigmoid(2.0 * inner), sigmoid(2.0 * inner) * sigmoid(-2.0 * inner) * 2.0 * inner_slope};
}

void reference_gelu_forward(const struct gelu_forward_args *args)
{
    struct tensor y = reference_made(&args->y, args->x.dtype, args->x.rows, args->x.cols);
    for (int64_t t = 0; t < y.rows; t++)
        for (int64_t f = 0; f < y.cols; f++) {
            double x = reference_load(&args->x, t, f);
            reference_store(&y, t, f, x * gelu_at(x, args->tanh_form).share);
        }
    reference_made_end(&y, &args->y, &args->to);
}

void reference_gelu_backward(const struct gelu_backward_args *args)
{
    if (has_quantized(&args->y_to))
        reference_gelu_forward(
            &(struct gelu_forward_args){.x = args->x, .to = args->y_to, .tanh_form = args->tanh_form});
    struct tensor dx = reference_made(&args->dx, args->x.dtype, args->x.rows, args->x.cols);
    for (int64_t t = 0; t < dx.rows; t++)
        for (int64_t f = 0; f < dx.cols; f++) {
            double x = reference_load(&args->x, t, f);
            struct gelu gelu = gelu_at(x, args->tanh_form);
            reference_store(&dx, t, f, reference_load(&args->dy, t, f) * (gelu.share + x * gelu.slope));
        }
    for (int64_t f = 0; tensor_present(&args->sum) && f < args->sum.cols; f++) {
        double sum = args->accumulate ? reference_load(&args->sum, 0, f) : 0.0;
        for (int64_t t = 0; t < dx.rows; t++)
            sum += reference_load(&dx, t, f);
        reference_store(&args->sum, 0, f, sum);
    }
    reference_made_end(&dx, &args->dx, &args->to);
}
