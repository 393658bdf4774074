/* Counts outliers of the gradient norm: norms, before clipping, above the mean plus six standard deviations of the last
 * 128. No norm is judged before there are 64. Outliers join the 128 like other norms, so norms that stay high soon stop
 * being outliers. Rule: OLMo-core's SkipStepOptimizer (rolling_interval_length 128, sigma_factor 6), which skips these
 * steps; here they are counted. */
#ifndef STATE_GRADIENT_NORMS_H
#define STATE_GRADIENT_NORMS_H

#include <stdbool.h>
#include <stdint.h>

enum { GRADIENT_NORMS = 128 };

/* The last norms; {0}: none yet. */
struct gradient_norms {
    double last[GRADIENT_NORMS]; /* norm i is at index i % GRADIENT_NORMS */
    int64_t count, outliers;
};

/* Adds the norm of a step, which must be finite. */
void gradient_norms_add(struct gradient_norms *norms, double norm);

/* gradient_norms_get copies the kept norms, oldest first, and returns their number; gradient_norms_set restores them.
 */
int64_t gradient_norms_get(const struct gradient_norms *norms, double out[GRADIENT_NORMS]);
void gradient_norms_set(struct gradient_norms *norms, const double *kept, int64_t count, int64_t outliers);

#endif
