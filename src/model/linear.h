/* Linear layers y = x W' (+ bias) and the operands that they read. What a linear keeps for backward, and in which
 * format its GEMMs run, is decided here and nowhere else. */
#ifndef MODEL_LINEAR_H
#define MODEL_LINEAR_H

#include "model/unit.h"

/* The input of a linear: its value, and for 8-bit GEMMs a row copy (forward), a column copy (weight gradient) and
 * their scale. */
struct operand {
    struct tensor value;
    struct tensor row, column, scale;
};

/* Ids that a linear adds to its unit, from `first` on. */
enum linear_tensor {
    LINEAR_INPUT_ROW,
    LINEAR_INPUT_COLUMN,
    LINEAR_INPUT_SCALE,
    LINEAR_WEIGHT_ROW,
    LINEAR_WEIGHT_COLUMN,
    LINEAR_WEIGHT_SCALE,
    LINEAR_GRADIENT_ROW,
    LINEAR_GRADIENT_COLUMN,
    LINEAR_GRADIENT_SCALE,
    LINEAR_TENSORS
};

struct linear {
    int weight; /* id of the unit's weight [out, in] */
    int bias;   /* of its bias [1, out], where the family has them */
    int first;  /* id of the first of LINEAR_TENSORS tensors */
    enum precision precision;
    bool summed; /* the op that writes dy can sum it as well: linear_sum */
};

/* Declares the tensors of a linear that reads unit tensors of UNIT_TOKENS rows. */
void linear_declare(struct unit *unit, const struct linear *linear);

/* The operand whose value is the unit's tensor `id`. */
struct operand linear_operand(const struct context *context, const struct unit *unit, const struct linear *linear,
                              int id);
/* Call once the value has been written: makes the copies that the GEMMs read. */
void linear_prepare(const struct context *context, const struct linear *linear, const struct operand *x);

/* y = x W' + bias (+ addend, where present). x: [T, in]; y, addend: [T, out]; addend may be y itself. */
void linear_forward(const struct context *context, const struct unit *unit, const struct linear *linear,
                    const struct operand *x, struct tensor y, struct tensor addend);

/* The bias's gradient [1, out], if the op that writes dy must also sum dy into it before linear_backward; absent
 * otherwise: then linear_backward makes it. */
struct tensor linear_sum(const struct context *context, const struct unit *unit, const struct linear *linear);

/* x: [T, in]; dy: [T, out]; dx: [T, in]. Computes what context->gradients wants of dx = dy W, the weight's gradient
 * (+)= dy' x, and the bias's (+)= sum of dy over T. */
void linear_backward(const struct context *context, const struct unit *unit, const struct linear *linear,
                     const struct operand *x, struct tensor dy, struct tensor dx);

#endif
