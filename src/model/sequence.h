/* Between linear layers each token is on its own: norms and the residual stream. Where tensor ranks cut the sequence
 * (layer_cut.sequence), each has a part of the tokens there, in the order of ranks; elsewhere every rank has all. What
 * follows is for units of models with a cut. */
#ifndef MODEL_SEQUENCE_H
#define MODEL_SEQUENCE_H

#include "model/execution.h"

/* Does the unit's model cut the sequence? */
static inline bool sequence_is_cut(const struct unit *unit)
{
    return unit->settings->layer.sequence;
}

/* Of all tokens' rows [T, any] those of this rank. */
struct tensor sequence_own(const struct execution *execution, struct tensor all);

/* all [T, n] = the rows that ranks have of it: own [T / ranks, n], contiguous. */
void sequence_gather(const struct execution *execution, struct tensor own, struct tensor all);

/* Declares the unit's tensor that is `room` for sums over ranks of [T, columns]: T is at most `tokens`. */
void sequence_declare_room(struct unit *unit, int room, int64_t tokens, int64_t columns);

/* The sum over ranks of partial [T, n]. Where the sequence is cut, sum [T / ranks, n] = this rank's rows of it; `room`
 * is a tensor for it. Else sum [T, n], which is `partial` itself, becomes all of it. */
void sequence_add_up(const struct execution *execution, const struct unit *unit, struct tensor partial,
                     struct tensor sum, int room);

#endif
