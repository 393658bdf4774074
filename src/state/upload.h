/* Copies large host data to the device piece by piece, through two buffers in the executor's host memory: one piece is
 * copied while the next is written. */
#ifndef STATE_UPLOAD_H
#define STATE_UPLOAD_H

#include "store/master.h"

struct device_upload {
    struct stream *stream; /* borrowed */
    void *buffers[2];      /* owned */
    int next;
};

/* bytes: maximum of a piece. */
void upload_create(struct device_upload *upload, struct stream *stream, int64_t bytes);
/* Waits for the copies, then frees the buffers. */
void upload_destroy(struct device_upload *upload);

/* Returns the buffer for the next piece; no copy reads it any more. */
void *upload_buffer(const struct device_upload *upload);
/* Starts the copy of the buffer's content, to->value.cols numbers of master_dtype(to). */
void upload_put(struct device_upload *upload, const struct master_weights *to);

#endif
