/* Bounds for the error of an fp32 executor before its result is rounded for storage. They are derived from the length
 * of each sum and the unit roundoff (Higham, "Accuracy and Stability of Numerical Algorithms", ch. 3), and hold for any
 * order of summation, with or without fused multiply-add. Nothing here is fitted to an executor. */
#ifndef TESTS_REF_BOUNDS_H
#define TESTS_REF_BOUNDS_H

#include "trial.h"

/* Sets trial->bounds for an op with these args, from the values in the trial's memory. */
void bounds_set(struct trial *trial, enum op op, const void *args);

/* Extends later bounds for executors whose matrix units read bf16. In bf16 attention, the probabilities and the
 * gradients of scores may be rounded to bf16 before they are multiplied with v, d_o, k and q. A matrix product may be
 * rounded to d's type before c and a bias are added, and between the two additions (cuBLASLt does so on an H200, with a
 * bf16 c). */
void bounds_of_matrix_units(void);

#endif
