/* The oracle: an executor that implements every op of core/op.h in plain loops of doubles, to be read next to the op's
 * definition. Elements are loaded as doubles, an op computes in double and rounds once on store, so all "f" and "stat"
 * tensors may have any float type, including f64. Other executors are compared with it. */
#ifndef TESTS_REF_REFERENCE_H
#define TESTS_REF_REFERENCE_H

#include "core/launch.h"

/* Makes an executor named "reference". It is synchronous: streams and events need no work. Free with class->destroy. */
struct executor *reference_executor_create(void);

/* Returns element (row, col) of a tensor of any dtype as a double. */
double reference_load(const struct tensor *tensor, int64_t row, int64_t col);

/* Stores a value, rounded to the tensor's dtype once, to nearest, ties to even (8-bit floats saturate;
 * core/dtype.h). */
void reference_store(const struct tensor *tensor, int64_t row, int64_t col, double value);

/* Returns an element of an i32 [1, n] tensor. */
int64_t reference_index(const struct tensor *tensor, int64_t i);

/* Returns how many of `rows` rows an op writes: those before the last of ends, if ends is present. */
int64_t reference_written_rows(const struct tensor *ends, int64_t rows);

#endif
