/* Quantiles of measurements. */
#ifndef BASE_QUANTILE_H
#define BASE_QUANTILE_H

#include <stdint.h>

void quantile_sort(double *values, int64_t count);
/* The value that a share of the sorted values[count], at least one, stays below; 0.5 is the median. */
double quantile(const double *sorted, int64_t count, double share);

#endif
