/* Tensors that wait in host memory from forward to backward, so that of the units that have any only OFFLOAD_BUFFERS
 * are on the device at a time. The units are numbered in the order of a forward (turns); each has the buffer turn
 * modulo OFFLOAD_BUFFERS. Copies run on a stream of their own beside the computation. Each forward and each backward
 * begins and ends with all copies done, so that it can be recorded by itself, and chunks of a stage can have the same
 * buffers. */
#ifndef ENGINE_OFFLOAD_H
#define ENGINE_OFFLOAD_H

#include "store/budget.h"

enum { OFFLOAD_BUFFERS = 2 };

struct offload_buffer {
    char *device;
    int64_t bytes;
    struct event used;  /* units need it no more */
    struct event moved; /* what was to be copied from or to it is copied */
};

/* Of a chunk. */
struct offload {
    struct stream stream;
    int count; /* of turns */
    struct offload_turn {
        int64_t bytes, offset; /* of a slot in host memory */
    } * turns;
    int64_t slot_bytes;
    char *host;                     /* [slots] */
    struct offload_buffer *buffers; /* [OFFLOAD_BUFFERS]; borrowed */
    struct event begun;             /* of a backward */
};

/* Before allocation: adds a unit with so many bytes, a multiple of 4; returns its turn. */
int offload_add(struct offload *offload, int64_t bytes);
/* Allocates host memory for so many slots; the buffers. Nothing is allocated without turns. */
void offload_allocate(struct offload *offload, int slots, struct budget *budget);
void offload_allocate_buffers(struct offload_buffer buffers[OFFLOAD_BUFFERS], struct budget *budget);
void offload_destroy(struct offload *offload);

char *offload_buffer(const struct offload *offload, int turn);

/* Around a unit's forward, on the stream that runs it: waits until its buffer is free; sends what it has written to the
 * host. After the last unit: waits until all has arrived. */
void offload_await_room(struct offload *offload, int turn, struct stream *stream);
void offload_send(struct offload *offload, int turn, int slot, struct stream *stream);
void offload_await_sent(struct offload *offload, struct stream *stream);

/* Before the first unit's backward: fetches for the last turns. Around a unit's: waits for what it reads; fetches for
 * the turn that has the buffer next. */
void offload_fetch_last(struct offload *offload, int slot, struct stream *stream);
void offload_await_fetched(struct offload *offload, int turn, struct stream *stream);
void offload_fetch_next(struct offload *offload, int turn, int slot, struct stream *stream);

#endif
