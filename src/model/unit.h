/* A unit is a piece of a model with a forward and a backward: the embedding, a block, the head. It declares its
 * parameters, the weights that its ops read and the tensors that it works on; it never allocates, synchronises,
 * or names a rank, a device or a dtype. It asks for tensors by id and calls ops. */
#ifndef MODEL_UNIT_H
#define MODEL_UNIT_H

#include "base/error.h"
#include "core/id_set.h"
#include "core/launch.h"
#include "architecture/settings.h"

enum { UNIT_ALIGNMENT = 128 /* elements */ };

/* Stands for rows or columns of a unit's tensor: one for each token of the micro-batch. Memory is planned for
 * unit->tokens of them; a batch may have fewer, and ops then work on those alone. */
enum { UNIT_TOKENS = -1 };
/* The same, rounded up to whole blocks of QUANTIZATION_BLOCK tokens; and the number of these blocks. */
enum { UNIT_PADDED_TOKENS = -2, UNIT_TOKEN_BLOCKS = -3 };
/* One for each token that the ranks that share rows have together. */
enum { UNIT_ROW_TOKENS = -4 };
/* One for each token of all ranks that make the embedding's gradient of what they gather. */
enum { UNIT_ALL_TOKENS = -5 };
/* One for each token that this rank has between linear layers: all, or a part where tensor ranks cut the sequence. */
enum { UNIT_OWN_TOKENS = -6 };

/* Where a parameter lives. Each unit has one flat buffer per storage class. */
enum storage_class { STORAGE_MATRIX, STORAGE_VECTOR, STORAGE_COUNT };

/* What a parameter starts as. */
enum initial_kind { INIT_CONSTANT, INIT_NORMAL, INIT_UNIFORM };

struct initial_value {
    enum initial_kind kind;
    double value;     /* the constant, the standard deviation, or the bound of both signs */
    int64_t zero_row; /* this row of the global tensor is zeros; -1 = none */
};

struct rectangle {
    int64_t row, col, rows, cols;
};

/* A parameter as files know it. Several parameters may be one weight in memory (q, k and v). */
struct parameter {
    char name[96];         /* public name, as Hugging Face spells it; the path in checkpoints */
    int64_t rows, cols;    /* global shape; a vector is 1 x n */
    struct rectangle part; /* what the unit has of it: all, unless ranks have parts of a layer (parameter_place) */
    int64_t height, apart; /* the part is pieces of `height` rows, which begin every `apart` rows of the tensor */
    int holder, holders;   /* as many of these ranks have the same part; this one is number `holder` of them */
    bool partial;          /* each of these ranks makes a part of its gradient, which is their sum */
    enum storage_class storage;
    int64_t offset; /* elements, in the unit's flat buffer */
    struct initial_value initial;
};

/* A matrix or vector as ops read it: one or more parameters one below the other. Starts at a multiple of 256 bytes. */
struct weight {
    int64_t rows, cols;
    enum storage_class storage;
    int64_t offset;    /* elements, in the unit's flat buffer */
    int64_t room;      /* elements that it takes there: a multiple of UNIT_ALIGNMENT; those behind it are zeros */
    struct unit *home; /* the unit whose buffers hold it: itself, or the embedding for a tied head */
    /* Where products in training read 8-bit copies of it with one scale for all, which the store keeps: how they are
     * made, and the operand's number (model/linear.h). Else NULL. */
    const struct linear_precision *copied;
    int operand;
};

/* What a tensor holds. Values have the compute dtype, statistics are fp32 (fp64 in the oracle); then copies of few bits
 * (core/quantization.h), and what a batch has of its tokens. */
enum tensor_role { ROLE_VALUE, ROLE_STATISTIC, ROLE_E4M3, ROLE_E5M2, ROLE_BF16, ROLE_I32, ROLE_F32 };

/* The role of copies that are made by a rule. */
enum tensor_role role_of_copies(const struct quantization *rule);

struct unit_tensor {
    const char *name;
    int64_t rows, cols; /* or UNIT_TOKENS */
    enum tensor_role role;
};

/* A copy of weights that products read instead of them, or its scales. class->copy_weights makes it of the weights,
 * once they have changed. */
struct weight_copy {
    int64_t rows, cols, stride;
    enum tensor_role role;
    int64_t offset; /* bytes, in the unit's copies; a multiple of 256 */
};

/* Ids that every class shares. */
enum { UNIT_OUTPUT, UNIT_INPUT_GRADIENT, UNIT_INPUT_GRADIENT_SUM, UNIT_FIRST_OWN };

enum gradient_set { GRADIENT_INPUT = 1, GRADIENT_WEIGHT = 2, GRADIENT_BOTH = 3 };

struct context;

struct unit_class {
    const char *name;
    /* input: the previous unit's output (absent for the embedding). */
    void (*forward)(struct context *context, struct unit *unit, struct tensor input);
    /* output_gradient: absent for the head. Gradients of weights are added to what the unit's buffers hold, or replace
     * it in the first micro-batch of a step. */
    void (*backward)(struct context *context, struct unit *unit, struct tensor input, struct tensor output_gradient);
    /* Makes copies of the unit's weights or of its row copies, which are valid now: all of them, or those alone that
     * context->pass reads, with context->wanted in a backward. NULL: it has none. */
    void (*copy_weights)(const struct context *context, struct unit *unit, bool all);
    bool idle_forward;       /* PASS_FORWARD does nothing, since backward does all: weights are not acquired for it */
    bool reads_forward_only; /* backward reads no weights of the unit: they need not be gathered for it */
};

struct unit {
    const struct unit_class *class;
    const struct model_settings *settings; /* borrowed */
    char name[32];
    int index;       /* place in the model's list */
    int layer;       /* of a block; -1 for others */
    int chunk;       /* of this rank's (struct model), that computes it; -1: another stage of the pipeline does */
    bool here;       /* this rank holds its weights: what it computes, and the table that its head borrows */
    bool held_twice; /* two stages hold its weights, since the head that borrows them is of another; both update them */
    int64_t tokens;  /* of a micro-batch, at most, that this rank has */

    int parameter_count, weight_count, tensor_count;
    struct parameter *parameters; /* [parameter_count] */
    struct weight *weights;       /* [weight_count] */
    struct unit_tensor *tensors;  /* [tensor_count], at most ID_SET_LIMIT; those that are not declared have no name */
    int64_t elements[STORAGE_COUNT]; /* of the flat buffers, padded to UNIT_ALIGNMENT */
    struct weight_copy *copies;      /* [copy_count]; training alone reads them */
    int copy_count;
    int64_t copy_bytes;
    bool decay[STORAGE_COUNT];     /* does weight decay reach them */
    bool decoupled[STORAGE_COUNT]; /* have they the learning rate of embedding and head */
    int64_t head_tokens;           /* head only: tokens per chunk */
    bool complete_gradients;       /* each rank makes those of all ranks' tokens: they need no sum over ranks */
    bool rounds_gradients;         /* its ops write those of matrices as bf16; nothing is added to them later */

    /* Set by a weight store between acquire and release, and between open and close of gradients. */
    void *weight_base[STORAGE_COUNT];
    char *copy_base;
    /* In training the store may have row copies of all matrices in place of these, whose weight_base is then NULL: a
     * byte for an element of the flat buffer; and their scales by id of the weight, stat [weights, 1], where none are
     * in the context. NULL: it has not. */
    char *row_base;
    struct tensor row_scales;
    void *gradient_base[STORAGE_COUNT];
    bool gradient_fresh; /* the buffers hold nothing yet: the first contribution replaces */
};

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

/* What a unit sees while an action runs. */
struct context {
    struct stream *stream;
    struct stream *transfers;    /* for collectives beside what runs on `stream`: context_fork, context_join */
    struct event forked, joined; /* of these */
    struct group *tensor;        /* ranks that share this rank's tokens and have a part of every layer; NULL: none */
    struct group *row;           /* ranks that share this rank's rows, each with a part of every row; NULL: none */
    struct group *data;          /* ranks that sum gradients */
    /* Of a pipeline: what this stage has for those beside it, and what they have sent (engine/engine_relay.c), each
     * [tokens, hidden]; absent where nothing goes that way. */
    struct tensor relays[RELAY_COUNT];
    enum pass_kind pass;
    int slot;                                               /* of activations */
    bool recompute;                                         /* a forward inside backward: only `wanted` sections run */
    const struct id_set *wanted;                            /* of a backward: what a recompute makes */
    void (*enter_section)(struct context *context, int id); /* the planner's, else NULL: a section starts */
    enum gradient_set gradients;
    const struct batch_tensors *batch;
    int64_t attended[2]; /* launches of attention, forward and backward, in this action so far */
    struct tensor rope_table;
    struct kv_cache cache;         /* of PASS_GENERATE */
    enum dtype compute, statistic; /* what ROLE_VALUE and ROLE_STATISTIC mean */
    /* Of every operand of every linear layer, numbered as operand_number says. */
    struct tensor amax, scales; /* stat [operands, 1]: of delayed scaling; absent where it has no user */
    struct tensor losses;       /* f64 [operands, STATISTICS]: what quantization loses is added; absent: not measured */
    /* The address of a unit's tensor in this pass and slot; fixed after planning. */
    void *(*address)(const struct context *context, const struct unit *unit, int id);
    /* Of a backward: sums over tokens, stat [1, hidden]. The first is that of the output's gradient, absent where the
     * unit behind has not made it; the second that of UNIT_INPUT_GRADIENT, set by unit_sum_input_gradient. */
    struct tensor output_gradient_sum, input_gradient_sum;
    void *memory; /* what address and enter_section work on: struct engine_memory (engine/memory.h) */
    /* Optional: the next op tolerates transfers beside it, so those that are pending start. Transfers take
     * multiprocessors: attention hands out its work dynamically, while a matrix product has one block for each and
     * would need another wave. */
    void (*shares)(const struct context *context);
    void *engine; /* for shares */
};

/* -- Declaring -------------------------------------------------------------------------------------------------- */

/* The elements that a weight of so many takes in a flat buffer: a multiple of UNIT_ALIGNMENT. */
int64_t unit_aligned(int64_t elements);
/* A new weight of `rows` x `cols`, without parameters yet; returns nothing: ids are the class's enum. */
void unit_declare_weight(struct unit *unit, int id, int64_t rows, int64_t cols, enum storage_class storage);
/* Makes room in the flat buffer for as many rows of weight `id`, or elements of a vector, as any tensor rank has: their
 * buffers are alike. It is the last that was declared. */
void unit_make_room(struct unit *unit, int id, int64_t extent);
/* The next `extent` rows of weight `id`, or elements where it is a vector, are the parameter of that printf-like name;
 * returns it, until the next is declared. */
struct parameter *unit_declare_parameter(struct unit *unit, int id, int64_t extent, struct initial_value initial,
                                         const char *name, ...) BASE_PRINTF(5, 6);
/* Says that what was declared is a part of a tensor [rows, cols], in which it starts at row, col. Until then it is the
 * whole. Where other ranks have the same part, the caller sets holder and holders. */
void parameter_place(struct parameter *parameter, int64_t rows, int64_t cols, int64_t row, int64_t col);
/* All tensor ranks have the whole parameter, of whose gradient each makes all, or a part. */
void parameter_share(struct parameter *parameter, const struct layer_cut *layer, bool partial);
/* The row of the tensor that is row number `row` of the part. */
int64_t parameter_row(const struct parameter *parameter, int64_t row);
/* All `value`; what the family's matrices start as, with that standard deviation or bound. */
struct initial_value unit_constant(double value);
struct initial_value unit_random(const struct unit *unit, double scale);
/* The weight is another unit's (tied): its buffers and gradients are used. */
void unit_share_weight(struct unit *unit, int id, struct unit *home, int home_id);
void unit_declare_tensor(struct unit *unit, int id, const char *name, int64_t rows, int64_t cols,
                         enum tensor_role role);
/* A copy of weights with that distance between its rows. */
void unit_declare_copy(struct unit *unit, int id, int64_t rows, int64_t cols, int64_t stride, enum tensor_role role);
/* Frees what was declared. */
void unit_destroy(struct unit *unit);
/* Elements of tensor `id` for a whole micro-batch of unit->tokens: what memory is planned for. */
int64_t unit_tensor_elements(const struct unit *unit, int id);

/* -- Asking ----------------------------------------------------------------------------------------------------- */

/* The unit whose weights this one uses beside its own, as a tied head does the embedding's; NULL: none. */
struct unit *unit_lender(const struct unit *unit);

/* Or does another stage of the pipeline compute it? */
static inline bool unit_is_computed(const struct unit *unit)
{
    return unit->chunk >= 0;
}

/* What the unit's family fixes. */
const struct family *unit_family(const struct unit *unit);

/* True when the section that makes `id` shall run: always, but in a recompute only if wanted. */
bool context_wants(struct context *context, int id);

/* Calls context->shares. */
void context_shares(const struct context *context);

/* Fork: later launches on context->transfers wait for all earlier ones on context->stream. Join: later launches on
 * context->stream wait for all earlier ones on context->transfers. A unit that forks joins before it returns. */
void context_fork(struct context *context);
void context_join(struct context *context);
/* The context with `transfers` as its stream, for what is launched between fork and join. */
struct context context_beside(const struct context *context);

/* The element type that a role has in this run. */
enum dtype context_dtype(const struct context *context, enum tensor_role role);

/* How many of the batch's tokens this rank has between linear layers. */
int64_t context_own_tokens(const struct context *context, const struct unit *unit);

/* The unit's tensor `id` in this pass and slot, for the tokens of context->batch. */
struct tensor unit_tensor(const struct context *context, const struct unit *unit, int id);
/* The weight as ops read it; valid between acquire and release. */
struct tensor unit_weight(const struct context *context, const struct unit *unit, int id);
/* A copy of weights, valid between acquire and release in training. */
struct tensor unit_copy(const struct context *context, const struct unit *unit, int id);
/* The row copy of a weight, where the store has it in place of the weight. */
struct tensor unit_row_copy(const struct unit *unit, int id);
/* The element type in which ops write the gradients of its own weights of that class. */
static inline enum dtype unit_gradient_dtype(const struct unit *unit, enum storage_class storage, enum dtype statistic)
{
    return unit->rounds_gradients && storage == STORAGE_MATRIX ? DTYPE_BF16 : statistic;
}

/* A weight's gradient, valid between open and close. */
struct tensor unit_gradient(const struct context *context, const struct unit *unit, int id);
/* Where the unit must write the sum of UNIT_INPUT_GRADIENT: it reaches the unit before as context->output_gradient_sum.
 * Absent where UNIT_INPUT_GRADIENT_SUM is not declared, or the backward does not make both gradients. */
struct tensor unit_sum_input_gradient(struct context *context, const struct unit *unit);
/* Whether a gradient op should add to what is there. */
bool unit_accumulates(const struct unit *unit, int id);

#endif
