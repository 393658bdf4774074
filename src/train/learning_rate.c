#include "train/learning_rate.h"
#include "deck/fields.h"

#include <math.h>

static double rate_at(const struct deck *deck, int64_t update, double peak, double floor)
{
    const int rule = deck->schedule.rule;
    const double one = deck->schedule.count == DECK_COUNT_SAMPLES ? (double)deck->train.global_batch : 1;
    double n = ((double)update + (rule == DECK_RULE_MEGATRON ? 1 : 0)) * one;
    const double warmup = (double)deck->schedule.warmup, top = warmup + (double)deck->schedule.hold;
    double decay = deck->schedule.decay > 0 ? (double)deck->schedule.decay : (double)deck->train.steps * one - top;
    if (warmup > 0 && n <= warmup)
        return rule == DECK_RULE_NEMO ? peak * (n + one) / (warmup + one) : peak * n / warmup;
    if (deck->schedule.kind == DECK_SCHEDULE_CONSTANT || n < top)
        return peak;
    if (n > top + decay || decay <= 0)
        return peak * floor;
    double done = (n - top) / decay;
    if (deck->schedule.kind == DECK_SCHEDULE_LINEAR)
        return peak * (1 - (1 - floor) * done);
    return peak * (floor + (1 - floor) * 0.5 * (1 + cos(3.14159265358979323846 * done)));
}

double learning_rate_at(const struct deck *deck, int64_t update)
{
    return rate_at(deck, update, deck->optimizer.lr, deck->schedule.min_ratio);
}

double learning_rate_decoupled_at(const struct deck *deck, int64_t update)
{
    return rate_at(deck, update, deck->optimizer.decoupled_lr, deck->schedule.decoupled_min_ratio);
}
