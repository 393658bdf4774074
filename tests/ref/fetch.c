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

struct tensor fetch_master(struct stream *stream, const struct master_weights *from)
{
    struct executor *executor = stream->executor;
    const int64_t count = from->value.cols, bytes = count * dtype_size(master_dtype(from));
    struct tensor copy = tensor_vector(memory_allocate(bytes), master_dtype(from), count);
    void *staging = executor->class->allocate(executor, bytes, MEMORY_HOST);
    master_read(stream, from, staging);
    stream_synchronize(stream);
    memcpy(copy.data, staging, (size_t)bytes);
    executor->class->release(executor, staging, MEMORY_HOST);
    return copy;
}

void fetch_master_return(struct stream *stream, struct tensor copy, const struct master_weights *to)
{
    struct executor *executor = stream->executor;
    const int64_t bytes = tensor_extent(&copy);
    void *staging = executor->class->allocate(executor, bytes, MEMORY_HOST);
    memcpy(staging, copy.data, (size_t)bytes);
    master_write(stream, staging, to);
    stream_synchronize(stream);
    executor->class->release(executor, staging, MEMORY_HOST);
    memory_free(copy.data);
}
