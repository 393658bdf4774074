#include "model/sequence.h"

/* The most chunks. Exposed are one chunk's gather before a GEMM and one chunk's sum after it; more chunks make small
 * GEMMs and short transfers. */
enum { CHUNKS = 4 };

static struct tensor flat(struct tensor x)
{
    return tensor_vector(x.data, x.dtype, tensor_count(&x));
}

static struct tensor by_ranks(const struct execution *e, struct tensor x)
{
    return tensor_matrix(x.data, x.dtype, e->tensor->size, tensor_count(&x) / e->tensor->size);
}

int sequence_chunks(const struct execution *e, int64_t tokens)
{
    int chunks = CHUNKS;
    while (tokens / e->tensor->size % chunks != 0)
        chunks /= 2;
    return chunks;
}

struct tensor sequence_chunk(struct tensor x, int chunk, int chunks)
{
    const int64_t rows = x.rows / chunks;
    return tensor_rows(&x, chunk * rows, rows);
}

struct tensor sequence_own(const struct execution *e, struct tensor all)
{
    const int64_t rows = all.rows / e->tensor->size;
    return tensor_rows(&all, e->tensor->rank * rows, rows);
}

void sequence_gather_rows(const struct execution *e, struct tensor own, struct tensor all)
{
    LAUNCH(e->stream, ALL_GATHER, all_gather, .group = e->tensor, .in = flat(own), .out = by_ranks(e, all));
}

void sequence_gather(const struct execution *e, struct tensor own, struct tensor all)
{
    const int chunks = sequence_chunks(e, all.rows);
    for (int chunk = 0; chunk < chunks; chunk++)
        sequence_gather_rows(e, sequence_chunk(own, chunk, chunks), sequence_chunk(all, chunk, chunks));
}

void sequence_declare_room(struct unit *unit, int room, int64_t tokens, int64_t columns)
{
    if (sequence_is_cut(unit))
        unit_declare_tensor(unit, room, "room for a sum", tokens, columns, ROLE_VALUE);
}

/* Absent if the group's sums need no scratch; then no memory is planned for it. */
static struct tensor room_of(const struct execution *e, const struct unit *unit, int id, int chunk, int chunks)
{
    const struct tensor absent = {0};
    return e->tensor->copies ? by_ranks(e, sequence_chunk(unit_tensor(e, unit, id), chunk, chunks)) : absent;
}

void sequence_add_up_chunk(const struct execution *e, const struct unit *unit, struct tensor partial, struct tensor sum,
                           int room, int chunk, int chunks)
{
    LAUNCH(e->stream, REDUCE_SCATTER, reduce_scatter, .group = e->tensor,
           .in = by_ranks(e, sequence_chunk(partial, chunk, chunks)), .out = flat(sequence_chunk(sum, chunk, chunks)),
           .room = room_of(e, unit, room, chunk, chunks));
}

void sequence_add_up(const struct execution *e, const struct unit *unit, struct tensor partial, struct tensor sum,
                     int room)
{
    if (!sequence_is_cut(unit)) {
        LAUNCH(e->stream, ALL_REDUCE, all_reduce, .group = e->tensor, .x = sum);
        return;
    }
    const int chunks = sequence_chunks(e, partial.rows);
    for (int chunk = 0; chunk < chunks; chunk++)
        sequence_add_up_chunk(e, unit, partial, sum, room, chunk, chunks);
}
