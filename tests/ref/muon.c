#include "ref/muon.h"
#include "base/memory.h"

#include <math.h>

/* out [rows, cols] = sum over k of x [rows, inner] y [inner, cols]. */
static void multiply(const double *x, const double *y, double *out, int64_t rows, int64_t inner, int64_t cols)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            double sum = 0;
            for (int64_t k = 0; k < inner; k++)
                sum += x[i * inner + k] * y[k * cols + j];
            out[i * cols + j] = sum;
        }
}

static void transpose(const double *x, double *out, int64_t rows, int64_t cols)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            out[j * rows + i] = x[i * cols + j];
}

/* x [rows, cols] becomes a x + (b A + c A^2) x with A = x x'. */
static void iterate(double *x, int64_t rows, int64_t cols)
{
    double *turned = memory_allocate(rows * cols * (int64_t)sizeof *x),
           *made = memory_allocate(rows * cols * (int64_t)sizeof *x);
    double *gram = memory_allocate(rows * rows * (int64_t)sizeof *x),
           *square = memory_allocate(rows * rows * (int64_t)sizeof *x);
    transpose(x, turned, rows, cols);
    multiply(x, turned, gram, rows, cols, rows);
    multiply(gram, gram, square, rows, rows, rows);
    for (int64_t i = 0; i < rows * rows; i++)
        square[i] = -4.7750 * gram[i] + 2.0315 * square[i];
    multiply(square, x, made, rows, rows, cols);
    for (int64_t i = 0; i < rows * cols; i++)
        x[i] = 3.4445 * x[i] + made[i];
    memory_free(turned);
    memory_free(made);
    memory_free(gram);
    memory_free(square);
}

/* Orthogonalizes x [rows, cols], in the form with fewer rows than columns. */
static void orthogonalize(double *x, int64_t rows, int64_t cols, int steps)
{
    const bool tall = rows > cols;
    const int64_t height = tall ? cols : rows, width = tall ? rows : cols;
    double *wide = memory_allocate(rows * cols * (int64_t)sizeof *x), squares = 0;
    for (int64_t i = 0; i < rows * cols; i++)
        squares += x[i] * x[i];
    for (int64_t i = 0; i < rows * cols; i++)
        x[i] /= fmax(sqrt(squares), 1e-7);
    if (tall)
        transpose(x, wide, rows, cols);
    for (int s = 0; s < steps; s++)
        iterate(tall ? wide : x, height, width);
    if (tall)
        transpose(wide, x, height, width);
    memory_free(wide);
}

static double adjusted(enum deck_adjust_lr rule, double rows, double cols)
{
    if (rule == DECK_ADJUST_ORIGINAL)
        return sqrt(rows > cols ? rows / cols : 1);
    return rule == DECK_ADJUST_MATCH_RMS_ADAMW ? 0.2 * sqrt(rows > cols ? rows : cols) : sqrt(rows / cols);
}

void muon_reference_step(const struct muon_settings *s, double *weight, double *m, const double *gradient, int64_t rows,
                         int64_t cols, double lr, double weight_decay)
{
    double *update = memory_allocate(rows * cols * (int64_t)sizeof *update);
    const double factor = adjusted(s->adjustment, (double)rows, (double)cols);
    for (int64_t i = 0; i < rows * cols; i++) {
        m[i] += (1 - s->momentum) * (gradient[i] - m[i]);
        update[i] = s->nesterov ? gradient[i] + s->momentum * (m[i] - gradient[i]) : m[i];
    }
    orthogonalize(update, rows, cols, s->steps);
    for (int64_t i = 0; i < rows * cols; i++)
        weight[i] = weight[i] * (1 - lr * weight_decay) - lr * factor * update[i];
    memory_free(update);
}
