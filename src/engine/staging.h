/* Staging buffers for copies from host to device. An asynchronous device reads host memory later than the copy is
 * launched, so data waits in blocks of the executor's host memory, each of which is reused once the device has read it.
 * Thus the host can run ahead of the device. */
#ifndef ENGINE_STAGING_H
#define ENGINE_STAGING_H

#include "core/launch.h"

enum { STAGING_BLOCKS = 8 };

struct batch_staging {
    struct executor *executor; /* borrowed */
    int64_t bytes;             /* size of a block */
    char *blocks[STAGING_BLOCKS];
    struct event read[STAGING_BLOCKS]; /* the device has read the block */
    int current;
    int64_t used; /* bytes of the current block */
};

/* Makes the blocks. bytes: maximum that is sent between two calls of staging_next. */
void staging_create(struct batch_staging *staging, struct executor *executor, int64_t bytes);
void staging_destroy(struct batch_staging *staging);

/* Begins the next block; waits until the device has read the block's previous content. */
void staging_next(struct batch_staging *staging);
/* Launches a copy of `from`, in host memory, to `to`, of the same dtype and shape. `from` may be reused when it
 * returns. */
void staging_copy(struct batch_staging *staging, struct stream *stream, struct tensor from, struct tensor to);
/* Ends the block: all of its copies are launched. */
void staging_end(struct batch_staging *staging, struct stream *stream);

#endif
