/* The adapters of a linear layer (architecture/lora.h): y += s (d(x) A') B', with s = alpha / r. d is dropout in
 * training, one mask for all adapters of the linear layer; it is recomputed in backward. A linear layer whose weight
 * has several parameters, one below the other, has an adapter for each that is a target. Their A matrices lie one below
 * the other in one weight, and their B matrices in another, so that one GEMM computes x A' of all.
 *
 * A block borrows these weights from a unit of its own, which is in no chunk: it has the adapters of one block, and the
 * block's own weights are frozen. The weight store, the optimizer and checkpoints see whole units only.
 *
 * Tensor parallelism. Column-parallel: each rank has all of A and the rows of B of its outputs, and computes a term of
 * A's gradient. Row-parallel: each rank has the columns of A of its inputs and all of B, and computes a term of y,
 * which is summed with W's, and a term of B's gradient. */
#ifndef MODEL_LINEAR_ADAPTER_H
#define MODEL_LINEAR_ADAPTER_H

#include "model/execution.h"

enum { ADAPTER_PARTS = 3 /* q, k and v */ };

struct linear_adapter {
    int count; /* 0: the linear layer has no adapters */
    struct {
        int64_t first, rows; /* this rank's outputs of the linear layer that the adapter adds to */
    } parts[ADAPTER_PARTS];
    int a, b;              /* ids of the unit's weights [count * r, in] and [rows of all parts, r] */
    int adapted, gradient; /* ids of the unit's tensors for s d(x) A' and its gradient */
    int dropped;           /* id of the unit's tensor for d(x), then for dx before its dropout */
    uint32_t salt;         /* of the dropout, different in each linear layer of the model */
    bool splits_inputs;    /* tensor parallelism: a rank has a part of the linear layer's inputs */
    int64_t first_token;   /* the first token of the slice of the micro-batch that x, dy and dx have */
};

/* Makes a unit of the adapters that a block borrows. Fills a zeroed unit whose layer is set. */
void adapters_declare(struct unit *unit);

/* Declares the tensors of the linear layer's adapters. tokens: maximum number of tokens in a call, as declared; inputs:
 * this rank's inputs of the linear layer. */
void adapter_declare(struct unit *unit, const struct linear_adapter *adapter, int64_t tokens, int64_t inputs);

/* The functions below do nothing without adapters. x: [T, in]; y, dy: [T, out]; dx: [T, in]. */

/* Makes s d(x) A', which the backward reads too. */
void adapter_project(const struct execution *execution, const struct unit *unit, const struct linear_adapter *adapter,
                     struct tensor x);
/* y += s d(x) A' B', after adapter_project. */
void adapter_forward(const struct execution *execution, const struct unit *unit, const struct linear_adapter *adapter,
                     struct tensor y);
/* Makes s dy B, which the two functions below read. */
void adapter_gradient(const struct execution *execution, const struct unit *unit, const struct linear_adapter *adapter,
                      struct tensor dy);
/* dx += d'(s dy B A) */
void adapter_input_gradient(const struct execution *execution, const struct unit *unit,
                            const struct linear_adapter *adapter, struct tensor dx);
/* The gradients of A and B. adds: adds to gradients of an earlier slice of the micro-batch. */
void adapter_weight_gradients(const struct execution *execution, const struct unit *unit,
                              const struct linear_adapter *adapter, struct tensor x, struct tensor dy, bool adds);

#endif
