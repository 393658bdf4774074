/* Outliers of the gradient norm: norms, before clipping, of more than the mean and six standard deviations of the 128
 * before them. They are judged once there are 64. An outlier is one of the 128 from then on, so a level that stays is
 * none for long. Source of the rule: OLMo-core's SkipStepOptimizer (rolling_interval_length 128, sigma_factor 6), which
 * skips such steps; here they are counted. */
#ifndef STATE_GRADIENT_NORMS_H
#define STATE_GRADIENT_NORMS_H

#include <stdbool.h>
#include <stdint.h>

enum { GRADIENT_NORMS = 128 };

/* {0}: none yet. */
struct gradient_norms {
    double last[GRADIENT_NORMS]; /* norm i at i % GRADIENT_NORMS */
    int64_t count, outliers;
};

/* Adds the norm of a step, which is finite. */
void gradient_norms_add(struct gradient_norms *norms, double norm);

/* Those that are kept, the oldest first; returns how many. Given to gradient_norms_set,
 * they judge alike from there on. */
int64_t gradient_norms_get(const struct gradient_norms *norms, double out[GRADIENT_NORMS]);
void gradient_norms_set(struct gradient_norms *norms, const double *kept, int64_t count, int64_t outliers);

#endif
