/* Quantiles of measurements. */
#ifndef BASE_QUANTILE_H
#define BASE_QUANTILE_H

#include <stdint.h>

void quantile_sort(double *values, int64_t count);
/* Returns the value below which `share` of the sorted values[count] are; count >= 1. 0.5 gives the median. */
double quantile(const double *sorted, int64_t count, double share);

#endif
