/* The transformer block. Pre-norm:
 *   middle = x + W_o attention(rope(head_norm(W_qkv norm(x))))
 *   y      = middle + W_down activation(W_up norm(middle))
 * Post-norm (family->post_norm), whose residual stream has no norm but those of what is added to it:
 *   middle = x + norm(W_o attention(rope(head_norm(W_qkv x))))
 *   y      = middle + norm(W_down activation(W_up middle))
 * Norm, head norm, activation, biases, the form of rope and whether attention is causal are the family's
 * (architecture/family.h). A mixture of experts may take the place of the MLP (model/experts.h). */
#ifndef MODEL_BLOCK_H
#define MODEL_BLOCK_H

#include "model/attention.h"
#include "model/experts.h"
#include "model/projection_norm.h"
#include "model/linear.h"

enum block_weight {
    BLOCK_QKV,
    BLOCK_O,
    BLOCK_UP, /* SwiGLU: the gate's rows, then up's */
    BLOCK_DOWN,
    BLOCK_NORM1,
    BLOCK_NORM2,
    BLOCK_BIASES, /* biases of the linear layers, in their order */
    BLOCK_NORM1_BIAS = BLOCK_BIASES + BLOCK_DOWN + 1,
    BLOCK_NORM2_BIAS,
    BLOCK_Q_NORM,
    BLOCK_K_NORM,
    BLOCK_ROUTER,  /* with experts: BLOCK_UP and BLOCK_DOWN have the rows of all, one expert's after the other's */
    BLOCK_ADAPTERS /* A and B of the adapters of each linear layer, in their order; lent by another unit */
};

/* Linears (architecture/precision.h) are numbered like their weights. */
_Static_assert((int)BLOCK_QKV == LINEAR_QKV && (int)BLOCK_DOWN == LINEAR_DOWN, "one order");

/* Ids of tensors. Forward makes those before BLOCK_GRADIENTS, in this order; a post-norm block has no normed tensors,
 * and makes a norm's statistics after the norm's input. */
enum block_tensor {
    BLOCK_NORMED1 = UNIT_FIRST_OWN,
    BLOCK_RSTD1,
    BLOCK_MEAN1,
    BLOCK_PROJECTED, /* with head norms: the projection before them; else this is BLOCK_QKV_OUT before rope */
    BLOCK_Q_RSTD,
    BLOCK_K_RSTD,
    BLOCK_Q_MEAN,
    BLOCK_K_MEAN,
    BLOCK_QKV_OUT,
    BLOCK_ATTENTION,
    BLOCK_LSE,
    BLOCK_O_OUT, /* post-norm: the output of o, before its norm */
    BLOCK_MIDDLE,
    BLOCK_NORMED2,
    BLOCK_RSTD2,
    BLOCK_MEAN2,
    BLOCK_UP_OUT,
    BLOCK_ACTIVATED,
    BLOCK_DOWN_OUT,  /* post-norm: the output of down, before its norm */
    BLOCK_GRADIENTS, /* gradients, which exist only during backward */
    BLOCK_D_DOWN_OUT = BLOCK_GRADIENTS,
    BLOCK_D_ACTIVATED,
    BLOCK_D_UP,
    BLOCK_D_NORMED2,
    BLOCK_D_MIDDLE,
    BLOCK_D_O_OUT,
    BLOCK_D_ATTENTION,
    BLOCK_D_HEADS, /* with head norms: the gradient of their output */
    BLOCK_D_QKV,
    BLOCK_D_NORMED1,
    BLOCK_LINEARS,                                                  /* LINEAR_COUNT times LINEAR_TENSORS ids */
    BLOCK_EXCHANGE = BLOCK_LINEARS + LINEAR_COUNT * LINEAR_TENSORS, /* ATTENTION_TENSORS ids */
    BLOCK_GATHERING = BLOCK_EXCHANGE + ATTENTION_TENSORS,           /* PROJECTION_NORM_TENSORS ids */
    BLOCK_EXPERTS = BLOCK_GATHERING + PROJECTION_NORM_TENSORS       /* EXPERTS_TENSORS ids */
};

/* Returns whether the unit is a block that computes its MLP in slices of settings->mlp_tokens tokens: for very long
 * rows, since the activations between its GEMMs, up to 4 ffn numbers a token, then have memory for one slice only.
 * Backward recomputes them, and adds each slice's weight gradients. Not with quantized GEMMs, tensor parallelism or
 * experts. */
bool block_is_sliced(const struct unit *unit);

/* Fills a zeroed unit whose layer is set. adapters: the unit of the block's adapters (model/linear_adapter.h), whose
 * weights this call declares; NULL: the block has none. */
void block_declare(struct unit *unit, struct unit *adapters);

/* Declares UNIT_INPUT_GRADIENT_SUM in a unit after a block, if the sum is the gradient of the block's last bias. */
void block_declare_sum(struct unit *unit);

/* Returns the tensors of a unit that a recompute policy drops. only_norms drops both norms' outputs. Each of the others
 * drops more than the one before it:
 *
 *    none        nothing
 *    activation  its output
 *    norms       both norms' outputs, and their rows in the order of experts; post-norm: the middle residual
 *    gate_up     its output, and the outputs of experts
 *    qkv         its output
 *    attention   its output and statistics
 *    full        the middle residual; post-norm: the outputs of o and down. Only the block's input is kept */
struct id_set block_dropped_by(const struct unit *unit, enum deck_recompute policy);

#endif
