/* Muon (Jordan et al. 2024; torch.optim.Muon) for the matrices of the blocks: the step is the momentum of the gradient,
 * orthogonalized by a Newton-Schulz iteration. A matrix is a parameter as Hugging Face's layout has it: q, k, v, gate
 * and up are orthogonalized alone, although a GEMM reads several of them as one weight.
 *
 * An iteration needs whole matrices. The momenta of a unit, in the compute type, are gathered over the sharding group,
 * then over the tensor ranks, but for matrices of experts, which are whole on one tensor rank. The ranks of the
 * sharding group, or without one the replicas, divide the unit's matrices among them; each orthogonalizes its own and
 * sends the results to the others. So ranks with the same elements have the same bits. Tensor ranks orthogonalize the
 * same split matrices by the same launches. Each rank then updates its own shard.
 */
#ifndef ENGINE_MUON_H
#define ENGINE_MUON_H

#include "store/store.h"

struct muon_settings {
    double lr_factor; /* learning rate, as a share of AdamW's */
    double momentum;
    bool nesterov;
    int steps; /* of the iteration */
    enum deck_adjust_lr adjustment;
};

enum { MUON_ITERATES = 2, MUON_SQUARES = 3 };

struct muon {
    struct muon_settings settings;
    struct group *tensor; /* borrowed; NULL: matrices are not split */
    struct group *owners; /* borrowed: the ranks that divide the matrices among them; NULL: this rank has all */
    int *owner;           /* [units * parameters]: the rank of `owners` that orthogonalizes a parameter */
    int parameters;       /* maximum number of a unit */
    enum dtype compute;   /* type of the tensors below, vectors as long as the largest unit needs */
    struct tensor flat;   /* momenta of a unit, later its orthogonal matrices; matrices begin as in its flat buffer */
    struct tensor parts;  /* split matrices of all tensor ranks; absent without tensor ranks */
    struct tensor x[MUON_ITERATES];     /* a whole matrix, and the next iterate */
    struct tensor square[MUON_SQUARES]; /* square matrices of its shorter side */
    struct tensor sum;                  /* f64 [1, 1]: of squares */
};

/* Arguments of muon_create. Pointers are borrowed for the life of struct muon, but for settings. */
struct muon_request {
    const struct muon_settings *settings;
    const struct model *model;
    struct weight_store *store;
    struct budget *budget; /* allocates the memory */
    struct group *shards;  /* the sharding group, in whose memory `flat` is; NULL: this rank owns all */
    struct group *owners;  /* shards, or without it the ranks that own all state */
    struct group *tensor;  /* NULL: one tensor rank */
    enum dtype compute;
};

/* Allocates memory for the largest unit with Muon; none if no unit has it. Collective over request->shards. */
void muon_create(struct muon *muon, const struct muon_request *request);
void muon_destroy(struct muon *muon);

/* The quantities that change from step to step, and with the unit. */
struct muon_step {
    struct tensor rate;  /* stat [1, 1]: AdamW's learning rate */
    struct tensor scale; /* stat [1, 1]: factor of the gradients; NaN: nothing changes */
    double weight_decay;
};

/* Updates a unit's matrices and their momenta. Collective over the owners and the tensor ranks. */
void muon_update(struct muon *muon, struct weight_store *store, struct unit *unit, struct stream *stream,
                 const struct muon_step *step);

/* Returns the factor of a step for a matrix [rows, cols]. */
double muon_adjust(enum deck_adjust_lr adjustment, int64_t rows, int64_t cols);

#endif
