#include "cuda/timing.h"

enum { FINALISTS = 3 };

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

static int least_of(const float *milliseconds, int ways)
{
    int best = 0;
    for (int way = 1; way < ways; way++)
        if (milliseconds[way] < milliseconds[best])
            best = way;
    return best;
}

/* The ways whose times are the least and close to it, the fastest first; their number. */
static int find_finalists(const float *milliseconds, int ways, int finalists[FINALISTS])
{
    const float close = 1.04f;
    const float limit = close * milliseconds[least_of(milliseconds, ways)];
    int count = 0;
    for (int way = 0; way < ways; way++) {
        int place = count;
        while (place > 0 && milliseconds[way] < milliseconds[finalists[place - 1]])
            place--;
        if (milliseconds[way] > limit || place == FINALISTS)
            continue;
        count += count < FINALISTS;
        for (int i = count - 1; i > place; i--)
            finalists[i] = finalists[i - 1];
        finalists[place] = way;
    }
    return count;
}

/* Puts times under load in place of the finalists'; the fastest of them. The least of two turns counts: now and then
 * the clocks sink for a tenth of a second. */
static int compare_under_load(const struct trial *trial, int ways, float *milliseconds)
{
    enum { TURNS = 2 };
    const float warm = 100;   /* milliseconds after which an H200 that was idle feels its limit of power */
    const float settled = 15; /* in which its clocks follow a change of kernels */
    const float measured = 20;
    int finalists[FINALISTS] = {0}, count = find_finalists(milliseconds, ways, finalists), fastest = finalists[0];
    float times[FINALISTS];
    if (count == 1)
        return fastest;
    load(trial, fastest, warm, milliseconds[fastest]);
    for (int i = 0; i < TURNS * count; i++) {
        const int way = finalists[i % count];
        load(trial, way, settled, milliseconds[way]);
        const float time = time_of(trial, way, 1 + (int)(measured / milliseconds[way]));
        times[i % count] = i < count || time < times[i % count] ? time : times[i % count];
    }
    for (int i = 0; i < count; i++) {
        milliseconds[finalists[i]] = times[i];
        fastest = times[i] < milliseconds[fastest] ? finalists[i] : fastest;
    }
    return fastest;
}

int timing_compare(const struct cuda_target *target, timing_launch *launch_way, const void *self, int ways,
                   float *milliseconds)
{
    enum { REPEATS = 16 };
    const float far = 1.5f, enough = 0.3f; /* milliseconds between events that they measure well */
    const float heavy = 0.3f;              /* milliseconds of a launch whose power counts */
    struct trial trial = {.target = target, .launch_way = launch_way, .self = self};
    int repeats = 1, rounds = 5;
    CUDA_CHECK(cudaEventCreate(&trial.start));
    CUDA_CHECK(cudaEventCreate(&trial.end));
    for (int way = 0; way < ways; way++)
        milliseconds[way] = launch_way(target, self, way) ? time_of(&trial, way, 1) : ages;
    for (int round = 1; round < rounds; round++) {
        const float best = milliseconds[least_of(milliseconds, ways)];
        rounds = best < heavy ? 5 : 3; /* heavy ones are compared again */
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
        fastest = compare_under_load(&trial, ways, milliseconds);
    CUDA_CHECK(cudaEventDestroy(trial.start));
    CUDA_CHECK(cudaEventDestroy(trial.end));
    return fastest;
}
