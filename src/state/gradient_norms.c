#include "state/gradient_norms.h"
#include "base/range.h"

#include <math.h>
#include <string.h>

static const double DEVIATIONS = 6;

int64_t gradient_norms_get(const struct gradient_norms *norms, double out[GRADIENT_NORMS])
{
    const int64_t kept = MIN(norms->count, GRADIENT_NORMS);
    for (int64_t i = 0; i < kept; i++)
        out[i] = norms->last[(norms->count - kept + i) % GRADIENT_NORMS];
    return kept;
}

void gradient_norms_set(struct gradient_norms *norms, const double *kept, int64_t count, int64_t outliers)
{
    *norms = (struct gradient_norms){.count = count, .outliers = outliers};
    memcpy(norms->last, kept, (size_t)count * sizeof *kept);
}

/* Sums are computed from the oldest norm on, so that a restart computes the same bits. */
static bool is_outlier(const struct gradient_norms *norms, double norm)
{
    double kept[GRADIENT_NORMS], sum = 0, squares = 0;
    const int64_t count = gradient_norms_get(norms, kept);
    if (count < GRADIENT_NORMS / 2)
        return false;
    for (int64_t i = 0; i < count; i++)
        sum += kept[i];
    const double mean = sum / (double)count;
    for (int64_t i = 0; i < count; i++)
        squares += (kept[i] - mean) * (kept[i] - mean);
    return norm - mean > DEVIATIONS * sqrt(squares / (double)(count - 1));
}

void gradient_norms_add(struct gradient_norms *norms, double norm)
{
    norms->outliers += is_outlier(norms, norm);
    norms->last[norms->count++ % GRADIENT_NORMS] = norm;
}
