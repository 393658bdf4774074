/* How far an fp32 executor may be from the oracle before its result is rounded for storage, derived from the length
 * of each sum and the unit roundoff (Higham, "Accuracy and Stability of Numerical Algorithms", ch. 3), for any order
 * of summation, with or without fused multiply-add. Nothing here is fitted to an executor. */
#ifndef TESTS_REF_BOUNDS_H
#define TESTS_REF_BOUNDS_H

#include "trial.h"

/* Sets trial->bounds for an op with these args, from the values in the trial's memory. */
void bounds_set(struct trial *trial, enum op op, const void *args);

/* From now on, for executors with matrix units that read bf16 and libraries that drive them: in bf16 attention the
 * probabilities, and the scores' gradients, may be rounded to bf16 before they are multiplied with v, d_o, k and q; a
 * product may be rounded to d's type before c and a bias are added to it, and between them (cuBLASLt's do, on an H200,
 * with a bf16 c). */
void bounds_of_matrix_units(void);

/* From now on, for libraries whose attention makes dk and dv of each query head first, rounded to their dtype, and then
 * adds those of heads that share a kv head (cuDNN's does). */
void bounds_of_separate_heads(void);

#endif
