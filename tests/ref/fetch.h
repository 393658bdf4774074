/* Tensors of an executor's memory as host copies, for tests. */
#ifndef TESTS_REF_FETCH_H
#define TESTS_REF_FETCH_H

#include "store/master.h"

/* A copy of the tensor in host memory, contiguous, freed with memory_free(copy.data). Waits for the stream. */
struct tensor fetch(struct stream *stream, const struct tensor *from);
/* The same of whole numbers. */
struct tensor fetch_master(struct stream *stream, const struct master_weights *from);
/* The copy goes back to where it came from, and is freed. */
void fetch_return(struct stream *stream, struct tensor copy, const struct tensor *to);
void fetch_master_return(struct stream *stream, struct tensor copy, const struct master_weights *to);

#endif
