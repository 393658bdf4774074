/* Norms of a block or head: RMSNorm, or LayerNorm with or without bias, as the family says. */
#ifndef MODEL_NORM_H
#define MODEL_NORM_H

#include "model/execution.h"

/* A norm's place: in a block, before the head, or in the head's transform. The input of the first two is the residual
 * stream (model_stream_factor). */
enum norm_place { NORM_BLOCK, NORM_FINAL, NORM_TRANSFORM };

/* Ids of weights and statistics; LayerNorm only: bias and mean. */
struct norm {
    int weight, bias;
    int rstd, mean;
    bool own; /* statistics have UNIT_OWN_TOKENS elements, else UNIT_TOKENS */
    enum norm_place place;
};

/* Declares the parameters "<name>.weight", ".bias" and the statistics; the unit declares the norm's output itself. */
void norm_declare(struct unit *unit, const struct norm *norm, const char *name);

/* Computes y = norm(x) and its statistics. x, y: [T, hidden]; T may be less than the micro-batch's tokens. */
void norm_forward(const struct execution *execution, const struct unit *unit, const struct norm *norm, struct tensor x,
                  struct tensor y);

struct norm_gradients {
    struct tensor x, dy;
    struct tensor residual; /* optional; may be dx itself */
    struct tensor dx;       /* residual + the gradient through the norm; all four are [T, hidden] */
    struct tensor sum;      /* optional, LayerNorm only: [1, hidden] (+)= the sum of dx over T */
    bool accumulate_sum;
};

/* Computes the gradients that execution->gradients requests: dx, and those of the parameters. */
void norm_backward(const struct execution *execution, const struct unit *unit, const struct norm *norm,
                   const struct norm_gradients *of);

#endif
