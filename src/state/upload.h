/* Much host memory to the device, piece by piece, through two buffers that the executor has made for its copies: one
 * piece is copied while the next is written. */
#ifndef STATE_UPLOAD_H
#define STATE_UPLOAD_H

#include "store/master.h"

struct device_upload {
    struct stream *stream; /* borrowed */
    void *buffers[2];      /* owned */
    int next;
};

/* Pieces of at most so many bytes. */
void upload_create(struct device_upload *upload, struct stream *stream, int64_t bytes);
/* Waits for the copies. */
void upload_destroy(struct device_upload *upload);

/* Where the next piece is to be written: no copy reads there any more. */
void *upload_buffer(const struct device_upload *upload);
/* Starts the copy of what was written there, in the type of the whole numbers; `to` says how much. */
void upload_put(struct device_upload *upload, const struct master_weights *to);

#endif
