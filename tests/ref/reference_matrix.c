/* The oracle's matrix product, embedding, and moves between tensors. */
#include "reference.h"
#include "reference_ops.h"

void reference_gemm(const struct gemm_args *args)
{
    int64_t k = args->transpose_a ? args->a.rows : args->a.cols;
    double scale = 1.0;
    if (tensor_present(&args->scale_a))
        scale *= reference_load(&args->scale_a, 0, 0);
    if (tensor_present(&args->scale_b))
        scale *= reference_load(&args->scale_b, 0, 0);
    for (int64_t i = 0; i < args->d.rows; i++)
        for (int64_t j = 0; j < args->d.cols; j++) {
            double sum = 0.0;
            for (int64_t l = 0; l < k; l++) {
                double a = args->transpose_a ? reference_load(&args->a, l, i) : reference_load(&args->a, i, l);
                double b = args->transpose_b ? reference_load(&args->b, j, l) : reference_load(&args->b, l, j);
                sum += a * b;
            }
            sum *= scale;
            if (tensor_present(&args->c))
                sum += reference_load(&args->c, i, j);
            if (args->accumulate)
                sum += reference_load(&args->d, i, j);
            reference_store(&args->d, i, j, sum);
        }
}

void reference_embedding_forward(const struct embedding_forward_args *args)
{
    for (int64_t t = 0; t < args->y.rows; t++)
        for (int64_t h = 0; h < args->y.cols; h++)
            reference_store(&args->y, t, h, reference_load(&args->weight, reference_index(&args->tokens, t), h));
}

void reference_embedding_backward(const struct embedding_backward_args *args)
{
    for (int64_t v = 0; v < args->dweight.rows; v++)
        for (int64_t h = 0; h < args->dweight.cols; h++) {
            double sum = args->accumulate ? reference_load(&args->dweight, v, h) : 0.0;
            for (int64_t t = 0; t < args->dy.rows; t++)
                if (reference_index(&args->tokens, t) == v)
                    sum += reference_load(&args->dy, t, h);
            reference_store(&args->dweight, v, h, sum);
        }
}

/* Rounds only where the types differ, so it serves copy and cast. */
static void move(const struct tensor *from, const struct tensor *to)
{
    for (int64_t i = 0; i < to->rows; i++)
        for (int64_t j = 0; j < to->cols; j++)
            reference_store(to, i, j, reference_load(from, i, j));
}

void reference_copy(const struct copy_args *args)
{
    move(&args->from, &args->to);
}

void reference_cast(const struct cast_args *args)
{
    move(&args->from, &args->to);
}

void reference_fill(const struct fill_args *args)
{
    for (int64_t i = 0; i < args->x.rows; i++)
        for (int64_t j = 0; j < args->x.cols; j++)
            reference_store(&args->x, i, j, args->value);
}

void reference_quantize(const struct quantize_args *args)
{
    double amax = 0.0;
    for (int64_t i = 0; i < args->x.rows; i++)
        for (int64_t j = 0; j < args->x.cols; j++)
            amax = fmax(amax, fabs(reference_load(&args->x, i, j)));
    reference_store(&args->scale, 0, 0, amax > 0.0 ? amax / 448.0 : 1.0);

    double scale = reference_load(&args->scale, 0, 0); /* as stored: the scale that the product will use */
    for (int64_t i = 0; i < args->x.rows; i++)
        for (int64_t j = 0; j < args->x.cols; j++) {
            double value = reference_load(&args->x, i, j) / scale;
            if (tensor_present(&args->row))
                reference_store(&args->row, i, j, value);
            if (tensor_present(&args->column))
                reference_store(&args->column, j, i, value);
        }
}
