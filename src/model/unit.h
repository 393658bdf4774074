/* Key header: a unit is a piece of a model with a forward and a backward: the embedding, a block, the head. It declares
 * its parameters, the weights that its ops read and the tensors that it works on. When it runs, it asks for tensors by
 * id (model/execution.h) and launches ops. A unit never allocates or blocks the host, and communicates only over the
 * groups of struct execution. */
#ifndef MODEL_UNIT_H
#define MODEL_UNIT_H

#include "base/error.h"
#include "core/quantization.h"
#include "model/parameter.h"

/* Row or column counts that depend on the micro-batch. Memory is planned for a micro-batch of unit->tokens tokens. A
 * batch may have fewer tokens; tensors then have fewer rows (unit_extent). */
enum {
    UNIT_TOKENS = -1,        /* the tokens of the micro-batch on this rank */
    UNIT_PADDED_TOKENS = -2, /* UNIT_TOKENS, rounded up to whole blocks of QUANTIZATION_BLOCK tokens */
    UNIT_TOKEN_BLOCKS = -3,  /* the number of these blocks */
    UNIT_ROW_TOKENS = -4,    /* the tokens of all context-parallel ranks, which are whole rows */
    UNIT_ALL_TOKENS = -5,    /* UNIT_TOKENS of all ranks of execution->data (model/embedding.h) */
    UNIT_OWN_TOKENS = -6,    /* this rank's tokens between linear layers (model/sequence.h) */
    UNIT_PAIRS = -7          /* the most pairs of a token and an expert that this rank can have (model/experts.h) */
};

/* The content of a tensor determines its element type (execution_dtype): values in the compute type; statistics in
 * fp32, or fp64 on the oracle; quantized operands (core/quantization.h); numbers of a batch. */
enum tensor_role { ROLE_VALUE, ROLE_STATISTIC, ROLE_E4M3, ROLE_E5M2, ROLE_BF16, ROLE_I32, ROLE_F32 };

/* Returns the role of operands quantized by the rule. */
enum tensor_role role_of_quantized(const struct quantization *rule);

/* A tensor that a unit works on. */
struct unit_tensor {
    const char *name;
    int64_t rows, cols; /* or UNIT_TOKENS, ... */
    enum tensor_role role;
};

/* A quantized operand made from a weight, which GEMMs read instead of the weight, or its scales.
 * class->quantize_weights makes them when weights have changed. */
struct quantized_weight {
    int64_t rows, cols, stride;
    enum tensor_role role;
    int64_t offset; /* bytes from quantized_base; a multiple of 256 */
};

/* Ids of tensors that every class has. */
enum { UNIT_OUTPUT, UNIT_INPUT_GRADIENT, UNIT_INPUT_GRADIENT_SUM, UNIT_FIRST_OWN };

struct execution;

struct unit_class {
    const char *name;
    /* Computes the unit's output. input: the previous unit's output [tokens, hidden]; absent for the embedding. */
    void (*forward)(struct execution *execution, struct unit *unit, struct tensor input);
    /* Computes the gradients that execution->gradients names. output_gradient [tokens, hidden]: absent for the head.
     * The gradient of the input is tensor UNIT_INPUT_GRADIENT. Gradients of weights are added to the unit's buffers, or
     * replace their contents in the first micro-batch of a step (unit_accumulates). */
    void (*backward)(struct execution *execution, struct unit *unit, struct tensor input,
                     struct tensor output_gradient);
    /* Makes the quantized operands of the unit's weights, from the weights or from their rowwise form, whichever the
     * store has. all: makes all of them; else those that execution->pass reads, with execution->wanted in a backward.
     * NULL: the class has none. */
    void (*quantize_weights)(const struct execution *execution, struct unit *unit, bool all);
    bool idle_forward;       /* PASS_FORWARD needs no weights and does nothing, since backward does all the work */
    bool reads_forward_only; /* backward reads no weights of the unit: they are not gathered for it */
};

struct unit {
    const struct unit_class *class;
    const struct model_settings *settings; /* borrowed */
    char name[32];
    int index; /* index in the model's list */
    int layer; /* layer of a block; -1 for other units */
    int chunk; /* this rank's model chunk (struct model) that computes the unit; -1: another stage does, or none
                  does (adapters) */
    bool here; /* this rank stores the weights: it computes the unit, or one that borrows them */
    bool on_two_stages; /* two stages store and update the weights: of a tied embedding, with its head elsewhere */
    int64_t tokens;     /* maximum of a micro-batch on this rank */

    int parameter_count, weight_count, tensor_count;
    struct parameter *parameters;       /* [parameter_count] */
    struct weight *weights;             /* [weight_count] */
    struct unit_tensor *tensors;        /* [tensor_count], at most ID_SET_LIMIT; name NULL: not declared */
    int64_t elements[STORAGE_COUNT];    /* elements of the flat buffers, padded to UNIT_ALIGNMENT */
    struct quantized_weight *quantized; /* [quantized_count] quantized weights; read only in training */
    int quantized_count;
    int64_t quantized_bytes;       /* bytes of all quantized weights */
    bool decay[STORAGE_COUNT];     /* weight decay applies */
    bool decoupled[STORAGE_COUNT]; /* uses the separate learning rate of embedding and head */
    bool muon;                     /* the optimizer of its matrices is Muon (engine/muon.h); else AdamW */
    int64_t head_tokens;           /* head only: tokens per slice */
    bool complete_gradients; /* each rank computes gradients for all ranks' tokens: they are not summed over ranks */
    bool rounds_gradients;   /* ops may write gradients of matrices as bf16, and add to them */
    bool frozen;             /* its own weights are not trained; weights that it borrows may be */
    bool ends_backward;      /* it has a backward, and the units before it do not: its input's gradient is not needed */
    bool idle_backward;      /* it has no backward: neither its weights nor those of the units before it are trained */

    /* Set by the weight store (store/store.h): flat buffers, valid from acquire to release. */
    void *weight_base[STORAGE_COUNT];
    char *quantized_base;
    /* Rowwise quantized matrices, one byte an element, which the store may have in training instead of the matrices;
     * weight_base[STORAGE_MATRIX] is then NULL. Else rowwise_base is NULL. row_scales: their scales by weight id, stat
     * [weights, 1]; absent where execution->scales has them. */
    char *rowwise_base;
    struct tensor row_scales;
    /* Set by the weight store: flat buffers, valid from gradients_open to gradients_close. */
    void *gradient_base[STORAGE_COUNT];
    bool gradient_fresh;   /* the buffers have no contribution yet: the first one replaces their contents */
    bool gradient_rounded; /* gradients of matrices are bf16 */
};

/* -- Declaring -------------------------------------------------------------------------------------------------- */

/* Declares weight `id` (of the class's enum) as rows x cols, without parameters. */
void unit_declare_weight(struct unit *unit, int id, int64_t rows, int64_t cols, enum storage_class storage);
/* Reserves space in the flat buffer for `extent` rows of weight `id`, or elements of a vector: the maximum over tensor
 * ranks, so that all ranks' buffers have the same layout. `id` must be the last weight declared. */
void unit_reserve(struct unit *unit, int id, int64_t extent);
/* Declares the next `extent` rows of weight `id`, or elements of a vector, as the parameter with this printf-like name.
 * Returns the parameter, valid until the next one is declared. */
struct parameter *unit_declare_parameter(struct unit *unit, int id, int64_t extent, struct initial_value initial,
                                         const char *name, ...) BASE_PRINTF(5, 6);
/* Initial values: all elements `value`; or the distribution of the family's matrices, with `scale` as standard
 * deviation or bound. */
struct initial_value unit_constant(double value);
struct initial_value unit_random(const struct unit *unit, double scale);
/* Makes weight `id` weight `home_id` of another unit, whose buffers and gradients are used. */
void unit_share_weight(struct unit *unit, int id, struct unit *home, int home_id);
/* Declares tensor `id` (of the class's enum). name: a string that stays valid. Fatal if id is too large. */
void unit_declare_tensor(struct unit *unit, int id, const char *name, int64_t rows, int64_t cols,
                         enum tensor_role role);
/* Declares quantized weight `id`, or scales. stride: elements from one row to the next. */
void unit_declare_quantized(struct unit *unit, int id, int64_t rows, int64_t cols, int64_t stride,
                            enum tensor_role role);
/* Frees the declarations. */
void unit_destroy(struct unit *unit);
/* Returns the elements of tensor `id` for a micro-batch of unit->tokens tokens, for which memory is planned. */
int64_t unit_tensor_elements(const struct unit *unit, int id);
/* Returns the number of rows or columns that `declared` (UNIT_TOKENS, ... or a number) means for `tokens` tokens on
 * this rank. */
int64_t unit_extent(const struct unit *unit, int64_t declared, int64_t tokens);

/* -- Queries ---------------------------------------------------------------------------------------------------- */

/* Returns the elements of the unit's flat buffers. */
int64_t unit_elements(const struct unit *unit);

/* Returns the unit whose weights this one borrows: the embedding of a tied head, the adapters of a block; NULL: none.
 */
struct unit *unit_lender(const struct unit *unit);

/* Returns whether this rank's pipeline stage computes the unit. */
static inline bool unit_is_computed(const struct unit *unit)
{
    return unit->chunk >= 0;
}

/* Returns whether this rank's stage stores the weights, and counts as their only owner if two stages do. */
static inline bool unit_is_owned(const struct unit *unit)
{
    return unit->here && (unit_is_computed(unit) || !unit->on_two_stages);
}

/* Returns the model's family. */
const struct family *unit_family(const struct unit *unit);

/* Returns whether the optimizer of the unit's weights of a storage class is Muon, which has one moment; AdamW has two.
 */
static inline bool unit_uses_muon(const struct unit *unit, enum storage_class storage)
{
    return unit->muon && storage == STORAGE_MATRIX;
}

/* Returns the element type in which ops write gradients of the unit's own weights of a storage class. statistic: the
 * type of ROLE_STATISTIC. */
static inline enum dtype unit_gradient_dtype(const struct unit *unit, enum storage_class storage, enum dtype statistic)
{
    return unit->gradient_rounded && storage == STORAGE_MATRIX ? DTYPE_BF16 : statistic;
}

/* Returns whether ops that compute the gradient of weight `id` must add to the buffer instead of replacing it. */
bool unit_accumulates(const struct unit *unit, int id);

#endif
