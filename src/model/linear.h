/* Linear layers y = x W' (+ bias), and the operands of their GEMMs. Only its files linear*.c decide what a linear keeps
 * for backward, and in which formats its GEMMs run.
 *
 * In training a quantized linear computes with quantized operands; evaluation and inference use the compute type. Each
 * operand is quantized once: input and output gradient when they are made, the weight when it has changed, or if it is
 * sharded whenever it has been gathered. */
#ifndef MODEL_LINEAR_H
#define MODEL_LINEAR_H

#include "model/linear_adapter.h"

/* An operand of a linear's GEMMs: its value, and if the linear is quantized its quantized forms: rowwise for the GEMM
 * that reduces over its columns, columnwise for the weight gradient. */
struct operand {
    struct tensor value;
    struct quantized_operands to;
    struct tensor own; /* this rank's part, if value is gathered from tensor ranks; else absent */
};

/* Ids that a linear adds to its unit's tensors, from linear->first on, and to its unit's quantized weights, from
 * first_quantized on. */
enum linear_tensor {
    LINEAR_ROW,
    LINEAR_COLUMN,
    LINEAR_ROW_SCALE,
    LINEAR_COLUMN_SCALE,
    LINEAR_QUANTIZED, /* the four ids above are the input's; LINEAR_GRADIENT + id: the output gradient's; LINEAR_WEIGHT
                      + id: the weight's */
    LINEAR_GRADIENT = LINEAR_QUANTIZED,
    LINEAR_WEIGHT = 2 * LINEAR_QUANTIZED, /* if the store does not keep them */
    /* sequence parallelism: the operand gathered from all ranks, and this rank's term of a sum over ranks */
    LINEAR_GATHERED = 3 * LINEAR_QUANTIZED,
    LINEAR_PARTIAL,
    LINEAR_SCRATCH, /* scratch for this sum */
    LINEAR_AMAX,    /* amax of a gathered operand, over all ranks */
    LINEAR_ADAPTED, /* of adapters (model/linear_adapter.h) */
    LINEAR_ADAPTED_GRADIENT,
    LINEAR_DROPPED,
    LINEAR_TENSORS
};

/* The part of a linear that a tensor rank has: all, some outputs (rows of the weight), or some inputs.
 * Column-parallel: forward reads the tokens of all ranks, and dx is summed over ranks. Row-parallel: y is summed over
 * ranks, with bias and addend added once, and backward reads dy of all ranks' tokens. */
enum linear_split { LINEAR_REPLICATED, LINEAR_COLUMN_PARALLEL, LINEAR_ROW_PARALLEL };

struct linear {
    int weight; /* id of the unit's weight [out, in] */
    int bias;   /* id of the bias [1, out]; -1: none */
    int first, first_quantized;
    enum linear_split split; /* how tensor parallelism splits this linear */
    int section; /* section of forward (execution_wants) with its GEMM; a backward that does not recompute it makes no
                    rowwise input. -1: all its GEMMs are in backward */
    int64_t tokens;                           /* maximum number of tokens in a call: UNIT_TOKENS or a number */
    bool adds;                                /* adds to gradients of an earlier slice of the micro-batch */
    int number;                               /* operand_number of its input */
    const struct linear_precision *precision; /* NULL: the compute type */
    bool quantizes_per_gemm;   /* quantizes the weight for each GEMM; false: the store keeps quantized weights */
    bool summed;               /* the op that writes dy can also sum dy for the bias gradient: linear_sum */
    bool fused[OPERAND_COUNT]; /* the op that writes the operand can also quantize it: linear_made */
    struct linear_adapter adapter;
    bool ends_backward; /* the input's gradient is not needed */
    bool frozen;        /* the weight is not trained, so no columnwise forms are made for its gradient */
    bool remade; /* the backward of the op that writes the input can recompute the columnwise form: linear_remade */
};

/* Distance in elements between the scales of consecutive tensors: GEMMs need a tensor's scale at a multiple of 16
 * bytes. */
enum { SCALE_STRIDE = 4 };

/* Returns the number of an operand, by layer, linear and kind. The head's two linears count as one more layer. */
static inline int operand_number(int layer, int linear, enum operand_kind kind)
{
    return (layer * LINEAR_COUNT + linear) * OPERAND_COUNT + (int)kind;
}

/* Returns the number of operands of a model. */
static inline int operand_count(const struct model_settings *settings)
{
    return operand_number((int)settings->layers + 1, 0, OPERAND_INPUT);
}

/* Returns the layer, from 0, of an operand's number. */
static inline int operand_layer(int number)
{
    return number / operand_number(1, 0, OPERAND_INPUT);
}

/* Declares a linear's tensors and quantized operands, those of the weight included. The weight is declared before. */
void linear_declare(struct unit *unit, const struct linear *linear);

/* Returns the arguments to quantize operand `number`, but for the targets and scales that are computed while
 * quantizing. */
struct quantized_operands linear_quantized(const struct execution *execution, const struct linear_precision *precision,
                                           int number);

/* Quantizes the weight for the store, as class->quantize_weights (unit.h) describes; the weight is valid during the
 * call.
 */
void linear_quantize_weight(const struct execution *execution, const struct unit *unit, const struct linear *linear,
                            bool all);

/* Returns whether the linear gathers x from the tensor ranks. linear_prepare is then a section of its own, which makes
 * linear->first + LINEAR_GATHERED. If GEMMs read 8-bit operands with one scale per tensor, it gathers the rowwise
 * operand and transposes it to the columnwise one: half the bytes, with the same result as quantizing the gathered
 * values. */
bool linear_gathers(const struct unit *unit, const struct linear *linear);

/* Returns the operand for x [T, in] or dy [T, out]; T may be less than linear->tokens. With sequence parallelism, x and
 * dx of LINEAR_COLUMN_PARALLEL have this rank's tokens only, as have y, addend and dy of LINEAR_ROW_PARALLEL. */
struct operand linear_input(const struct execution *execution, const struct unit *unit, const struct linear *linear,
                            struct tensor x);
struct operand linear_gradient(const struct execution *execution, const struct unit *unit, const struct linear *linear,
                               struct tensor dy);

/* Returns the tensors that an op that can quantize must write for the operand: its value, its quantized forms, or both.
 */
struct operand linear_made(const struct execution *execution, const struct unit *unit, const struct linear *linear,
                           enum operand_kind kind, const struct operand *operand);

/* Returns the operand that the backward of the op that writes the input must recompute: the columnwise form for the
 * weight gradient, which is then not kept from forward. Absent if forward makes it. linear_backward leaves the weight
 * gradient pending if it needs this form. */
struct quantized_operands linear_remade(const struct execution *execution, const struct linear *linear,
                                        const struct operand *input);

/* Gathers the input, and quantizes it unless its op has done so. Call it after the input has been written. */
void linear_prepare(const struct execution *execution, const struct unit *unit, const struct linear *linear,
                    const struct operand *x);

/* Computes y = x W' + bias (+ addend, if present), and adds the adapters' outputs. x: [T, in]; y, addend: [T, out];
 * addend may be y itself without tensor parallelism. */
void linear_forward(const struct execution *execution, const struct unit *unit, const struct linear *linear,
                    const struct operand *x, struct tensor y, struct tensor addend);

/* Returns whether the linear's launches add to its gradients, instead of overwriting them. */
bool linear_accumulates(const struct unit *unit, const struct linear *linear);

/* Returns the bias gradient [1, out] if the op that writes dy must also sum dy into it before linear_backward. Absent:
 * linear_backward computes it. */
struct tensor linear_sum(const struct execution *execution, const struct unit *unit, const struct linear *linear);

/* The linear whose backward follows, and its input. */
struct linear_next {
    const struct linear *linear;
    const struct operand *x;
};

/* A postponed weight gradient, which overlaps with the next linear's transfer, or whose input is made after the
 * output gradient (linear_remade). Zeros: none. */
struct linear_pending {
    bool present;
    struct linear linear;
    struct operand x, dy;
};

/* Computes the pending weight gradient, if any. */
void linear_finish(const struct execution *execution, const struct unit *unit, struct linear_pending *pending);

/* Computes the gradients that execution->gradients requests: dx = dy W, the weight's (+)= dy' x, and the bias's (+)=
 * sum of dy over T; and those of the adapters. x: [T, in]; dy: [T, out]; dx: [T, in]. Quantizes dy, unless its op has
 * done so.
 *
 * next: the linear whose backward follows, or NULL. If that linear must gather its input again (linear_gathers), this
 * call starts the gather, overlapped with later launches. Every linear that gathers must be passed as `next` before its
 * own call.
 *
 * pending: the postponed weight gradient of the unit, or NULL if nothing can be postponed. With sequence parallelism,
 * the call computes the pending weight gradient while it gathers dy or sums dx, and leaves its own pending. */
void linear_backward(struct execution *execution, const struct unit *unit, const struct linear *linear,
                     const struct operand *x, struct tensor dy, struct tensor dx, const struct linear_next *next,
                     struct linear_pending *pending);

#endif
