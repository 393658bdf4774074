#include "architecture/rope.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

/* Returns the number of the pair, not whole, that turns `turns` times over the original context. */
static double pair_of(const struct rope_settings *rope, int64_t head_dim, double turns)
{
    return (double)head_dim * log((double)rope->original / (turns * 2 * pi)) / (2 * log(rope->theta));
}

/* Returns the share of the stretched frequency in pair i's. */
static double yarn_share(const struct rope_settings *rope, int64_t head_dim, int64_t i)
{
    const double first = fmax(floor(pair_of(rope, head_dim, rope->high)), 0);
    const double last = fmin(ceil(pair_of(rope, head_dim, rope->low)), (double)(head_dim - 1));
    const double span = last == first ? 0.001 : last - first;
    return fmin(fmax(((double)i - first) / span, 0), 1);
}

static double exact_frequency(const struct rope_settings *rope, int64_t head_dim, int64_t i)
{
    double frequency = pow(rope->theta, -2.0 * (double)i / (double)head_dim);
    if (rope->factor <= 1)
        return frequency;
    if (rope->type == DECK_ROPE_LINEAR)
        return frequency / rope->factor;
    if (rope->type == DECK_ROPE_YARN) {
        const double share = yarn_share(rope, head_dim, i);
        return share * frequency / rope->factor + (1 - share) * frequency;
    }
    double wavelength = 2 * pi / frequency;
    if (wavelength > (double)rope->original / rope->low)
        return frequency / rope->factor;
    if (wavelength < (double)rope->original / rope->high)
        return frequency;
    double blend = ((double)rope->original / wavelength - rope->low) / (rope->high - rope->low);
    return (1 - blend) * frequency / rope->factor + blend * frequency;
}

double rope_frequency(const struct rope_settings *rope, int64_t head_dim, int64_t i)
{
    /* bits of a significand, and the exponent (as of frexp) of the smallest normal number */
    static const int bits[] = {[DECK_ROUNDING_FP16] = 11, [DECK_ROUNDING_BF16] = 8};
    static const int lowest[] = {[DECK_ROUNDING_FP16] = -13, [DECK_ROUNDING_BF16] = -125};
    double frequency = exact_frequency(rope, head_dim, i);
    if (rope->rounding == DECK_ROUNDING_NONE)
        return frequency;
    int exponent;
    frexp(frequency, &exponent);
    if (exponent < lowest[rope->rounding])
        exponent = lowest[rope->rounding];
    double unit = ldexp(1, exponent - bits[rope->rounding]);
    return nearbyint(frequency / unit) * unit;
}

double rope_magnitude(const struct rope_settings *rope)
{
    if (rope->type != DECK_ROPE_YARN || rope->factor <= 1)
        return 1;
    return rope->attention_factor > 0 ? rope->attention_factor : 0.1 * log(rope->factor) + 1;
}
