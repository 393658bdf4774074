#include "step/learning_rate.h"

#include <math.h>

double learning_rate_at(const struct deck *deck, int64_t update)
{
    double n = (double)update + (deck->schedule.rule == DECK_RULE_MEGATRON ? 1 : 0);
    double warmup = (double)deck->schedule.warmup;
    double decay = (double)(deck->schedule.decay > 0 ? deck->schedule.decay : deck->train.steps) -
                   (deck->schedule.decay > 0 ? 0 : warmup);
    double floor = deck->schedule.min_ratio, peak = deck->optimizer.lr;
    if (warmup > 0 && n <= warmup)
        return peak * n / warmup;
    if (deck->schedule.kind == DECK_SCHEDULE_CONSTANT)
        return peak;
    if (n > warmup + decay || decay <= 0)
        return peak * floor;
    double done = (n - warmup) / decay;
    if (deck->schedule.kind == DECK_SCHEDULE_LINEAR)
        return peak * (1 - (1 - floor) * done);
    return peak * (floor + (1 - floor) * 0.5 * (1 + cos(3.14159265358979323846 * done)));
}
