/* The fine-tuning head: final norm, one linear layer or two, and a loss. Last unit of a model whose settings->task says
 * so, in place of the language-model head:
 *
 *    outputs = W x + bias, x = tanh(W_dense pooled + bias_dense), or pooled itself (struct family_task)
 *
 * Losses are cross-entropy over classes (problem DECK_PROBLEM_CLASSIFICATION), or the mean squared error of numbers.
 *
 * The loader decides what is pooled, by the tokens to which it gives a sequence's label. With DECK_POOLING_FIRST and
 * _LAST it labels one token of a segment, and the head computes a compact matrix of these rows
 * (data/labelled_rows.h). With DECK_POOLING_MEAN it labels several, and the head averages their rows after the final
 * norm. A head for tokens computes all rows.
 *
 * Tensor ranks all compute the whole head, after the final norm. With sequence parallelism each normalises its own
 * tokens, and the rows are gathered.
 *
 * As in the language-model head, all work of training is done in backward. */
#ifndef MODEL_TASK_HEAD_H
#define MODEL_TASK_HEAD_H

#include "model/execution.h"

enum task_head_weight {
    TASK_HEAD_NORM,
    TASK_HEAD_NORM_BIAS,
    TASK_HEAD_DENSE, /* only in a family with two linear layers */
    TASK_HEAD_DENSE_BIAS,
    TASK_HEAD_OUTPUT,
    TASK_HEAD_OUTPUT_BIAS
};

enum { TASK_HEAD_ALIGNMENT = 64 /* elements, of rows of outputs */ };

enum task_head_tensor {
    TASK_HEAD_NORMED = UNIT_FIRST_OWN, /* the same id as LM_HEAD_NORMED: engine_embed reads both */
    TASK_HEAD_RSTD,
    TASK_HEAD_MEAN,
    TASK_HEAD_INPUT, /* DECK_POOLING_FIRST and _LAST: rows of the input, and their gradient */
    TASK_HEAD_D_INPUT,
    TASK_HEAD_POOLED, /* DECK_POOLING_MEAN, as TASK_HEAD_D_POOLED */
    TASK_HEAD_D_POOLED,
    TASK_HEAD_DENSE_OUT, /* two linear layers only, to TASK_HEAD_D_ACTIVATED */
    TASK_HEAD_ACTIVATED,
    TASK_HEAD_D_ACTIVATED,
    TASK_HEAD_OUTPUTS, /* the outputs of the rows that the head computes; in backward, their gradient */
    TASK_HEAD_LOSS,    /* [1, tokens], as TASK_HEAD_LSE: of these rows */
    TASK_HEAD_LSE,
    TASK_HEAD_D_NORMED,
    TASK_HEAD_ALL_NORMED, /* sequence parallelism: of all tensor ranks */
    TASK_HEAD_D_ALL_NORMED,
    TASK_HEAD_LINEARS /* LINEAR_TENSORS ids of dense, then of the output layer */
};

/* Fills a zeroed unit. */
void task_head_declare(struct unit *unit);

/* Returns the outputs of the last forward, [rows that the head computed, settings->task.labels]: a view without
 * padding. */
struct tensor task_head_outputs(const struct execution *execution, const struct unit *unit);
/* Returns the labels of these rows, i32 [1, rows]: negative for rows without one. */
struct tensor task_head_labels(const struct execution *execution, const struct unit *unit);

#endif
