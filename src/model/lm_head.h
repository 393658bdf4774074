/* The language-model head: final norm, logits, cross-entropy. Last unit of a causal model.
 *
 * In training all of its work is done in backward: the batch's tokens are cut into chunks, and for each chunk logits,
 * loss, gradient and both products follow each other, so only one chunk's logits are ever held and no GEMM is done
 * twice. Forward is empty in training; in evaluation it gives the losses (without gradients), in generation the logits
 * of the last token. */
#ifndef MODEL_LM_HEAD_H
#define MODEL_LM_HEAD_H

#include "model/unit.h"

enum lm_head_weight { LM_HEAD_MATRIX, LM_HEAD_NORM };

enum lm_head_tensor {
    LM_HEAD_NORMED = UNIT_FIRST_OWN,
    LM_HEAD_RSTD,
    LM_HEAD_LOGITS, /* of one chunk; row 0 in generation: the last token's */
    LM_HEAD_LOSS,   /* [1, tokens] */
    LM_HEAD_LSE,    /* of one chunk */
    LM_HEAD_D_NORMED
};

/* Fills a zeroed unit. embedding: the unit whose matrix a tied head shares. head_tokens: tokens per chunk, at most the
 * micro-batch's. */
void lm_head_declare(struct unit *unit, struct unit *embedding, int64_t head_tokens);

#endif
