/* Linear layers y = x W' (+ bias) and the operands that their products read. What a linear keeps for backward, and in
 * which format its products run, is decided here and nowhere else.
 *
 * A quantized linear computes with copies of its operands in training; evaluation and inference compute in the compute
 * type. An operand's value is rounded into copies once: the input's and the gradient's when they are made, the weight's
 * when it has changed. */
#ifndef MODEL_LINEAR_H
#define MODEL_LINEAR_H

#include "model/execution.h"

/* An operand of a linear's products: its value, and the copies that are made of it where the linear is quantized: the
 * row copy for the product over its columns, the column copy for the weight's gradient. */
struct operand {
    struct tensor value;
    struct quantized_copies to;
    struct tensor own; /* where value is gathered: this rank's part of it; else absent */
};

/* Ids that a linear adds to its unit's tensors, from `first` on, and to its copies of weights, from `first_copy` on. */
enum linear_tensor {
    LINEAR_ROW,
    LINEAR_COLUMN,
    LINEAR_ROW_SCALE,
    LINEAR_COLUMN_SCALE,
    LINEAR_COPIES, /* here: the input's; LINEAR_GRADIENT + the same: the gradient's; LINEAR_WEIGHT +: the weight's */
    LINEAR_GRADIENT = LINEAR_COPIES,
    LINEAR_WEIGHT = 2 * LINEAR_COPIES, /* where the store does not keep them */
    /* where tensor ranks cut it, and the sequence: what this rank collects of them, and what it makes for their sum */
    LINEAR_GATHERED = 3 * LINEAR_COPIES,
    LINEAR_PARTIAL,
    LINEAR_ROOM, /* for that sum */
    LINEAR_AMAX, /* of what is gathered, of all ranks */
    LINEAR_TENSORS
};

/* Which part of a linear a tensor rank has: all, some outputs (rows of the weight), or some inputs (columns). Outputs:
 * forward reads all ranks' tokens, and the ranks sum dx. Inputs: the ranks sum y, to which bias and addend then come
 * once, and backward reads all ranks' tokens of dy. */
enum linear_cut { LINEAR_WHOLE, LINEAR_OUTPUTS, LINEAR_INPUTS };

struct linear {
    int weight; /* id of the unit's weight [out, in] */
    int bias;   /* of its bias [1, out]; -1: it has none */
    int first, first_copy;
    enum linear_cut cut; /* of a model that is cut */
    int section; /* of forward (execution_wants) that has its product: where it is not run again, no row copy is made;
                    -1: its products are all in backward */
    int64_t tokens;                           /* that it works on at a time, at most: UNIT_TOKENS, or so many */
    bool adds;                                /* to the gradients that an earlier part of the micro-batch has left */
    int number;                               /* of its first operand among all of the model's: operand_number */
    const struct linear_precision *precision; /* NULL: the compute type */
    bool makes_copies;                        /* of its weight for each product; false: the store keeps them */
    bool summed;                              /* the op that writes dy can sum it as well: linear_sum */
    bool fused[OPERAND_COUNT];                /* the op that writes the operand can make its copies: linear_made */
};

/* Elements from a scale to the next, of several for whole tensors: products read a scale at a multiple of 16 bytes. */
enum { SCALE_STRIDE = 4 };

/* Operands are numbered by layer, linear and operand; the head's two linears count as a layer behind the last. */
static inline int operand_number(int layer, int linear, enum operand_kind kind)
{
    return (layer * LINEAR_COUNT + linear) * OPERAND_COUNT + (int)kind;
}

/* How many a model has. */
static inline int operand_count(const struct model_settings *settings)
{
    return operand_number((int)settings->layers + 1, 0, OPERAND_INPUT);
}

/* The layer, counted from 0, of an operand's number. */
static inline int operand_layer(int number)
{
    return number / operand_number(1, 0, OPERAND_INPUT);
}

/* Declares the copies of a linear's operands, its weight's included, which is declared already. */
void linear_declare(struct unit *unit, const struct linear *linear);

/* What copies of the operand of that number are made with, but for the copies themselves and scales that are made with
 * them. */
struct quantized_copies linear_copies(const struct execution *execution, const struct linear_precision *precision,
                                      int number);

/* Makes the copies of the weight that the store keeps, as class->copy_weights (unit.h) says; the weight is valid now.
 */
void linear_copy_weight(const struct execution *execution, const struct unit *unit, const struct linear *linear,
                        bool all);

/* Does it gather x of what tensor ranks have of it? linear_prepare is then a section of its own, which makes
 * linear->first + LINEAR_GATHERED; or, where products read 8-bit copies with one scale for the tensor, it gathers the
 * row copy and transposes that to the column copy: half the bytes, and the bits of copies of gathered values. */
bool linear_gathers(const struct unit *unit, const struct linear *linear);

/* The operand that is x [T, in] or dy [T, out]; T may be less than linear->tokens. In a model whose sequence is cut, x
 * of LINEAR_OUTPUTS, and its dx, are those of this rank's tokens, and so are y, addend and dy of LINEAR_INPUTS. */
struct operand linear_input(const struct execution *execution, const struct unit *unit, const struct linear *linear,
                            struct tensor x);
struct operand linear_gradient(const struct execution *execution, const struct unit *unit, const struct linear *linear,
                               struct tensor dy);

/* What an op that can make copies shall write of the operand: its value, copies of it, or both. */
struct operand linear_made(const struct execution *execution, const struct unit *unit, const struct linear *linear,
                           enum operand_kind kind, const struct operand *operand);

/* Call once the input has been written: gathers it, and makes the copies that its op has not made. */
void linear_prepare(const struct execution *execution, const struct unit *unit, const struct linear *linear,
                    const struct operand *x);

/* y = x W' + bias (+ addend, where present). x: [T, in]; y, addend: [T, out]; addend may be y itself if nothing is cut.
 */
void linear_forward(const struct execution *execution, const struct unit *unit, const struct linear *linear,
                    const struct operand *x, struct tensor y, struct tensor addend);

/* The bias's gradient [1, out], if the op that writes dy must also sum dy into it before linear_backward; absent
 * otherwise: then linear_backward makes it. */
struct tensor linear_sum(const struct execution *execution, const struct unit *unit, const struct linear *linear);

/* A linear whose backward comes next, and its input. */
struct linear_beside {
    const struct linear *linear;
    const struct operand *x;
};

/* A weight's gradient that is still to be made: beside the next linear's transfer, or by linear_finish. Zeros: none. */
struct linear_pending {
    bool present;
    struct linear linear;
    struct operand x, dy;
};

/* Makes it, if there is one. */
void linear_finish(const struct execution *execution, const struct unit *unit, struct linear_pending *pending);

/* x: [T, in]; dy: [T, out]; dx: [T, in]. Computes what execution->gradients wants of dx = dy W, the weight's gradient
 * (+)= dy' x, and the bias's (+)= sum of dy over T. dy's copies, where its op has not made them, are made here.
 *
 * next: NULL, or the linear whose backward follows. Where that one must gather its input again (linear_gathers), this
 * call starts it, and it runs beside what is launched from here on. A linear that gathers is always the `next` of
 * another.
 *
 * pending: NULL, or what linears of the unit hand on from one to the next. Where tensor ranks cut the sequence, the
 * call makes the weight's gradient that it finds there while it gathers dy or sums dx, and leaves its own there. */
void linear_backward(struct execution *execution, const struct unit *unit, const struct linear *linear,
                     const struct operand *x, struct tensor dy, struct tensor dx, const struct linear_beside *next,
                     struct linear_pending *pending);

#endif
