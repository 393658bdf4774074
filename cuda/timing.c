#include "cuda/timing.h"
#include "base/error.h"

enum { FINALISTS = 3 };

static const float ages = 1e30f;

/* The launch that is timed, and the events around it. */
struct trial {
    const struct cuda_target *target;
    timing_launch *launch_way;
    const void *self;
    cudaEvent_t start, end;
};

/* Returns the mean time of `repeats` consecutive launches: the time of one short launch would include host overhead. */
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

/* Sorts ways by time, the fastest first. Returns how many take at most `close` times as long as the first. */
static int sort_close(int *order, int count, const float *milliseconds, float close)
{
    for (int i = 1; i < count; i++)
        for (int k = i; k > 0 && milliseconds[order[k]] < milliseconds[order[k - 1]]; k--) {
            const int faster = order[k];
            order[k] = order[k - 1];
            order[k - 1] = faster;
        }
    int left = 1;
    while (left < count && milliseconds[order[left]] <= close * milliseconds[order[0]])
        left++;
    return left;
}

/* Replaces the times of the best few ways by times under load, and returns the fastest way. The shorter time of two
 * turns counts, since clocks sometimes drop for a tenth of a second. A way that is clearly slower after the first turn
 * has no second one, nor has a way that is left alone. */
static int compare_under_load(const struct trial *trial, int ways, float *milliseconds)
{
    enum { TURNS = 2 };
    const float near = 1.04f;  /* ways this close may change their order under load */
    const float clear = 1.02f; /* spread of two turns of one way, unless clocks drop */
    const float warm = 100;    /* milliseconds until an idle H200 reaches its power limit */
    const float settled = 15;  /* milliseconds in which clocks adapt to another kernel */
    const float measured = 20;
    int order[TIMING_WAYS];
    for (int way = 0; way < ways; way++)
        order[way] = way;
    int left = sort_close(order, ways, milliseconds, near);
    left = left < FINALISTS ? left : FINALISTS;
    if (left > 1)
        load(trial, order[0], warm, milliseconds[order[0]]);
    for (int turn = 0; turn < TURNS && left > 1; turn++) {
        for (int i = 0; i < left; i++) {
            const int way = order[i];
            load(trial, way, settled, milliseconds[way]);
            const float time = time_of(trial, way, 1 + (int)(measured / milliseconds[way]));
            milliseconds[way] = turn == 0 || time < milliseconds[way] ? time : milliseconds[way];
        }
        left = sort_close(order, left, milliseconds, clear);
    }
    return order[0];
}

int timing_compare(const struct cuda_target *target, timing_launch *launch_way, const void *self, int ways,
                   float *milliseconds)
{
    enum { REPEATS = 16 };
    const float far = 1.5f, enough = 0.3f; /* milliseconds between events that give an accurate time */
    const float heavy = 0.3f;              /* milliseconds of a launch from which on power matters */
    struct trial trial = {.target = target, .launch_way = launch_way, .self = self};
    int repeats = 1, rounds = 5;
    CHECK_BUG(ways <= TIMING_WAYS);
    CUDA_CHECK(cudaEventCreate(&trial.start));
    CUDA_CHECK(cudaEventCreate(&trial.end));
    for (int way = 0; way < ways; way++)
        milliseconds[way] = launch_way(target, self, way) ? time_of(&trial, way, 1) : ages;
    for (int round = 1; round < rounds; round++) {
        const float best = milliseconds[least_of(milliseconds, ways)];
        rounds = best < heavy ? 5 : 3; /* long launches are compared again under load */
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
