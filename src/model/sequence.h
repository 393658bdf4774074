/* Sequence parallelism (tensor_parallel.sequence): between linear layers (norms, residual stream) each tensor rank has
 * a part of the tokens, in rank order; elsewhere every rank has all. All functions but sequence_parallel need tensor
 * parallelism. */
#ifndef MODEL_SEQUENCE_H
#define MODEL_SEQUENCE_H

#include "model/execution.h"

/* Returns whether the unit's model uses sequence parallelism. */
static inline bool sequence_parallel(const struct unit *unit)
{
    return unit->settings->tensor.sequence;
}

/* Returns this rank's rows of all tokens' rows [T, any]. */
struct tensor sequence_own(const struct execution *execution, struct tensor all);

/* Copies this rank's rows, own [T / ranks, n], to their place in all [T, n]. */
void sequence_place(const struct execution *execution, struct tensor own, struct tensor all);
/* Gathers all [T, n], in which this rank's rows are in place. A copy to their place on a concurrent stream would wait
 * for a GEMM that has all SMs, and the transfer with it. Collective over the tensor ranks. */
void sequence_gather(const struct execution *execution, struct tensor all);

/* With sequence parallelism: declares tensor `scratch`, scratch for sums over ranks of [T, columns], T at most
 * `tokens`.
 */
void sequence_declare_scratch(struct unit *unit, int scratch, int64_t tokens, int64_t columns);

/* Sums partial [T, n] over the tensor ranks. With sequence parallelism, sum [T / ranks, n] receives this rank's rows,
 * and `scratch` is the scratch's id. Without it, `sum` is `partial` and receives all rows. Collective. */
void sequence_sum(const struct execution *execution, const struct unit *unit, struct tensor partial, struct tensor sum,
                  int scratch);

#endif
