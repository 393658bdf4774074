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

static void load(const struct trial *trial, int way, float milliseconds, float each)
{
    for (float spent = 0; spent < milliseconds; spent += each)
        trial->launch_way(trial->target, trial->self, way);
}

/* Puts times under load in place of the others' where these are close; the fastest of them. */
static int compare_under_load(const struct trial *trial, int ways, int best, float *milliseconds)
{
    const float close = 1.06f, settled = 80; /* milliseconds in which a GPU finds its clocks */
    const float limit = close * milliseconds[best];
    int rivals = 0, fastest = -1;
    for (int way = 0; way < ways; way++)
        rivals += milliseconds[way] <= limit;
    if (rivals == 1)
        return best;
    load(trial, best, settled, milliseconds[best]); /* for the first of them, from a GPU that has been idle */
    for (int way = 0; way < ways; way++) {
        if (milliseconds[way] > limit)
            continue;
        load(trial, way, settled, milliseconds[way]);
        milliseconds[way] = time_of(trial, way, 1 + (int)(settled / milliseconds[way]));
        if (fastest < 0 || milliseconds[way] < milliseconds[fastest])
            fastest = way;
    }
    return fastest;
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
    const float heavy = 0.3f;              /* milliseconds of a launch whose power counts */
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
    int fastest = least_of(milliseconds, ways);
    if (milliseconds[fastest] >= heavy && milliseconds[fastest] < ages)
        fastest = compare_under_load(&trial, ways, fastest, milliseconds);
    CUDA_CHECK(cudaEventDestroy(trial.start));
    CUDA_CHECK(cudaEventDestroy(trial.end));
    return fastest;
}
