/* Declarations shared by the files of the block. */
#ifndef MODEL_BLOCK_PRIVATE_H
#define MODEL_BLOCK_PRIVATE_H

#include "model/block.h"
#include "model/head_norm.h"
#include "model/norm.h"

/* The ids of the block's components. */
extern const struct norm block_norm1, block_norm2;
extern const struct expert_ids block_experts;
extern const struct head_norm block_head_norm;
extern const struct attention block_attention;

extern const struct unit_class block_class;

bool block_is_post_norm(const struct unit *unit);

/* Returns whether the norms' backwards also sum the gradients that they write. These are output gradients of linears
 * in a pre-norm block, so the sums are bias gradients. With sequence parallelism they would cover only a part of the
 * tokens. */
bool block_norms_sum(const struct unit *unit);

/* Returns a linear layer, with its adapters, and the number of linear layers; with experts those of attention alone. */
struct linear block_linear(const struct unit *unit, enum block_weight weight);
int block_linear_count(const struct unit *unit);

/* Declares the block's weights and parameters, and those of its adapters (block_declare). */
void block_declare_weights(struct unit *unit, struct unit *adapters);

/* Returns the input of attention's or the MLP's first linear: x, the residual stream, or in a pre-norm block its norm,
 * the unit's tensor `id`. */
struct tensor block_input(const struct execution *e, const struct unit *unit, int id, struct tensor x);

/* The MLP's activation. y: the input of `down`. */
void block_activate(struct execution *e, const struct unit *unit, const struct linear *down, struct tensor x,
                    const struct operand *y);
/* x: the output of `up`; dx: its gradient. remade: the recomputed input of `down`. */
void block_activate_backward(struct execution *e, const struct unit *unit, const struct linear *up, struct tensor x,
                             struct tensor dy, struct tensor dx, struct quantized_operands remade);

/* The MLP in slices of tokens. addend: absent, or added to the output. */
void block_sliced_forward(struct execution *e, const struct unit *unit, struct tensor addend, struct tensor output);
/* Computes the activations of each slice again. Both halves of a split backward need the gradient of `activated`. */
void block_sliced_backward(struct execution *e, const struct unit *unit, struct tensor dy, struct tensor d_normed);

#endif
