/* How the tensor cores of an H100 and H200 add products of 8-bit numbers, and how far that is from exact. */
#ifndef TESTS_REF_TENSOR_CORE_H
#define TESTS_REF_TENSOR_CORE_H

#include "core/op.h"

/* A row of an 8-bit operand, taken apart. */
struct tensor_core_row {
    int64_t k;
    double *elements; /* without their scales */
    int *exponents;
    double *scales; /* of runs of 128 */
    int fraction;   /* bits behind the binary point of an element */
};

void tensor_core_row_load(struct tensor_core_row *row, const struct tensor *x, const struct tensor *scale,
                          enum scaling scaling, int64_t i);
void tensor_core_row_free(struct tensor_core_row *row);

struct tensor_core_sum {
    double exact;
    double magnitude; /* sum of the products' magnitudes */
    double model;     /* what a tensor core finds that takes k in order; sums of 128 are added exactly */
    double bound;     /* how far a tensor core may be from exact, for any such order of starts as cuBLASLt has */
};

/* a . b. A step adds 32 products to the sum so far: with E the largest exponent of these 33 numbers (a product's is
 * that of its two elements added, an element's at least that of the smallest normal number), each is cut off below 2^(E
 * - 13), towards zero; they are added exactly; the sum is cut off 13 bits below its own exponent. A sum begins at each
 * multiple of 128 and is then added in f32, or, when fast, goes on to the end. (Khattak and Mikaitis, arXiv 2512.07004;
 * cuBLASLt on an H100 as found by the authors of mmaemu, whose bits these are.)
 *
 * The bound adds, step by step, what may be cut off: of a product nothing, where its last bit is not below 2^(E - 13),
 * else less than 2^(E - 13) and no more than all; of the sum so far and of the new one a unit each. E is the largest
 * that the sum so far may have. When fast it may have begun at any multiple of 128, since cuBLASLt may cut k in pieces.
 * What is added in f32 is left to the caller: k / 128 additions and the scalings. */
struct tensor_core_sum tensor_core_dot(const struct tensor_core_row *a, const struct tensor_core_row *b, bool fast);

#endif
