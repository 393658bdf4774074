/* Copies tensors from an executor's memory to the host, for tests. */
#ifndef TESTS_REF_FETCH_H
#define TESTS_REF_FETCH_H

#include "store/master.h"

/* Returns a contiguous copy of the tensor in host memory, freed with memory_free(copy.data). Waits for the stream. */
struct tensor fetch(struct stream *stream, const struct tensor *from);
/* As fetch, for master weights, whose two parts are joined. */
struct tensor fetch_master(struct stream *stream, const struct master_weights *from);
/* Writes the copy back to the tensor and frees it. */
void fetch_return(struct stream *stream, struct tensor copy, const struct tensor *to);
void fetch_master_return(struct stream *stream, struct tensor copy, const struct master_weights *to);

#endif
