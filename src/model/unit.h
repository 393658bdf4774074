/* A unit is a piece of a model with a forward and a backward: the embedding, a block, the head. It declares its
 * parameters, the weights that its ops read and the tensors that it works on; it never allocates, synchronises,
 * or names a rank, a device or a dtype. It asks for tensors by id and calls ops. */
#ifndef MODEL_UNIT_H
#define MODEL_UNIT_H

#include "base/error.h"
#include "core/quantization.h"
#include "model/parameter.h"

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

struct execution;

struct unit_class {
    const char *name;
    /* input: the previous unit's output (absent for the embedding). */
    void (*forward)(struct execution *execution, struct unit *unit, struct tensor input);
    /* output_gradient: absent for the head. Gradients of weights are added to what the unit's buffers hold, or replace
     * it in the first micro-batch of a step. */
    void (*backward)(struct execution *execution, struct unit *unit, struct tensor input,
                     struct tensor output_gradient);
    /* Makes copies of the unit's weights or of its row copies, which are valid now: all of them, or those alone that
     * execution->pass reads, with execution->wanted in a backward. NULL: it has none. */
    void (*copy_weights)(const struct execution *execution, struct unit *unit, bool all);
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
     * in the execution. NULL: it has not. */
    char *row_base;
    struct tensor row_scales;
    void *gradient_base[STORAGE_COUNT];
    bool gradient_fresh; /* the buffers hold nothing yet: the first contribution replaces */
};

/* -- Declaring -------------------------------------------------------------------------------------------------- */

/* A new weight of `rows` x `cols`, without parameters yet; returns nothing: ids are the class's enum. */
void unit_declare_weight(struct unit *unit, int id, int64_t rows, int64_t cols, enum storage_class storage);
/* Makes room in the flat buffer for as many rows of weight `id`, or elements of a vector, as any tensor rank has: their
 * buffers are alike. It is the last that was declared. */
void unit_make_room(struct unit *unit, int id, int64_t extent);
/* The next `extent` rows of weight `id`, or elements where it is a vector, are the parameter of that printf-like name;
 * returns it, until the next is declared. */
struct parameter *unit_declare_parameter(struct unit *unit, int id, int64_t extent, struct initial_value initial,
                                         const char *name, ...) BASE_PRINTF(5, 6);
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
/* Rows or columns that a tensor of a unit declared as so many has for a micro-batch of that many tokens. */
int64_t unit_extent(const struct unit *unit, int64_t declared, int64_t tokens);

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

/* The element type in which ops write the gradients of its own weights of that class. */
static inline enum dtype unit_gradient_dtype(const struct unit *unit, enum storage_class storage, enum dtype statistic)
{
    return unit->rounds_gradients && storage == STORAGE_MATRIX ? DTYPE_BF16 : statistic;
}

/* Whether a gradient op should add to what is there. */
bool unit_accumulates(const struct unit *unit, int id);

#endif
