/* The environment of a unit while an action runs: streams and groups, the pass, the batch, tensors of the whole model,
 * and services of the engine. A unit addresses its own tensors and weights through it. */
#ifndef MODEL_EXECUTION_H
#define MODEL_EXECUTION_H

#include "core/id_set.h"
#include "core/launch.h"
#include "model/unit.h"

enum gradient_set { GRADIENT_INPUT = 1, GRADIENT_WEIGHT = 2, GRADIENT_BOTH = 3 };

/* The batch of one activation slot, in the executor's memory; with context parallelism, this rank's part. */
struct batch_tensors {
    int64_t row_tokens;                      /* tokens that this rank has of each row */
    struct tensor tokens, labels, positions; /* i32 [1, tokens of this micro-batch] */
    struct tensor scale;                     /* f32 [1, tokens]: factors of the tokens' embeddings */
    struct tensor dropout_keys;              /* i32 [1, tokens], training with dropout; else absent */
    struct tensor draw;                      /* i32 [1, 2]: the micro-batch's number, for stochastic rounding */
    struct attention_segments segments;      /* segments of whole rows */
    /* Context parallelism: segments for this rank's queries (data/context_split.h). DECK_CONTEXT_GATHER: one entry, for
     * the keys of whole rows. DECK_CONTEXT_RING: entry i is for the keys of the rank i positions before this one. */
    struct attention_segments *parts;
    struct tensor places; /* PASS_GENERATE: i32 [1, tokens]: each token's row in a layer's part of the cache */
    /* The rows that the head computes, of this rank's tokens between linear layers: tables as in data/labelled_rows.h,
     * i32 [1, ...]. Absent unless model_selects_rows: it computes all. factors: f32 [1, places], DECK_POOLING_MEAN
     * only, where rows are absent. */
    struct {
        struct tensor rows, places, labels, factors;
    } labelled;
    struct tensor targets;       /* f32 [segments, task.labels]: the numbers of a regression, else absent */
    struct tensor class_weights; /* f32 [1, task.labels]; absent: classes have no weights */
    struct tensor ends;          /* PASS_LOGITS, PASS_GENERATE: i32 [1, any]: the tokens whose logits are requested */
    struct tensor total;         /* f64 [1, 2]: loss sum and number of labels so far */
    struct tensor discarded;     /* f64 [1, 2]: as total, for losses that do not count */
};

/* EVALUATE computes losses without gradients. EMBED computes the states after the head's first norm, without losses.
 * LOGITS computes the logits of some tokens. GENERATE adds tokens to sequences whose keys and values are cached, and
 * computes logits of some of these tokens. */
enum pass_kind { PASS_FORWARD, PASS_BACKWARD, PASS_EVALUATE, PASS_EMBED, PASS_LOGITS, PASS_GENERATE, PASS_COUNT };

/* PASS_GENERATE: keys, after the rotary embedding, and values of earlier tokens, and space for this micro-batch's. */
struct kv_cache {
    struct tensor rows; /* [layers * layer_rows, 2 * kv_heads * head_dim]: by layer, then sequence, then token; a row is
                         * a token's key, then its value */
    int64_t layer_rows; /* sequences * positions of each */
};

/* Owner of the services (engine/memory.h). */
struct execution_owner;

/* The calls from units to the engine. A unit calls them through the functions below. */
struct execution_services {
    /* Returns the address of the unit's tensor `id` in execution->pass and execution->slot. Addresses are fixed after
     * planning. */
    void *(*address)(const struct execution *execution, const struct unit *unit, int id);
    /* Called at the beginning of a forward's section for tensor `id` (execution_wants). NULL unless memory is being
     * planned. */
    void (*enter_section)(const struct execution *execution, int id);
    /* Starts pending transfers (execution_start_transfers). NULL: there never are any. */
    void (*start_transfers)(const struct execution *execution);
    /* Called after a layer's attention over whole rows, with its queries and keys after the rotary embedding, which are
     * valid until the next launch. NULL: not called. */
    void (*attended)(const struct execution *execution, const struct unit *unit, struct tensor queries,
                     struct tensor keys);
};

struct execution {
    const struct execution_services *services;
    struct execution_owner *owner; /* owner of the services; borrowed */

    struct stream *stream;       /* the unit's launches */
    struct stream *transfers;    /* collectives that overlap with the unit's launches (execution_fork) */
    struct event forked, joined; /* of execution_fork and execution_join */
    struct group *tensor;        /* ranks with the same tokens, each with a part of every layer; NULL: none */
    struct group *row;           /* context parallelism: the ranks that share rows of tokens; NULL: none */
    struct group *data;          /* ranks that sum gradients */

    enum pass_kind pass;
    int slot;                    /* activation slot */
    enum gradient_set gradients; /* the gradients that a backward computes; of a frozen unit, GRADIENT_INPUT alone */
    bool trains_adapters;        /* backward also computes the gradients of adapters (model/linear_adapter.h) */
    bool recompute;              /* a forward inside a backward: only the sections of tensors in `wanted` run */
    const struct id_set *wanted; /* backward: the tensors that are recomputed */
    const struct batch_tensors *batch;
    int64_t attended[2]; /* number of attention launches in this action so far, [0] forward and [1] backward */

    enum dtype compute, statistic; /* the element types of ROLE_VALUE and ROLE_STATISTIC */
    struct tensor rope_table;
    struct kv_cache cache; /* PASS_GENERATE only */
    /* One row for each operand, by operand_number (model/linear.h). */
    struct tensor amax, scales;        /* stat [operands, 1]: delayed scaling; absent without it */
    struct tensor quantization_errors; /* f64 [operands, STATISTICS], added to; absent: not measured */
    /* Pipeline send and receive buffers [tokens, hidden]; absent where nothing is sent (engine/engine_pipeline.c). */
    struct tensor stage_buffers[TRANSFER_DIRECTIONS];
    /* Backward: sums over tokens, stat [1, hidden]. output_gradient_sum: of the output's gradient; absent unless the
     * next unit made it. input_gradient_sum: of UNIT_INPUT_GRADIENT, set by unit_sum_input_gradient. */
    struct tensor output_gradient_sum, input_gradient_sum;
};

/* Begins a forward's section, which makes tensor `id`. Returns whether it must run: always, except that a recompute
 * runs only the sections of wanted tensors. */
bool execution_wants(const struct execution *execution, int id);

/* Hints that the next op loses little time to concurrent transfers, so that pending transfers start now. */
void execution_start_transfers(const struct execution *execution);

/* Fork: later launches on execution->transfers wait for all earlier ones on execution->stream. Join: later launches on
 * execution->stream wait for all earlier ones on execution->transfers. A unit that forks joins before it returns. */
void execution_fork(struct execution *execution);
void execution_join(struct execution *execution);
/* Returns a copy of the execution whose stream is `transfers`, for launches between fork and join. */
struct execution execution_concurrent(const struct execution *execution);

/* Returns the element type of a role. */
enum dtype execution_dtype(const struct execution *execution, enum tensor_role role);

/* Returns the number of the batch's tokens that this rank has between linear layers (UNIT_OWN_TOKENS). */
int64_t execution_own_tokens(const struct execution *execution, const struct unit *unit);

/* Returns the unit's tensor `id` in this pass and slot, with as many rows as the batch's tokens need. */
struct tensor unit_tensor(const struct execution *execution, const struct unit *unit, int id);
/* Returns the first `rows` rows of the unit's tensor `id`. */
struct tensor unit_first_rows(const struct execution *execution, const struct unit *unit, int id, int64_t rows);
/* Returns weight `id`, valid between acquire and release of the weight store. */
struct tensor unit_weight(const struct execution *execution, const struct unit *unit, int id);
/* Returns quantized weight `id`, or scales; valid between acquire and release in training. */
struct tensor unit_quantized(const struct execution *execution, const struct unit *unit, int id);
/* Returns the rowwise quantized form of weight `id`, if the store has it instead of the weight. */
struct tensor unit_row_copy(const struct unit *unit, int id);
/* Returns the gradient of weight `id`, valid between gradients_open and gradients_close. */
struct tensor unit_gradient(const struct execution *execution, const struct unit *unit, int id);
/* Returns the target for the sum of UNIT_INPUT_GRADIENT over tokens, which the unit must write; the previous unit
 * receives it as execution->output_gradient_sum. Absent if UNIT_INPUT_GRADIENT_SUM is not declared, or if the backward
 * does not compute both gradients. */
struct tensor unit_sum_input_gradient(struct execution *execution, const struct unit *unit);

#endif
