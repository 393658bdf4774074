/* The norm before a part of a model: RMSNorm, or LayerNorm with bias, as the family has it. */
#ifndef MODEL_NORM_H
#define MODEL_NORM_H

#include "model/unit.h"

/* Ids of a unit; bias and mean are LayerNorm's alone. */
struct norm {
    int weight, bias;
    int rstd, mean;
    bool own; /* of UNIT_OWN_TOKENS, else of all tokens */
};

/* Declares the parameters "<name>.weight", ".bias" and the statistics; the unit declares the norm's output itself. */
void norm_declare(struct unit *unit, const struct norm *norm, const char *name);

/* x, y: [T, hidden]; T may be less than the micro-batch's tokens. */
void norm_forward(const struct context *context, const struct unit *unit, const struct norm *norm, struct tensor x,
                  struct tensor y);

/* x, dy, residual, dx: [T, hidden]. Computes what context->gradients wants of dx = residual (where present) + the
 * gradient through the norm, and the gradients of the parameters. residual may be dx itself. sum, of layer norms where
 * present: [1, hidden] (+)= the sum of dx over T. */
void norm_backward(const struct context *context, const struct unit *unit, const struct norm *norm, struct tensor x,
                   struct tensor dy, struct tensor residual, struct tensor dx, struct tensor sum, bool accumulate_sum);

#endif
