#include "base/quantile.h"

#include <stdlib.h>

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void quantile_sort(double *values, int64_t count)
{
    qsort(values, (size_t)count, sizeof *values, compare_numbers);
}

double quantile(const double *sorted, int64_t count, double share)
{
    return sorted[(int64_t)(share * (double)(count - 1) + 0.5)];
}
