/* Attention of a block, between its first projection and its output projection. Where ranks share rows of tokens
 * (model_settings.rows) this is the one layer in which a token meets those of other ranks, in one of these ways:
 *
 *   gather  keys and values of whole rows are gathered, and their gradients, in fp32, summed and scattered;
 *   heads   tokens are exchanged for heads: each rank has whole rows of some heads, and exchanges back;
 *   ring    keys and values go round the ranks, and parts of the result are merged in fp32; the keys' and values'
 *           gradients go round with them, in fp32.
 *
 * Causal or not, with segments that begin and end anywhere. */
#ifndef MODEL_ATTENTION_H
#define MODEL_ATTENTION_H

#include "model/execution.h"

enum { ATTENTION_TENSORS = 16 };

/* Ids of the unit's tensors. */
struct attention {
    int fused;  /* [T, (heads + 2 kv_heads) * head_dim]: queries, keys and values of all heads, rotated */
    int output; /* [T, heads * head_dim]; the section of forward that makes it */
    int lse;    /* declared here */
    int first;  /* of ATTENTION_TENSORS that are declared here */
};

/* Can the heads be divided among the ranks that share rows, where the method does so? ERROR_USER, naming the keys. */
int attention_check(const struct model_settings *settings);

void attention_declare(struct unit *unit, const struct attention *attention);

/* Makes the output of the fused projection. */
void attention_forward(struct execution *execution, const struct unit *unit, const struct attention *attention);

/* Rotates the queries and keys of fused, or, inverse, their gradients. */
void attention_rotate(struct execution *execution, const struct unit *unit, struct tensor fused, bool inverse);

/* d_fused [T, as fused], of fused before it was rotated, from d_output [T, as output]. */
void attention_backward(struct execution *execution, const struct unit *unit, const struct attention *attention,
                        struct tensor d_output, struct tensor d_fused);

/* Adds the tensors that are not kept from forward to backward, with those of fused where that is dropped. Keys and
 * values of whole rows never are kept. */
void attention_drop(struct id_set *set, const struct attention *attention, bool fused);

#endif
