/* Small programs for tests of src/plan: launches on two streams of an executor that runs, plans or records. */
#ifndef TESTS_PROGRAMS_H
#define TESTS_PROGRAMS_H

#include "base/random.h"
#include "core/launch.h"

#include <stdint.h>

static uint64_t draws;

/* Returns a uniform number in 0 .. n - 1. */
static inline int64_t draw(int64_t n)
{
    struct random_key key = {17, RANDOM_TEST, 4};
    return (int64_t)(random_bits(&key, draws++) % (uint64_t)n);
}

static inline struct tensor matrix(struct executor *executor, int64_t rows, int64_t cols)
{
    int64_t bytes = rows * cols * dtype_size(DTYPE_F32);
    return tensor_matrix(executor->class->allocate(executor, bytes, MEMORY_DEVICE), DTYPE_F32, rows, cols);
}

/* -- Two streams: weights are gathered ahead of use, into two buffers ---------------------------------------------- */

enum { LAYERS = 6, WIDTH = 8, ROWS = 4 };

struct loop {
    struct executor *executor;
    struct stream compute, communication;
    struct tensor shard[LAYERS], buffer[2], x[LAYERS + 1];
    struct event ready[2], freed[2];
};

static inline void loop_open(struct loop *loop, struct executor *executor)
{
    *loop = (struct loop){.executor = executor,
                          .compute = {executor, STREAM_COMPUTE, NULL},
                          .communication = {executor, STREAM_REDUCE, NULL}};
    for (int i = 0; i < LAYERS; i++)
        loop->shard[i] = matrix(executor, WIDTH, WIDTH);
    for (int i = 0; i < 2; i++)
        loop->buffer[i] = matrix(executor, WIDTH, WIDTH);
    for (int i = 0; i <= LAYERS; i++)
        loop->x[i] = matrix(executor, ROWS, WIDTH);
}

static inline void loop_close(struct loop *loop)
{
    struct executor *executor = loop->executor;
    for (int i = 0; i < LAYERS; i++)
        executor->class->release(executor, loop->shard[i].data, MEMORY_DEVICE);
    for (int i = 0; i < 2; i++)
        executor->class->release(executor, loop->buffer[i].data, MEMORY_DEVICE);
    for (int i = 0; i <= LAYERS; i++)
        executor->class->release(executor, loop->x[i].data, MEMORY_DEVICE);
}

static inline void loop_run(struct loop *loop)
{
    for (int i = 0; i < LAYERS; i++) {
        int slot = i % 2;
        event_wait(&loop->freed[slot], &loop->communication);
        LAUNCH(&loop->communication, COPY, copy, .from = loop->shard[i], .to = loop->buffer[slot]);
        event_record(&loop->ready[slot], &loop->communication);
        event_wait(&loop->ready[slot], &loop->compute);
        LAUNCH(&loop->compute, GEMM, gemm, .a = loop->x[i], .b = loop->buffer[slot], .d = loop->x[i + 1]);
        event_record(&loop->freed[slot], &loop->compute);
    }
}

#endif
