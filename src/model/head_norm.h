/* Norms of queries and keys (QK norm), after the projection and before rope: RMSNorm of each head, with one gain for
 * all query heads and one for all key heads, or a norm over all heads (model/projection_norm.h). Only in families whose
 * names have them. */
#ifndef MODEL_HEAD_NORM_H
#define MODEL_HEAD_NORM_H

#include "model/execution.h"

/* Ids of the gains and of the statistics: [heads of the rank, T], or [1, T] over all heads. Over all heads only: means,
 * and the first id of PROJECTION_NORM_TENSORS tensors. */
struct head_norm {
    int q_weight, k_weight;
    int q_rstd, k_rstd;
    int q_mean, k_mean;
    int gathering;
};

/* Returns whether the unit's family norms queries and keys. */
bool head_norm_present(const struct unit *unit);

/* Declares gains and statistics, with parameters "<layer>.<family's name>.weight"; nothing without head norms. Each
 * tensor rank has all of a gain. */
void head_norm_declare(struct unit *unit, const struct head_norm *norm, const char *layer);

/* Computes fused: normed queries and keys, and the values as they are. projected, fused: [T, (heads + 2 kv_heads) *
 * head_dim]. */
void head_norm_forward(const struct execution *execution, const struct unit *unit, const struct head_norm *norm,
                       struct tensor projected, struct tensor fused);

/* Computes the gradients that execution->gradients requests: d_projected from d_fused, and those of the gains. */
void head_norm_backward(const struct execution *execution, const struct unit *unit, const struct head_norm *norm,
                        struct tensor projected, struct tensor d_fused, struct tensor d_projected);

#endif
