#include "loader/megatron_blend.h"
#include "base/range.h"

#include <math.h>

enum { LANES = 8, BLOCK = 128 };

/* Sums as NumPy's pairwise sum: fewer than LANES numbers in order, up to BLOCK in LANES partial sums, more in two
 * halves. */
static double sum(const double *x, int64_t count)
{
    double lanes[LANES], total = 0;
    if (count > BLOCK) {
        const int64_t half = count / 2 / LANES * LANES;
        return sum(x, half) + sum(x + half, count - half);
    }
    int64_t i = 0;
    if (count >= LANES) {
        for (; i < LANES; i++)
            lanes[i] = x[i];
        for (; i < count / LANES * LANES; i++)
            lanes[i % LANES] += x[i];
        total = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
    }
    for (; i < count; i++)
        total += x[i];
    return total;
}

void megatron_blend_normalise(double *weights, int64_t count)
{
    const double all = sum(weights, count);
    for (int64_t i = 0; i < count; i++)
        weights[i] /= all;
}

int64_t megatron_blend_samples(double share, int64_t samples)
{
    static const double surplus = 0.005; /* Megatron-LM's mid_level_dataset_surplus */
    return (int64_t)ceil(ceil((double)samples * share) * (1 + surplus));
}

double megatron_blend_owed(double share, int64_t all, int64_t given)
{
    const volatile double due = share * (double)MAX(all, 1); /* volatile: rounded before the subtraction */
    return due - (double)given;
}
