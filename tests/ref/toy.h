/* Toy models and batches for tests of the step. */
#ifndef TESTS_REF_TOY_H
#define TESTS_REF_TOY_H

#include "comm/comm.h"
#include "deck/fields.h"
#include "engine/engine.h"

/* Models of 3 layers, hidden 32, vocabulary 40; the Llamas have grouped-query attention. */
enum toy_kind { TOY_LLAMA, TOY_LLAMA_TIED, TOY_ESM2, TOY_AMPLIFY, TOY_KINDS };
struct model_settings toy_settings(enum toy_kind kind);

/* A recipe (enum deck_recipe) for all linears of such a model, with histories of 4 steps. */
struct precision toy_precision(int recipe);

/* A Llama of 3 layers, hidden 64; 22 rows of 128 tokens a step, 4 to a micro-batch. */
struct deck toy_deck(void);

/* Random tokens in `rows` rows; row r holds 1 + r % 3 segments of random lengths with padding behind them; about one
 * label in five is ignored, and about one token in five has the factor 0, others 0.5 to 1.5. key chooses the content.
 */
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
    struct group *group;                  /* whose ranks hold everything each; NULL: one rank alone */
    const struct parallel_groups *groups; /* NULL: only `group` */
    struct sharding sharding;
    enum dtype compute; /* statistics are f32 */
    int slots;
    const struct schedule *schedule; /* whose slots the chunks have; NULL: one chunk has `slots` */
    bool split_backward, replays;
    enum deck_recompute recompute;                        /* of layers that settings.recompute does not name */
    int64_t rows, row_tokens, max_segments;               /* of a micro-batch */
    int64_t head_tokens;                                  /* 0 = all */
    void (*place)(struct model *model, const void *self); /* NULL: parameters are whole */
    const void *self;                                     /* of place */
    struct comm *tensor;                                  /* of struct engine_settings */
};

/* Defaults: toy_settings(TOY_LLAMA), fp32, one slot, 2 rows of 48 tokens, 4 segments, keep all. */
struct toy_options toy_options(struct executor *executor);
/* Initialised with seed 7, where the executor runs anything. */
void toy_create(struct toy *toy, const struct toy_options *options);
void toy_destroy(struct toy *toy);

/* All state of a training engine: weights, gradients, m, v, the count of updates and delayed scaling, as bytes in a
 * fixed order. Freed with free(). */
char *toy_state(const struct toy *toy, int64_t *bytes);
/* Only the gradients. */
char *toy_gradients(const struct toy *toy, int64_t *bytes);
void toy_restore(struct toy *toy, const char *state);

#endif
