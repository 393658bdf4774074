/* The oracle: an executor that implements every op of core/op.h in plain double-precision loops, meant to be read
 * beside the op's definition. Elements are loaded to double, an op computes in double and rounds once on store, so
 * every float type does for every "f" and "stat" tensor, f64 included. Other executors are compared with it. */
#ifndef TESTS_REF_REFERENCE_H
#define TESTS_REF_REFERENCE_H

#include "core/launch.h"

/* An executor named "reference". Synchronous: streams and events need no work. Free with class->destroy. */
struct executor *reference_executor_create(void);

/* Element (row, col) of a tensor of any dtype as a double. */
double reference_load(const struct tensor *tensor, int64_t row, int64_t col);

/* Rounds to the tensor's dtype once, to nearest, ties to even (8-bit floats saturate; core/dtype.h). */
void reference_store(const struct tensor *tensor, int64_t row, int64_t col, double value);

/* Element of an i32 [1, n] tensor. */
int64_t reference_index(const struct tensor *tensor, int64_t i);

#endif
