#include "model/sequence.h"

static struct tensor flat(struct tensor x)
{
    return tensor_vector(x.data, x.dtype, tensor_count(&x));
}

static struct tensor by_ranks(const struct context *c, struct tensor x)
{
    return tensor_matrix(x.data, x.dtype, c->tensor->size, tensor_count(&x) / c->tensor->size);
}

struct tensor sequence_own(const struct context *c, struct tensor all)
{
    const int64_t rows = all.rows / c->tensor->size;
    return tensor_rows(&all, c->tensor->rank * rows, rows);
}

void sequence_gather(const struct context *c, struct tensor own, struct tensor all)
{
    LAUNCH(c->stream, ALL_GATHER, all_gather, .group = c->tensor, .in = flat(own), .out = by_ranks(c, all));
}

void sequence_declare_room(struct unit *unit, int room, int64_t tokens, int64_t columns)
{
    if (sequence_is_cut(unit))
        unit_declare_tensor(unit, room, "room for a sum", tokens, columns, ROLE_VALUE);
}

/* Absent where the group does not make sums of copies: then no memory is planned for it. */
static struct tensor room_of(const struct context *c, const struct unit *unit, int id)
{
    const struct tensor absent = {0};
    return c->tensor->copies ? by_ranks(c, unit_tensor(c, unit, id)) : absent;
}

void sequence_add_up(const struct context *c, const struct unit *unit, struct tensor partial, struct tensor sum,
                     int room)
{
    if (sequence_is_cut(unit))
        LAUNCH(c->stream, REDUCE_SCATTER, reduce_scatter, .group = c->tensor, .in = by_ranks(c, partial),
               .out = flat(sum), .room = room_of(c, unit, room));
    else
        LAUNCH(c->stream, ALL_REDUCE, all_reduce, .group = c->tensor, .x = sum);
}
