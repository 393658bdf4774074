#include "engine/staging.h"
#include "base/error.h"

#include <string.h>

void staging_create(struct batch_staging *staging, struct executor *executor, int64_t bytes)
{
    *staging = (struct batch_staging){.executor = executor, .bytes = bytes};
    for (int i = 0; i < STAGING_BLOCKS; i++)
        staging->blocks[i] = executor->class->allocate(executor, bytes, MEMORY_HOST);
}

void staging_destroy(struct batch_staging *staging)
{
    for (int i = 0; i < STAGING_BLOCKS; i++)
        staging->executor->class->release(staging->executor, staging->blocks[i], MEMORY_HOST);
}

void staging_next(struct batch_staging *staging)
{
    staging->current = (staging->current + 1) % STAGING_BLOCKS;
    staging->used = 0;
    event_passed(&staging->read[staging->current], staging->executor, true);
}

void staging_copy(struct batch_staging *staging, struct stream *stream, struct tensor from, struct tensor to)
{
    const int64_t bytes = tensor_extent(&from);
    struct tensor block = from;
    block.data = staging->blocks[staging->current] + staging->used;
    staging->used += bytes;
    CHECK_BUG(staging->used <= staging->bytes);
    if (!staging->executor->class->dry)
        memcpy(block.data, from.data, (size_t)bytes);
    LAUNCH(stream, COPY, copy, .from = block, .to = to);
}

void staging_end(struct batch_staging *staging, struct stream *stream)
{
    event_record(&staging->read[staging->current], stream);
}
