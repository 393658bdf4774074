/* Norm of a projection over all its heads: LayerNorm without bias, or RMSNorm, as the family says. A tensor rank has
 * the columns of its heads, so it gathers the columns of all ranks, norms whole rows, and returns its own columns. */
#ifndef MODEL_PROJECTION_NORM_H
#define MODEL_PROJECTION_NORM_H

#include "model/execution.h"

/* Tensors for gathering, from projection_norm.first on; several norms may share them. */
enum projection_norm_tensor {
    PROJECTION_GATHERED, /* the columns of each rank, one rank after the other */
    PROJECTION_ROWS,     /* whole rows: the projection, ... */
    PROJECTION_RESULT,   /* ... what the norm or its backward makes of it ... */
    PROJECTION_GRADIENT, /* ... and the gradient of the norm's output */
    PROJECTION_NORM_TENSORS
};

struct projection_norm {
    int weight, rstd, mean; /* ids of the gain [1, heads * head_dim] and of the statistics [1, T] */
    int first;              /* first id of the tensors above */
    int64_t heads;          /* of all ranks */
    int64_t columns;        /* of this rank */
};

/* Declares gain and statistics, with the parameter "<layer>.<name>.weight", and the tensors for gathering, unless a
 * norm with as many columns or more has declared them. Each tensor rank has the whole gain and computes its whole
 * gradient.
 */
void projection_norm_declare(struct unit *unit, const struct projection_norm *norm, const char *layer,
                             const char *name);

/* Computes y = norm(x) and its statistics. x, y: [T, columns]. Collective over the tensor ranks. */
void projection_norm_forward(const struct execution *execution, const struct unit *unit,
                             const struct projection_norm *norm, struct tensor x, struct tensor y);

/* Computes the gradients that execution->gradients requests: dx [T, columns], and that of the gain. Tensor ranks with
 * the same heads each have a term of dy, and the first of them gets dx, the others zeros. Collective over the tensor
 * ranks. */
void projection_norm_backward(const struct execution *execution, const struct unit *unit,
                              const struct projection_norm *norm, struct tensor x, struct tensor dy, struct tensor dx);

#endif
