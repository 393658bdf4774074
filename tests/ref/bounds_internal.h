/* Shared by the bounds of all ops. */
#ifndef TESTS_REF_BOUNDS_INTERNAL_H
#define TESTS_REF_BOUNDS_INTERNAL_H

#include "bounds.h"

/* Unit roundoff of fp32: one operation is off by at most this, relatively. */
#define BOUNDS_U 0x1p-24

/* What exp, log, sqrt and 1 / x of an executor may be off by, relatively: four units in the last place. */
#define BOUNDS_FUNCTION (8.0 * BOUNDS_U)

/* n roundings one after the other, and so any sum of n products with its multiplications. */
static inline double bounds_gamma(double n)
{
    return n * BOUNDS_U / (1.0 - n * BOUNDS_U);
}

void bounds_attention_forward(struct trial *trial, const struct attention_forward_args *args);
void bounds_attention_backward(struct trial *trial, const struct attention_backward_args *args);

#endif
