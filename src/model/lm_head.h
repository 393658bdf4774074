/* The language-model head: final norm, logits, cross-entropy. Last unit of every model. In a family with a transform
 * the normed input goes through dense, GELU and another norm before the logits:
 *   logits = W features + bias, features = norm(gelu(W_dense normed + bias_dense)), or normed itself.
 *
 * The rows of logits are padded to a multiple of LM_HEAD_ALIGNMENT elements, so that products of a vocabulary of 33 run
 * on aligned rows. What is between them is never computed, read or stored: it has no part in the softmax.
 *
 * In training all of its work is done in backward: the batch's tokens are cut into chunks, and for each chunk logits,
 * loss, gradient and both products follow each other, so only one chunk's logits are ever held and no GEMM is done
 * twice. Forward is empty in training; in evaluation it gives the losses (without gradients), in generation the logits
 * of those tokens that they are wanted of. */
#ifndef MODEL_LM_HEAD_H
#define MODEL_LM_HEAD_H

#include "model/execution.h"

enum lm_head_weight {
    LM_HEAD_MATRIX,
    LM_HEAD_NORM,
    LM_HEAD_NORM_BIAS,
    LM_HEAD_BIAS,
    LM_HEAD_DENSE,
    LM_HEAD_DENSE_BIAS,
    LM_HEAD_NORM2,
    LM_HEAD_NORM2_BIAS
};

enum { LM_HEAD_ALIGNMENT = 64 };

enum lm_head_tensor {
    LM_HEAD_NORMED = UNIT_FIRST_OWN,
    LM_HEAD_RSTD,
    LM_HEAD_MEAN,
    LM_HEAD_DENSE_OUT, /* to LM_HEAD_D_DENSE_OUT: of the transform */
    LM_HEAD_ACTIVATED,
    LM_HEAD_FEATURES,
    LM_HEAD_RSTD2,
    LM_HEAD_MEAN2,
    LM_HEAD_D_FEATURES,
    LM_HEAD_D_ACTIVATED,
    LM_HEAD_D_DENSE_OUT,
    LM_HEAD_LOGITS, /* of one chunk */
    LM_HEAD_LOSS,   /* [1, tokens] */
    LM_HEAD_LSE,    /* of one chunk */
    LM_HEAD_D_NORMED,
    LM_HEAD_ALL_FEATURES, /* with LM_HEAD_D_ALL_FEATURES: where tensor ranks cut the sequence */
    LM_HEAD_D_ALL_FEATURES,
    LM_HEAD_ROOM,       /* for its sum */
    LM_HEAD_STATISTICS, /* with LM_HEAD_ALL_LOGITS: where there are tensor ranks; of one chunk */
    LM_HEAD_ALL_LOGITS, /* in generation */
    LM_HEAD_ENDS,       /* in generation: input of the tokens whose logits are wanted */
    LM_HEAD_LINEARS     /* here: twice LINEAR_TENSORS, of dense and of the decoder */
};

/* Fills a zeroed unit. embedding: the unit whose matrix a tied head shares. head_tokens: tokens per chunk, at most the
 * micro-batch's. */
void lm_head_declare(struct unit *unit, struct unit *embedding, int64_t head_tokens);

/* Logits of the first `rows` tokens of a chunk, [rows, vocabulary]: without what pads the rows. Of this rank's part of
 * the vocabulary. */
struct tensor lm_head_logits(const struct execution *execution, const struct unit *unit, int64_t rows);
/* In generation: those of batch->ends, [their number, vocabulary], of all of it. */
struct tensor lm_head_end_logits(const struct execution *execution, const struct unit *unit);

#endif
