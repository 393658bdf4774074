#include "store/exact.h"

#include <math.h>

/* Returns the quantum for sums of at most `largest`. */
static double quantum_for(double largest)
{
    enum { DIGITS = 53 };
    int exponent;
    frexp(largest, &exponent); /* largest < 2^exponent */
    return ldexp(1, exponent - DIGITS);
}

struct exact_quanta exact_quanta_of(double tokens, double contributions)
{
    const double element = 64, loss = 1024, steps = 1024, elements = 0x1p35 /* maximum of a unit's storage class */;
    const double largest = element * tokens;
    return (struct exact_quanta){.gradient = quantum_for(largest),
                                 .most = largest / contributions,
                                 .loss = quantum_for(loss * tokens * steps),
                                 .most_loss = loss * tokens,
                                 .squares = quantum_for(largest * largest * elements)};
}
