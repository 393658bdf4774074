#include "fetch.h"
#include "base/memory.h"

struct tensor fetch(struct stream *stream, const struct tensor *from)
{
    void *data = memory_allocate(tensor_count(from) * dtype_size(from->dtype));
    struct tensor copy = tensor_matrix(data, from->dtype, from->rows, from->cols);
    LAUNCH(stream, COPY, copy, .from = *from, .to = copy);
    stream_synchronize(stream);
    return copy;
}

void fetch_return(struct stream *stream, struct tensor copy, const struct tensor *to)
{
    LAUNCH(stream, COPY, copy, .from = copy, .to = *to);
    stream_synchronize(stream);
    memory_free(copy.data);
}
