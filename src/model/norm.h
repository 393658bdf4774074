/* The norm before a part of a model: RMSNorm, or LayerNorm with bias, as the family has it. */
#ifndef MODEL_NORM_H
#define MODEL_NORM_H

#include "model/execution.h"

/* Ids of a unit; bias and mean are LayerNorm's alone. */
struct norm {
    int weight, bias;
    int rstd, mean;
    bool own; /* of UNIT_OWN_TOKENS, else of all tokens */
};

/* Declares the parameters "<name>.weight", ".bias" and the statistics; the unit declares the norm's output itself. */
void norm_declare(struct unit *unit, const struct norm *norm, const char *name);

/* x, y: [T, hidden]; T may be less than the micro-batch's tokens. */
void norm_forward(const struct execution *execution, const struct unit *unit, const struct norm *norm, struct tensor x,
                  struct tensor y);

struct norm_gradients {
    struct tensor x, dy;
    struct tensor residual; /* optional; may be dx itself */
    struct tensor dx;       /* residual + the gradient through the norm; these are [T, hidden] */
    struct tensor sum;      /* optional, of layer norms: [1, hidden] (+)= the sum of dx over T */
    bool accumulate_sum;
};

/* Computes what execution->gradients wants of dx and of the gradients of the parameters. */
void norm_backward(const struct execution *execution, const struct unit *unit, const struct norm *norm,
                   const struct norm_gradients *of);

#endif
