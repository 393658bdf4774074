/* The language-model head: final norm, logits, cross-entropy. Last unit of every model. In a family with a transform,
 * dense, GELU and another norm come before the logits:
 *
 *    logits = W features + bias, features = norm(gelu(W_dense normed + bias_dense)), or normed itself
 *
 * Rows of logits are padded to a multiple of LM_HEAD_ALIGNMENT elements, so that GEMMs with a vocabulary of 33 have
 * aligned rows. The padding is never computed, read or stored, and has no part in the softmax.
 *
 * In training all work is done in backward: the tokens are split into slices, and each slice's logits, loss, gradient
 * and GEMMs follow each other, so only one slice's logits are in memory and no GEMM runs twice. Forward is empty in
 * training; in evaluation it computes the losses, in PASS_LOGITS and generation the requested logits.
 *
 * In masked training (settings->label_probability) all of this is done for a compact matrix of rows: those of tokens
 * with labels, and a few more up to a fixed number (data/labelled_rows.h). Only the gradient of the input has a row a
 * token. */
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
    LM_HEAD_DENSE_OUT, /* transform only, to LM_HEAD_D_DENSE_OUT */
    LM_HEAD_ACTIVATED,
    LM_HEAD_FEATURES,
    LM_HEAD_RSTD2,
    LM_HEAD_MEAN2,
    LM_HEAD_D_FEATURES,
    LM_HEAD_D_ACTIVATED,
    LM_HEAD_D_DENSE_OUT,
    LM_HEAD_LOGITS, /* logits of one slice */
    LM_HEAD_LOSS,   /* [1, tokens]: of the rows that the head computes */
    LM_HEAD_LSE,    /* log-sum-exp of one slice */
    LM_HEAD_D_NORMED,
    LM_HEAD_ALL_FEATURES, /* sequence parallelism only, as LM_HEAD_D_ALL_FEATURES and LM_HEAD_SCRATCH */
    LM_HEAD_D_ALL_FEATURES,
    LM_HEAD_SCRATCH,    /* scratch for a sum */
    LM_HEAD_STATISTICS, /* tensor parallelism only, as LM_HEAD_ALL_LOGITS; of one slice */
    LM_HEAD_ALL_LOGITS, /* PASS_LOGITS and generation only */
    LM_HEAD_INPUT,      /* masked training: rows of the input that the head computes, and their gradient */
    LM_HEAD_D_INPUT,
    LM_HEAD_ENDS,   /* PASS_LOGITS and generation: input rows of the tokens whose logits are requested */
    LM_HEAD_LINEARS /* LINEAR_TENSORS ids of dense, then of the decoder */
};

/* Fills a zeroed unit. embedding: the unit whose matrix a tied head uses. head_tokens: tokens per slice, limited to the
 * micro-batch's. */
void lm_head_declare(struct unit *unit, struct unit *embedding, int64_t head_tokens);

/* Returns the logits of the first `rows` tokens of a slice, [rows, this rank's vocabulary]: a view without padding. */
struct tensor lm_head_logits(const struct execution *execution, const struct unit *unit, int64_t rows);
/* Returns the logits of the tokens in batch->ends (PASS_LOGITS and generation), at most one slice of the head: [number
 * of ends, whole vocabulary]. */
struct tensor lm_head_end_logits(const struct execution *execution, const struct unit *unit);

#endif
