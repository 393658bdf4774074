#include "train/learning_rate.h"

#include <math.h>

static double rate_at(const struct learning_rate_settings *s, const struct learning_rate_peak *of, int64_t update)
{
    const double peak = of->peak, floor = of->min_ratio, one = s->unit;
    const double n = ((double)update + (s->rule == DECK_RULE_MEGATRON ? 1 : 0)) * one;
    const double warmup = s->warmup, top = warmup + s->hold, decay = s->decay;
    if (warmup > 0 && n <= warmup)
        return s->rule == DECK_RULE_NEMO ? peak * (n + one) / (warmup + one) : peak * n / warmup;
    if (s->kind == DECK_SCHEDULE_CONSTANT || n < top)
        return peak;
    if (n > top + decay || decay <= 0)
        return peak * floor;
    double done = (n - top) / decay;
    if (s->kind == DECK_SCHEDULE_LINEAR)
        return peak * (1 - (1 - floor) * done);
    return peak * (floor + (1 - floor) * 0.5 * (1 + cos(3.14159265358979323846 * done)));
}

double learning_rate_at(const struct learning_rate_settings *settings, int64_t update)
{
    return rate_at(settings, &settings->own, update);
}

double learning_rate_decoupled_at(const struct learning_rate_settings *settings, int64_t update)
{
    return rate_at(settings, &settings->decoupled, update);
}
