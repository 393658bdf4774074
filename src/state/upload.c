#include "state/upload.h"

void upload_create(struct device_upload *upload, struct stream *stream, int64_t bytes)
{
    struct executor *executor = stream->executor;
    *upload = (struct device_upload){.stream = stream};
    for (int i = 0; i < 2; i++)
        upload->buffers[i] = executor->class->allocate(executor, bytes, MEMORY_HOST);
}

void upload_destroy(struct device_upload *upload)
{
    struct executor *executor = upload->stream->executor;
    stream_synchronize(upload->stream);
    for (int i = 0; i < 2; i++)
        executor->class->release(executor, upload->buffers[i], MEMORY_HOST);
}

void *upload_buffer(const struct device_upload *upload)
{
    return upload->buffers[upload->next];
}

void upload_put(struct device_upload *upload, const struct master_weights *to)
{
    stream_synchronize(
        upload->stream); /* the previous piece was copied from the other buffer while this one was written */
    master_write(upload->stream, upload_buffer(upload), to);
    upload->next ^= 1;
}
