/* The oracle's norm, rotary positions and activation. */
#include "reference.h"
#include "reference_ops.h"

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
                            reference_load(&args->x, t, h) * rstd * reference_load(&args->weight, 0, h));
    }
}

static void rmsnorm_input_gradient(const struct rmsnorm_backward_args *args)
{
    int64_t hidden = args->x.cols;
    for (int64_t t = 0; t < args->x.rows; t++) {
        double rstd = reference_load(&args->rstd, 0, t);
        double mean = 0.0; /* of weight * dy * x */
        for (int64_t h = 0; h < hidden; h++)
            mean += reference_load(&args->weight, 0, h) * reference_load(&args->dy, t, h) *
                    reference_load(&args->x, t, h) / (double)hidden;
        for (int64_t h = 0; h < hidden; h++) {
            double dx = rstd * (reference_load(&args->weight, 0, h) * reference_load(&args->dy, t, h) -
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

void reference_rope(const struct rope_args *args)
{
    int64_t half = args->head_dim / 2;
    for (int64_t t = 0; t < args->x.rows; t++) {
        int64_t position = reference_index(&args->positions, t);
        for (int64_t first = 0; first < args->x.cols; first += args->head_dim)
            for (int64_t i = 0; i < half; i++) {
                double cosine = reference_load(&args->table, position, i);
                double sine = reference_load(&args->table, position, half + i);
                if (args->inverse)
                    sine = -sine;
                double x1 = reference_load(&args->x, t, first + i);
                double x2 = reference_load(&args->x, t, first + half + i);
                reference_store(&args->x, t, first + i, x1 * cosine - x2 * sine);
                reference_store(&args->x, t, first + half + i, x2 * cosine + x1 * sine);
            }
    }
}

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

void reference_swiglu_forward(const struct swiglu_forward_args *args)
{
    int64_t width = args->y.cols;
    for (int64_t t = 0; t < args->y.rows; t++)
        for (int64_t f = 0; f < width; f++) {
            double gate = reference_load(&args->x, t, f);
            double up = reference_load(&args->x, t, width + f);
            reference_store(&args->y, t, f, gate * sigmoid(gate) * up);
        }
}

void reference_swiglu_backward(const struct swiglu_backward_args *args)
{
    int64_t width = args->dy.cols;
    for (int64_t t = 0; t < args->dy.rows; t++)
        for (int64_t f = 0; f < width; f++) {
            double gate = reference_load(&args->x, t, f);
            double up = reference_load(&args->x, t, width + f);
            double dy = reference_load(&args->dy, t, f);
            double s = sigmoid(gate);
            reference_store(&args->dx, t, f, dy * up * s * (1.0 + gate * (1.0 - s)));
            reference_store(&args->dx, t, width + f, dy * gate * s);
        }
}
