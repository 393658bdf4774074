#include "architecture/rope.h"

#include <math.h>

static double exact_frequency(const struct rope_settings *rope, int64_t head_dim, int64_t i)
{
    double frequency = pow(rope->theta, -2.0 * (double)i / (double)head_dim);
    if (rope->factor <= 1)
        return frequency;
    double wavelength = 2 * 3.14159265358979323846 / frequency;
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
