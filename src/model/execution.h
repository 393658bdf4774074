/* What a unit sees while an action runs. */
#ifndef MODEL_EXECUTION_H
#define MODEL_EXECUTION_H

#include "core/id_set.h"
#include "core/launch.h"
#include "model/unit.h"

enum gradient_set { GRADIENT_INPUT = 1, GRADIENT_WEIGHT = 2, GRADIENT_BOTH = 3 };

/* The batch of one activation slot, on the device: where ranks share rows, this rank's part of it. */
struct batch_tensors {
    int64_t row_tokens;                      /* that this rank has of each row */
    struct tensor tokens, labels, positions; /* i32 [1, tokens of this micro-batch] */
    struct tensor scale;                     /* f32, alike: factors of the tokens' embeddings */
    struct tensor draw;                      /* i32 [1, 2]: the micro-batch's number, for what is rounded at random */
    struct attention_segments segments;      /* of whole rows */
    /* Where ranks share rows: this rank's queries (data/context_cut.h). With DECK_CONTEXT_GATHER one entry, for the
     * keys of whole rows. With DECK_CONTEXT_RING entry i is for the keys of the rank that is i places before this one.
     */
    struct attention_segments *parts;
    /* PASS_GENERATE: in each layer's part of the cache, the rows of the tokens in front, i32 [1, at most T]; and the
     * tokens whose logits are wanted, i32 [1, any]. */
    struct tensor places, ends;
    struct tensor total;     /* f64 [1, 2]: sum of losses and number of labels so far */
    struct tensor discarded; /* the same, for losses that must not be counted */
};

/* evaluate: losses without gradients. embed: the states behind the head's first norm, no losses. generate: more tokens
 * of the sequences whose keys and values are cached; leaves the logits of some of them. */
enum pass_kind { PASS_FORWARD, PASS_BACKWARD, PASS_EVALUATE, PASS_EMBED, PASS_GENERATE, PASS_COUNT };

/* PASS_GENERATE: keys (rotated) and values of the tokens before those of this micro-batch, and room for theirs. */
struct kv_cache {
    struct tensor rows; /* f [layers * layer_rows, 2 * kv_heads * head_dim], layer by layer, in a layer sequence by
                         * sequence: a token's key, then value */
    int64_t layer_rows; /* sequences * positions of each */
};

/* Whoever runs units, as these functions know it: memory and, in an engine, its weight store (engine/memory.h). */
struct execution_owner;

/* All that units ask of whoever runs them, by the functions below. No other call goes from the model upwards. */
struct execution_services {
    /* The address of the unit's tensor `id` in execution->pass and execution->slot. It never changes after planning. */
    void *(*address)(const struct execution *execution, const struct unit *unit, int id);
    /* A section of a forward begins, which makes tensor `id` (execution_wants). NULL: nobody but the planner asks. */
    void (*enter_section)(const struct execution *execution, int id);
    /* Starts the transfers that are pending (execution_start_transfers). NULL: none ever are. */
    void (*start_transfers)(const struct execution *execution);
};

/* What a unit sees while an action runs. */
struct execution {
    const struct execution_services *services;
    struct execution_owner *owner; /* of the services; borrowed */
    struct stream *stream;
    struct stream *transfers;    /* for collectives beside what runs on `stream`: execution_fork, execution_join */
    struct event forked, joined; /* of these */
    struct group *tensor;        /* ranks that share this rank's tokens and have a part of every layer; NULL: none */
    struct group *row;           /* ranks that share this rank's rows, each with a part of every row; NULL: none */
    struct group *data;          /* ranks that sum gradients */
    /* Of a pipeline: what this stage has for those beside it, and what they have sent (engine/engine_relay.c), each
     * [tokens, hidden]; absent where nothing goes that way. */
    struct tensor relays[RELAY_COUNT];
    enum pass_kind pass;
    int slot;                    /* of activations */
    bool recompute;              /* a forward inside backward: only `wanted` sections run */
    const struct id_set *wanted; /* of a backward: what a recompute makes */
    enum gradient_set gradients;
    const struct batch_tensors *batch;
    int64_t attended[2]; /* launches of attention, forward and backward, in this action so far */
    struct tensor rope_table;
    struct kv_cache cache;         /* of PASS_GENERATE */
    enum dtype compute, statistic; /* what ROLE_VALUE and ROLE_STATISTIC mean */
    /* Of every operand of every linear layer, numbered as operand_number says. */
    struct tensor amax, scales; /* stat [operands, 1]: of delayed scaling; absent where it has no user */
    struct tensor losses;       /* f64 [operands, STATISTICS]: what quantization loses is added; absent: not measured */
    /* Of a backward: sums over tokens, stat [1, hidden]. The first is that of the output's gradient, absent where the
     * unit behind has not made it; the second that of UNIT_INPUT_GRADIENT, set by unit_sum_input_gradient. */
    struct tensor output_gradient_sum, input_gradient_sum;
};

/* True when the section that makes `id` shall run: always, but in a recompute only if wanted. */
bool execution_wants(const struct execution *execution, int id);

/* Says that the next op loses little time to concurrent transfers: those that are pending start. */
void execution_start_transfers(const struct execution *execution);

/* Fork: later launches on execution->transfers wait for all earlier ones on execution->stream. Join: later launches on
 * execution->stream wait for all earlier ones on execution->transfers. A unit that forks joins before it returns. */
void execution_fork(struct execution *execution);
void execution_join(struct execution *execution);
/* The execution with `transfers` as its stream, for what is launched between fork and join. */
struct execution execution_beside(const struct execution *execution);

/* The element type that a role has in this run. */
enum dtype execution_dtype(const struct execution *execution, enum tensor_role role);

/* How many of the batch's tokens this rank has between linear layers. */
int64_t execution_own_tokens(const struct execution *execution, const struct unit *unit);

/* The unit's tensor `id` in this pass and slot, for the tokens of execution->batch. */
struct tensor unit_tensor(const struct execution *execution, const struct unit *unit, int id);
/* The weight as ops read it; valid between acquire and release. */
struct tensor unit_weight(const struct execution *execution, const struct unit *unit, int id);
/* A copy of weights, valid between acquire and release in training. */
struct tensor unit_copy(const struct execution *execution, const struct unit *unit, int id);
/* The row copy of a weight, where the store has it in place of the weight. */
struct tensor unit_row_copy(const struct unit *unit, int id);
/* A weight's gradient, valid between open and close. */
struct tensor unit_gradient(const struct execution *execution, const struct unit *unit, int id);
/* Where the unit must write the sum of UNIT_INPUT_GRADIENT: it reaches the unit before as
 * execution->output_gradient_sum. Absent where UNIT_INPUT_GRADIENT_SUM is not declared, or the backward does not make
 * both gradients. */
struct tensor unit_sum_input_gradient(struct execution *execution, const struct unit *unit);

#endif
