/* Toy models and batches for tests of the training step. */
#ifndef TESTS_REF_TOY_H
#define TESTS_REF_TOY_H

#include "comm/comm.h"
#include "deck/fields.h"
#include "engine/engine.h"

/* Returns a model of 3 layers, hidden 32, vocabulary 40; causal ones have grouped-query attention, the
 * Qwen all biases and norms of q and k, the Mistral a sliding window in all layers but the first, the
 * Mixtral 2 of 4 experts for each token. */
enum toy_kind {
    TOY_LLAMA,
    TOY_LLAMA_TIED,
    TOY_ESM2,
    TOY_AMPLIFY,
    TOY_QWEN,
    TOY_MISTRAL,
    TOY_ESMC,
    TOY_MIXTRAL,
    TOY_OLMO2,
    TOY_NTV2,
    TOY_KINDS
};
struct model_settings toy_settings(enum toy_kind kind);

/* Returns the standard deviation of a kind's initial embeddings, so that what blocks add to the residual stream is not
 * much larger than the stream, which would amplify rounding: `std`, over the number by which the family multiplies
 * embeddings; 1 for norms that follow attention and MLP, since these add rows of size 1. */
double toy_embedding_std(enum toy_kind kind, double std);

/* Returns a recipe (enum deck_recipe) for all linear layers of a toy model, with histories of 4 steps. */
struct precision toy_precision(int recipe);

/* Returns a deck of a Llama with 3 layers, hidden 64; 22 rows of 128 tokens per step, 4 per micro-batch. */
struct deck toy_deck(void);

/* Makes a batch of random tokens. Row r has 1 + r % 3 segments of random lengths, followed by padding. About one label
 * in five is ignored; about one token in five has the factor 0, the others 0.5 to 1.5. key selects the content. */
void toy_batch(struct batch *batch, int64_t rows, int64_t row_tokens, uint64_t key);

struct toy {
    struct model model;
    struct engine engine;
    struct comm *self;
    struct group *own_group;
};

struct toy_options {
    struct model_settings settings;
    struct executor *executor;
    struct group *group;                  /* ranks that each own all state; NULL: one rank */
    const struct parallel_groups *groups; /* NULL: only `group` */
    struct sharding sharding;
    enum dtype compute; /* statistics are f32 */
    int slots;
    const struct schedule *schedule; /* gives the chunks their slots; NULL: one chunk with `slots` */
    bool split_backward, replays;
    bool lends; /* gradients use the memory of activations (struct memory_settings), for steps of one micro-batch */
    enum deck_recompute recompute;                        /* for layers that settings.recompute does not name */
    int64_t rows, row_tokens, max_segments;               /* of a micro-batch */
    int64_t head_tokens;                                  /* 0 = all */
    void (*place)(struct model *model, const void *self); /* NULL: parameters are whole */
    const void *self;                                     /* of place */
    struct muon_settings muon;                            /* of a model with Muon */
    struct comm *tensor;                                  /* as in struct engine_settings, as class_weights */
    const float *class_weights;
};

/* Returns the defaults: toy_settings(TOY_LLAMA), fp32, one slot, 2 rows of 48 tokens, 4 segments, no recomputing. */
struct toy_options toy_options(struct executor *executor);
/* Makes a toy, initialised with seed 7 unless the executor is dry. */
void toy_create(struct toy *toy, const struct toy_options *options);
void toy_destroy(struct toy *toy);

/* Returns all state of a training engine as bytes in a fixed order: weights, gradients, m, v, the count of updates and
 * delayed scaling. Freed with free(). */
char *toy_state(const struct toy *toy, int64_t *bytes);
/* As toy_state, with only the gradients. */
char *toy_gradients(const struct toy *toy, int64_t *bytes);
void toy_restore(struct toy *toy, const char *state);

#endif
