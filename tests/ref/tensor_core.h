/* A model of how the tensor cores of an H100 and H200 add products of 8-bit numbers, and a bound for their error. */
#ifndef TESTS_REF_TENSOR_CORE_H
#define TESTS_REF_TENSOR_CORE_H

#include "core/op.h"

/* A row of an 8-bit operand, as elements and exponents. */
struct tensor_core_row {
    int64_t k;
    double *elements; /* without their scales */
    int *exponents;
    double *scales; /* one for each 128 elements */
    int fraction;   /* fraction bits of an element */
};

void tensor_core_row_load(struct tensor_core_row *row, const struct tensor *x, const struct tensor *scale,
                          enum scaling scaling, int64_t i);
void tensor_core_row_free(struct tensor_core_row *row);

struct tensor_core_sum {
    double exact;
    double magnitude; /* sum of the products' magnitudes */
    double model;     /* result of a tensor core that adds along k in order; sums of 128 are added exactly */
    double bound;     /* bound for the error of a tensor core, for all points at which cuBLASLt may begin sums */
};

/* Returns a . b. A step adds 32 products to the sum so far. Let E be the largest exponent of these 33 numbers, where a
 * product's exponent is the sum of its elements' exponents, and an element's is at least that of the smallest normal
 * number. Each number is truncated towards zero below 2^(E - 13), and they are added exactly; the sum is truncated 13
 * bits below its own exponent. A sum begins at each multiple of 128 and is then added in f32, or, when fast, continues
 * to the end. (Khattak and Mikaitis, arXiv 2512.07004; cuBLASLt on an H100 as found by the authors of mmaemu, with
 * which these bits agree.)
 *
 * The bound adds what each step may truncate. For a product this is nothing if its last bit is not below 2^(E - 13),
 * else less than 2^(E - 13) and at most the product. For the sum so far and for the new sum it is one unit each. E is
 * the largest exponent that the sum so far may have. When fast, the sum may have begun at any multiple of 128, since
 * cuBLASLt may split k. The caller adds the errors of f32 additions: k / 128 additions and the scalings. */
struct tensor_core_sum tensor_core_dot(const struct tensor_core_row *a, const struct tensor_core_row *b, bool fast);

#endif
