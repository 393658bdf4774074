/* Declarations shared by the files of linear layers. */
#ifndef MODEL_LINEAR_PRIVATE_H
#define MODEL_LINEAR_PRIVATE_H

#include "model/linear.h"

/* linear_operand.c */

bool linear_is_quantized(const struct linear *linear);
/* Returns whether this pass quantizes. */
bool linear_quantizes(const struct execution *execution, const struct linear *linear);
/* Returns whether backward reads the values of input and output gradient, for the gradients of adapters. */
bool linear_has_adapters(const struct linear *linear);
/* Returns whether the op that writes the operand also quantizes it. The halves of a split backward quantize in separate
 * launches. */
bool linear_is_fused(const struct execution *execution, const struct linear *linear, enum operand_kind kind);
/* Returns whether the input's columnwise form is made in backward (linear_remade). */
bool linear_remakes(const struct linear *linear);

/* Returns the arguments to quantize an operand (linear_quantized). */
struct quantized_operands linear_rule(const struct execution *execution, const struct linear *linear,
                                      enum operand_kind kind);
/* Returns whether quantizing makes scales. */
bool operand_has_scales(const struct quantized_operands *to);
/* Return the scale of a quantized form: given (delayed scaling), or made by quantizing. */
struct tensor operand_row_scale(const struct quantized_operands *to);
struct tensor operand_column_scale(const struct quantized_operands *to);

/* Returns whether quantization errors are measured now; recomputed operands are not. */
bool linear_measures(const struct execution *execution, const struct unit *unit, const struct linear *linear);
/* Adds the operand's quantization error to the step's statistics, if they are measured. */
void linear_measure(const struct execution *execution, const struct unit *unit, const struct linear *linear,
                    enum operand_kind kind, const struct operand *operand);

/* linear_weight.c */

/* Returns the shape of a quantized form of the weight, or of its scales: LINEAR_ROW to LINEAR_COLUMN_SCALE. */
struct operand_shape linear_weight_shape(const struct unit *unit, const struct linear *linear, int which);
/* Returns the quantized weight for a GEMM that reads its rowwise or columnwise form, and makes that form if the store
 * does not keep it. */
struct quantized_operands linear_ready_weight(const struct execution *execution, const struct unit *unit,
                                              const struct linear *linear, bool column);

/* linear_gather.c */

/* Returns whether tensor ranks split the linear in this way. */
bool linear_is_split(const struct unit *unit, const struct linear *linear, enum linear_split split);
/* Returns the tensor for an operand that is gathered from all tensor ranks. */
struct tensor linear_gathered(const struct execution *execution, const struct unit *unit, const struct linear *linear);
/* Returns whether the operand can be gathered in rowwise quantized form, and transposed to the columnwise form. Not if
 * GEMMs, adapters or statistics read its value, if rounding is stochastic, or if its sum is a bias gradient. */
bool linear_gathers_quantized(const struct unit *unit, const struct linear *linear, enum operand_kind kind);

/* Puts this rank's part of an operand that is split over tensor ranks to its place among all. Returns whether the
 * quantized form is gathered; then the value is not. */
bool operand_place(const struct execution *execution, const struct unit *unit, const struct linear *linear,
                   enum operand_kind kind, const struct operand *operand);
/* Gathers an operand after `operand_place`, whose result is `quantized`, and transposes the quantized form to the
 * columnwise one, if a GEMM reads it. */
void operand_gather(const struct execution *execution, const struct operand *operand, bool quantized);
/* Gathers an operand if it is split over tensor ranks. Returns whether the quantized form was gathered; then the value
 * is not gathered. */
bool operand_collect(const struct execution *execution, const struct unit *unit, const struct linear *linear,
                     enum operand_kind kind, const struct operand *operand);

#endif
