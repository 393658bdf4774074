#include "cuda/timing.h"

static const float ages = 1e30f;

/* What is timed, and between which events. */
struct trial {
    const struct cuda_target *target;
    timing_launch *launch_way;
    const void *self;
    cudaEvent_t start, end;
};

/* The mean of `repeats` in a row: one short launch alone would be timed with the host's part of it. */
static float time_of(const struct trial *trial, int way, int repeats)
{
    float time = 0;
    CUDA_CHECK(cudaEventRecord(trial->start, trial->target->stream));
    for (int i = 0; i < repeats; i++)
        if (!trial->launch_way(trial->target, trial->self, way))
            return ages;
    CUDA_CHECK(cudaEventRecord(trial->end, trial->target->stream));
    CUDA_CHECK(cudaEventSynchronize(trial->end));
    CUDA_CHECK(cudaEventElapsedTime(&time, trial->start, trial->end));
    return time / (float)repeats;
}

static int least_of(const float *milliseconds, int ways)
{
    int best = 0;
    for (int way = 1; way < ways; way++)
        if (milliseconds[way] < milliseconds[best])
            best = way;
    return best;
}

int timing_compare(const struct cuda_target *target, timing_launch *launch_way, const void *self, int ways,
                   float *milliseconds)
{
    enum { ROUNDS = 5, REPEATS = 16 };
    const float far = 1.5f, enough = 0.3f; /* milliseconds between events that they measure well */
    struct trial trial = {.target = target, .launch_way = launch_way, .self = self};
    int repeats = 1;
    CUDA_CHECK(cudaEventCreate(&trial.start));
    CUDA_CHECK(cudaEventCreate(&trial.end));
    for (int way = 0; way < ways; way++)
        milliseconds[way] = launch_way(target, self, way) ? time_of(&trial, way, 1) : ages;
    for (int round = 1; round < ROUNDS; round++) {
        const float best = milliseconds[least_of(milliseconds, ways)];
        while (repeats < REPEATS && best * (float)repeats < enough)
            repeats *= 2;
        for (int way = 0; way < ways; way++) {
            if (milliseconds[way] > far * best)
                continue;
            float time = time_of(&trial, way, repeats);
            milliseconds[way] = time < milliseconds[way] ? time : milliseconds[way];
        }
    }
    CUDA_CHECK(cudaEventDestroy(trial.start));
    CUDA_CHECK(cudaEventDestroy(trial.end));
    return least_of(milliseconds, ways);
}
