#include "store/master.h"

enum dtype master_dtype(const struct master_weights *master)
{
    return master->value.dtype == DTYPE_BF16 ? DTYPE_F32 : master->value.dtype;
}

struct master_weights master_part(const struct master_weights *master, int64_t first, int64_t count)
{
    struct master_weights part = {.value = tensor_columns(&master->value, first, count)};
    if (tensor_present(&master->low))
        part.low = tensor_columns(&master->low, first, count);
    return part;
}

static struct tensor whole(const struct master_weights *master, const void *host)
{
    return tensor_vector((void *)host, master_dtype(master), master->value.cols);
}

void master_write(struct stream *stream, const void *from, const struct master_weights *to)
{
    if (to->value.dtype == DTYPE_BF16)
        LAUNCH(stream, SPLIT, split, .from = whole(to, from), .high = to->value, .low = to->low);
    else
        LAUNCH(stream, COPY, copy, .from = whole(to, from), .to = to->value);
}

void master_read(struct stream *stream, const struct master_weights *from, void *to)
{
    if (from->value.dtype == DTYPE_BF16)
        LAUNCH(stream, JOIN, join, .high = from->value, .low = from->low, .to = whole(from, to));
    else
        LAUNCH(stream, COPY, copy, .from = from->value, .to = whole(from, to));
}
