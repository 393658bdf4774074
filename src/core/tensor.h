/* Key header: a tensor is a view of a matrix, rows x cols elements with a stride between rows. It owns no memory. A
 * vector of n elements is 1 x n. A tensor whose data is NULL is absent, as an op's optional arguments may be. */
#ifndef CORE_TENSOR_H
#define CORE_TENSOR_H

#include "core/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tensor {
    void *data; /* address on the executor's device; fixed after planning */
    enum dtype dtype;
    int64_t rows;
    int64_t cols;
    int64_t stride; /* elements from one row to the next, >= cols */
};

/* tensor_matrix and tensor_vector make contiguous views of memory that the caller owns. */
static inline struct tensor tensor_matrix(void *data, enum dtype dtype, int64_t rows, int64_t cols)
{
    return (struct tensor){data, dtype, rows, cols, cols};
}

static inline struct tensor tensor_vector(void *data, enum dtype dtype, int64_t count)
{
    return tensor_matrix(data, dtype, 1, count);
}

static inline bool tensor_present(const struct tensor *t)
{
    return t->data != NULL;
}

/* Address of element (row, col). */
static inline void *tensor_at(const struct tensor *t, int64_t row, int64_t col)
{
    return (char *)t->data + (row * t->stride + col) * dtype_size(t->dtype);
}

/* View of `cols` columns, the first of which is column `first`. */
static inline struct tensor tensor_columns(const struct tensor *t, int64_t first, int64_t cols)
{
    return (struct tensor){tensor_at(t, 0, first), t->dtype, t->rows, cols, t->stride};
}

/* View of `rows` rows, the first of which is row `first`. */
static inline struct tensor tensor_rows(const struct tensor *t, int64_t first, int64_t rows)
{
    return (struct tensor){tensor_at(t, first, 0), t->dtype, rows, t->cols, t->stride};
}

static inline int64_t tensor_count(const struct tensor *t)
{
    return t->rows * t->cols;
}

/* Bytes from the first element to the end of the last one: the range that an op on the whole view may access. */
static inline int64_t tensor_extent(const struct tensor *t)
{
    return t->rows > 0 ? ((t->rows - 1) * t->stride + t->cols) * dtype_size(t->dtype) : 0;
}

/* Writes element (row, col) of an f32 or f64 tensor that is in host memory. */
static inline void tensor_put(const struct tensor *t, int64_t row, int64_t col, double value)
{
    if (t->dtype == DTYPE_F64)
        *(double *)tensor_at(t, row, col) = value;
    else
        *(float *)tensor_at(t, row, col) = (float)value;
}

/* Reads element (row, col) of an f32, f64 or bf16 tensor that is in host memory. */
static inline double tensor_get(const struct tensor *t, int64_t row, int64_t col)
{
    const void *at = tensor_at(t, row, col);
    return t->dtype == DTYPE_F64    ? *(const double *)at
           : t->dtype == DTYPE_BF16 ? bf16_to_f32(*(const uint16_t *)at)
                                    : *(const float *)at;
}

static inline bool tensor_contiguous(const struct tensor *t)
{
    return t->stride == t->cols || t->rows <= 1;
}

#endif
