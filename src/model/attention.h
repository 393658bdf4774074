/* Attention of a block, between its first projection and its output projection. With context parallelism
 * (model_settings.context) it is the only layer in which a token interacts with tokens of other ranks, by one of three
 * methods, causal or not, with segments that begin and end anywhere:
 *
 *    gather  gathers keys and values of whole rows; sums and scatters their gradients in fp32
 *    heads   exchanges tokens for heads, so that each rank has whole rows of some heads, and exchanges the results back
 *    ring    passes keys and values around the ranks and merges partial results in fp32; the gradients of keys and
 *            values travel with them, in fp32
 *
 * In generation the ranks have the same tokens, and share the key-value cache (model/attention_cached.c). */
#ifndef MODEL_ATTENTION_H
#define MODEL_ATTENTION_H

#include "model/execution.h"

enum { ATTENTION_TENSORS = 16 };

/* Ids of the unit's tensors. */
struct attention {
    int fused;  /* [T, (heads + 2 kv_heads) * head_dim]: queries, keys and values of all heads, rotated */
    int output; /* [T, heads * head_dim]; the section of forward that makes it */
    int lse;    /* log-sum-exp, declared here */
    int first;  /* first of ATTENTION_TENSORS ids, declared here */
};

/* Checks the method of context parallelism. DECK_CONTEXT_HEADS: the heads can be divided among the ranks.
 * DECK_CONTEXT_RING: the model has no sliding window, because a rank's keys are two slices of a row, so differences of
 * their indices are not distances. ERROR_USER: the message names the keys. */
int attention_check(const struct model_settings *settings);

/* Declares the tensors of attention, and those of the method of context parallelism. */
void attention_declare(struct unit *unit, const struct attention *attention);

/* Computes the attention output, and lse, from the fused projection. */
void attention_forward(struct execution *execution, const struct unit *unit, const struct attention *attention);

/* Rotates queries and keys of fused in place; with inverse, their gradients back. */
void attention_rotate(struct execution *execution, const struct unit *unit, struct tensor fused, bool inverse);

/* Computes d_fused [T, columns of fused], the gradient of fused before rotation, from d_output [T, columns of output].
 */
void attention_backward(struct execution *execution, const struct unit *unit, const struct attention *attention,
                        struct tensor d_output, struct tensor d_fused);

/* Adds the attention tensors that are not kept for backward: always those of whole rows' keys and values, and with
 * `fused` those that are dropped with the fused projection. */
void attention_drop(struct id_set *set, const struct attention *attention, bool fused);

#endif
