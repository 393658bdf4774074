/* Sequence parallelism (layer_cut.sequence): between linear layers (norms, residual stream) each tensor rank has a part
 * of the tokens; elsewhere every rank has all. All functions but sequence_is_cut need tensor parallelism.
 *
 * All tokens are a few chunks of consecutive rows, so that the transfer of one chunk overlaps with the GEMM of another.
 * Each rank has its part of every chunk, in rank order: own row i of chunk c is one of rank r's rows of chunk c. */
#ifndef MODEL_SEQUENCE_H
#define MODEL_SEQUENCE_H

#include "model/execution.h"

/* Returns whether the unit's model uses sequence parallelism. */
static inline bool sequence_is_cut(const struct unit *unit)
{
    return unit->settings->layer.sequence;
}

/* Returns the number of chunks of `tokens` tokens, the same on all tensor ranks. */
int sequence_chunks(const struct execution *execution, int64_t tokens);
/* Returns the rows of a chunk, of all tokens or of this rank's own. */
struct tensor sequence_chunk(struct tensor x, int chunk, int chunks);

/* Returns this rank's rows of `all`, which consists of one part a rank, in rank order: a chunk, for example. */
struct tensor sequence_own(const struct execution *execution, struct tensor all);
/* Gathers `all` from the ranks' parts, in rank order. Collective over the tensor ranks. */
void sequence_gather_rows(const struct execution *execution, struct tensor own, struct tensor all);

/* Gathers the rows of all tokens, all [T, n], chunk by chunk, from the ranks' own [T / ranks, n], contiguous.
 * Collective over the tensor ranks. */
void sequence_gather(const struct execution *execution, struct tensor own, struct tensor all);

/* With sequence parallelism: declares tensor `room`, scratch for sums over ranks of [T, columns], T at most `tokens`.
 */
void sequence_declare_room(struct unit *unit, int room, int64_t tokens, int64_t columns);

/* Sums partial [T, n] over the tensor ranks. With sequence parallelism, sum [T / ranks, n] receives this rank's rows,
 * and `room` is the scratch's id. Without it, `sum` is `partial` and receives all rows. Collective. */
void sequence_add_up(const struct execution *execution, const struct unit *unit, struct tensor partial,
                     struct tensor sum, int room);
/* As sequence_add_up, with sequence parallelism, for one chunk of the tokens. */
void sequence_add_up_chunk(const struct execution *execution, const struct unit *unit, struct tensor partial,
                           struct tensor sum, int room, int chunk, int chunks);

#endif
