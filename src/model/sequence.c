#include "model/sequence.h"

static struct tensor flat(struct tensor x)
{
    return tensor_vector(x.data, x.dtype, tensor_count(&x));
}

static struct tensor by_ranks(const struct execution *e, struct tensor x)
{
    return tensor_matrix(x.data, x.dtype, e->tensor->size, tensor_count(&x) / e->tensor->size);
}

struct tensor sequence_own(const struct execution *e, struct tensor all)
{
    const int64_t rows = all.rows / e->tensor->size;
    return tensor_rows(&all, e->tensor->rank * rows, rows);
}

void sequence_place(const struct execution *e, struct tensor own, struct tensor all)
{
    LAUNCH(e->stream, COPY, copy, .from = own, .to = sequence_own(e, all));
}

void sequence_gather(const struct execution *e, struct tensor all)
{
    LAUNCH(e->stream, ALL_GATHER, all_gather, .group = e->tensor, .in = flat(sequence_own(e, all)),
           .out = by_ranks(e, all));
}

void sequence_declare_scratch(struct unit *unit, int scratch, int64_t tokens, int64_t columns)
{
    if (sequence_parallel(unit))
        unit_declare_tensor(unit, scratch, "room for a sum", tokens, columns, ROLE_VALUE);
}

/* Absent if the group's sums need no scratch; then no memory is planned for it. */
static struct tensor scratch_of(const struct execution *e, const struct unit *unit, int id, int64_t rows)
{
    const struct tensor absent = {0};
    if (!e->tensor->copies)
        return absent;
    return by_ranks(e, unit_first_rows(e, unit, id, rows));
}

void sequence_sum(const struct execution *e, const struct unit *unit, struct tensor partial, struct tensor sum,
                  int scratch)
{
    if (sequence_parallel(unit))
        LAUNCH(e->stream, REDUCE_SCATTER, reduce_scatter, .group = e->tensor, .in = by_ranks(e, partial),
               .out = flat(sum), .scratch = scratch_of(e, unit, scratch, partial.rows));
    else
        LAUNCH(e->stream, ALL_REDUCE, all_reduce, .group = e->tensor, .x = sum);
}
