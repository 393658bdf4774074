/* Staging buffers for copies from host to device. An asynchronous device reads host memory later than it is told to, so
 * data waits in buffers of the executor's host memory, each of which is used again once the device has read it. So the
 * host runs ahead of the device. */
#ifndef ENGINE_STAGING_H
#define ENGINE_STAGING_H

#include "core/launch.h"

enum { STAGING_BLOCKS = 8 };

struct batch_staging {
    struct executor *executor; /* borrowed */
    int64_t bytes;             /* of a block */
    char *blocks[STAGING_BLOCKS];
    struct event read[STAGING_BLOCKS]; /* the device has read the block */
    int current;
    int64_t used; /* bytes of the current block */
};

/* bytes: the most that is sent between two calls of staging_next. */
void staging_create(struct batch_staging *staging, struct executor *executor, int64_t bytes);
void staging_destroy(struct batch_staging *staging);

/* Begins another block; waits until the device has read what it held before. */
void staging_next(struct batch_staging *staging);
/* Launches the copy of `from`, in host memory and free for other use at once, to `to`, of the same dtype and shape. */
void staging_copy(struct batch_staging *staging, struct stream *stream, struct tensor from, struct tensor to);
/* All of this block's copies are launched. */
void staging_end(struct batch_staging *staging, struct stream *stream);

#endif
