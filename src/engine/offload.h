/* Offloaded activations: kept tensors that wait in host memory from forward to backward, so that only OFFLOAD_BUFFERS
 * units at a time have them on the device. Units with offloaded tensors are numbered in the order of a forward;
 * a unit uses buffer number % OFFLOAD_BUFFERS. Copies run on a stream of their own, overlapped with the computation.
 * Each forward and each backward begins and ends with all copies done, so it can be captured alone, and the chunks of a
 * stage can share the buffers. */
#ifndef ENGINE_OFFLOAD_H
#define ENGINE_OFFLOAD_H

#include "store/budget.h"

enum { OFFLOAD_BUFFERS = 2 };

struct offload_buffer {
    char *device;
    int64_t bytes;
    struct event used;  /* units have finished using the buffer */
    struct event moved; /* the copies from or to the buffer are done */
};

/* A model chunk's offload. */
struct offload {
    struct stream stream;
    int count; /* number of units with offloaded tensors */
    struct offload_unit {
        int64_t bytes, offset; /* offset: in a slot of host memory */
    } * units;
    int64_t slot_bytes;
    char *host;                     /* [slots * slot_bytes] host memory */
    struct offload_buffer *buffers; /* [OFFLOAD_BUFFERS]; borrowed */
    struct event started;           /* the start of a backward */
};

/* Adds a unit with `bytes` bytes, a multiple of 4, and returns its number. Call it before offload_allocate. */
int offload_add(struct offload *offload, int64_t bytes);
/* Allocate host memory for `slots` slots, and the device buffers. Without units nothing is allocated. */
void offload_allocate(struct offload *offload, int slots, struct budget *budget);
void offload_allocate_buffers(struct offload_buffer buffers[OFFLOAD_BUFFERS], struct budget *budget);
void offload_destroy(struct offload *offload);

char *offload_buffer(const struct offload *offload, int number);

/* Forward: before a unit, await_buffer waits for it; after it, send copies the buffer to the host. At the end,
 * await_sent waits for all copies. Only `stream` waits. */
void offload_await_buffer(struct offload *offload, int number, struct stream *stream);
void offload_send(struct offload *offload, int number, int slot, struct stream *stream);
void offload_await_sent(struct offload *offload, struct stream *stream);

/* Backward: at the beginning, fetch_last fetches for the last units. Before a unit, await_fetched waits for its buffer;
 * after it, fetch_next fetches for the next unit of the buffer. */
void offload_fetch_last(struct offload *offload, int slot, struct stream *stream);
void offload_await_fetched(struct offload *offload, int number, struct stream *stream);
void offload_fetch_next(struct offload *offload, int number, int slot, struct stream *stream);

#endif
