/* The pre-norm transformer block of Llama:
 *   middle = x + W_o attention(rope(W_qkv rmsnorm(x)))
 *   y      = middle + W_down swiglu(W_gate_up rmsnorm(middle)) */
#ifndef MODEL_BLOCK_H
#define MODEL_BLOCK_H

#include "model/linear.h"

enum block_weight { BLOCK_QKV, BLOCK_O, BLOCK_GATE_UP, BLOCK_DOWN, BLOCK_NORM1, BLOCK_NORM2 };

/* Linears are numbered like their weights: model_settings.precision has LINEAR_COUNT entries a layer. */
enum { LINEAR_COUNT = 4 };

/* Ids of tensors; those up to BLOCK_GRADIENTS are made by forward, in this order. */
enum block_tensor {
    BLOCK_NORMED1 = UNIT_FIRST_OWN,
    BLOCK_RSTD1,
    BLOCK_QKV_OUT,
    BLOCK_ATTENTION,
    BLOCK_LSE,
    BLOCK_MIDDLE,
    BLOCK_NORMED2,
    BLOCK_RSTD2,
    BLOCK_GATE_UP_OUT,
    BLOCK_ACTIVATED,
    BLOCK_GRADIENTS, /* here: gradients, which live inside backward alone */
    BLOCK_D_ACTIVATED = BLOCK_GRADIENTS,
    BLOCK_D_GATE_UP,
    BLOCK_D_NORMED2,
    BLOCK_D_MIDDLE,
    BLOCK_D_ATTENTION,
    BLOCK_D_QKV,
    BLOCK_D_NORMED1,
    BLOCK_LINEARS /* here: LINEAR_COUNT times LINEAR_TENSORS */
};

/* Fills a zeroed unit whose layer is set. */
void block_declare(struct unit *unit);

#endif
