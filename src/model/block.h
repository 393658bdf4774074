/* The pre-norm transformer block:
 *   middle = x + W_o attention(rope(W_qkv norm(x)))
 *   y      = middle + W_down activation(W_up norm(middle))
 * Norm, activation, biases, the form of rope and whether attention is causal are the family's (architecture/family.h).
 */
#ifndef MODEL_BLOCK_H
#define MODEL_BLOCK_H

#include "model/attention.h"
#include "model/linear.h"

enum block_weight {
    BLOCK_QKV,
    BLOCK_O,
    BLOCK_UP, /* of SwiGLU the gate's rows, then up's */
    BLOCK_DOWN,
    BLOCK_NORM1,
    BLOCK_NORM2,
    BLOCK_BIASES, /* here: of the linear layers, in their order */
    BLOCK_NORM1_BIAS = BLOCK_BIASES + BLOCK_DOWN + 1,
    BLOCK_NORM2_BIAS
};

/* Linears (architecture/precision.h) are numbered like their weights. */
_Static_assert((int)BLOCK_QKV == LINEAR_QKV && (int)BLOCK_DOWN == LINEAR_DOWN, "one order");

/* Ids of tensors; those up to BLOCK_GRADIENTS are made by forward, in this order. */
enum block_tensor {
    BLOCK_NORMED1 = UNIT_FIRST_OWN,
    BLOCK_RSTD1,
    BLOCK_MEAN1,
    BLOCK_QKV_OUT,
    BLOCK_ATTENTION,
    BLOCK_LSE,
    BLOCK_MIDDLE,
    BLOCK_NORMED2,
    BLOCK_RSTD2,
    BLOCK_MEAN2,
    BLOCK_UP_OUT,
    BLOCK_ACTIVATED,
    BLOCK_GRADIENTS, /* here: gradients, which live inside backward alone */
    BLOCK_D_ACTIVATED = BLOCK_GRADIENTS,
    BLOCK_D_UP,
    BLOCK_D_NORMED2,
    BLOCK_D_MIDDLE,
    BLOCK_D_ATTENTION,
    BLOCK_D_QKV,
    BLOCK_D_NORMED1,
    BLOCK_LINEARS,                                                 /* here: LINEAR_COUNT times LINEAR_TENSORS */
    BLOCK_EXCHANGE = BLOCK_LINEARS + LINEAR_COUNT * LINEAR_TENSORS /* here: ATTENTION_TENSORS */
};

/* Fills a zeroed unit whose layer is set. */
void block_declare(struct unit *unit);

/* Declares UNIT_INPUT_GRADIENT_SUM in a unit behind a block where it is the gradient of the block's last bias. */
void block_declare_sum(struct unit *unit);

/* The tensors that a policy of the deck does not keep from forward to backward. only_norms: both norms' outputs. Of the
 * others each drops more than the one before:
 *   none -; activation: its output; norms: both norms' outputs; gate_up; qkv; attention: its output and statistics;
 *   full: also the middle residual, so that only the block's input is kept. */
struct id_set block_dropped_by(enum deck_recompute policy);

#endif
