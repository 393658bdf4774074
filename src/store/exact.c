#include "store/exact.h"

#include <math.h>

/* Returns the unit for sums of at most `largest`. */
static double unit_for(double largest)
{
    enum { DIGITS = 53 };
    int exponent;
    frexp(largest, &exponent); /* largest < 2^exponent */
    return ldexp(1, exponent - DIGITS);
}

struct exact_units exact_units_of(double tokens, double contributions)
{
    const double element = 64, loss = 1024, steps = 1024, elements = 0x1p35 /* maximum of a unit's storage class */;
    const double largest = element * tokens;
    return (struct exact_units){.gradient = unit_for(largest),
                                .most = largest / contributions,
                                .loss = unit_for(loss * tokens * steps),
                                .most_loss = loss * tokens,
                                .squares = unit_for(largest * largest * elements)};
}
