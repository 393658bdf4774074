#include "monitor/straggler.h"
#include "base/memory.h"

#include <stdlib.h>

enum { LOOKS = 5 };

static const double SHARE = 0.05; /* of the elapsed time */

const char *straggler_phase_name(enum straggler_phase phase)
{
    static const char *const names[STRAGGLER_PHASES] = {"waiting for data", "forward and backward", "the optimizer",
                                                        "validation", "saves"};
    return names[phase];
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns the lower median, so that of two ranks the slower one is above it. Sorts values[count]. */
static double lower_median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, compare);
    return values[(count - 1) / 2];
}

/* Finds the rank of a stage that is farthest above the stage's median, and replaces *worst if it is farther above than
 * that. scratch: a number for each rank. */
static void look_at_stage(const struct straggler_rank *ranks, int count, int stage, double *scratch,
                          struct straggler_found *worst)
{
    int members = 0;
    for (int r = 0; r < count; r++)
        if (ranks[r].stage == stage)
            scratch[members++] = ranks[r].work[worst->phase];
    if (members < 2)
        return;
    const double median = lower_median(scratch, members);
    for (int r = 0; r < count; r++) {
        const double excess = ranks[r].work[worst->phase] - median;
        if (ranks[r].stage == stage && excess > worst->excess)
            *worst = (struct straggler_found){r, worst->phase, excess, ranks[r].seconds};
    }
}

static struct straggler_found slowest(const struct straggler_rank *ranks, int count, enum straggler_phase phase,
                                      double *scratch)
{
    struct straggler_found worst = {.phase = phase};
    int stages = 0;
    for (int r = 0; r < count; r++)
        stages = ranks[r].stage >= stages ? ranks[r].stage + 1 : stages;
    for (int stage = 0; stage < stages; stage++)
        look_at_stage(ranks, count, stage, scratch, &worst);
    return worst;
}

static bool occurred(const struct straggler_rank *ranks, int count, int phase)
{
    for (int r = 0; r < count; r++)
        if (ranks[r].work[phase] > 0)
            return true;
    return false;
}

bool straggler_look(struct straggler *straggler, const struct straggler_rank *ranks, int count,
                    struct straggler_found *found)
{
    double *scratch = memory_allocate(count * (int64_t)sizeof *scratch);
    bool reports = false;
    for (int phase = 0; phase < STRAGGLER_PHASES; phase++) {
        if (!occurred(ranks, count, phase))
            continue;
        const struct straggler_found worst = slowest(ranks, count, (enum straggler_phase)phase, scratch);
        struct straggler_seen *seen = &straggler->phases[phase];
        const bool slow = worst.excess > SHARE * worst.seconds, again = slow && seen->rank == worst.rank;
        *seen = (struct straggler_seen){worst.rank, (again ? seen->looks : 0) + slow, again && seen->reported};
        if (seen->looks < LOOKS || seen->reported || reports)
            continue;
        *found = worst;
        reports = seen->reported = true;
    }
    memory_free(scratch);
    return reports;
}
