/* How well scores order measured values. */
#ifndef BASE_RANKING_H
#define BASE_RANKING_H

#include <stdint.h>

/* Returns Spearman's correlation of two lists of numbers, equal values with the mean of their ranks; NaN if one list
 * has only one value. */
double ranking_spearman(const double *a, const double *b, int64_t count);
/* Returns the area under the ROC curve with which `scores` separate values above `threshold` from the others: the
 * probability that one above has the higher score, equal scores counted as half. NaN if all are on one side. */
double ranking_auc(const double *scores, const double *values, int64_t count, double threshold);

#endif
