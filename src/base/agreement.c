#include "base/agreement.h"

#include <math.h>

static int64_t sum_of(const int64_t *counts, int64_t classes)
{
    int64_t sum = 0;
    for (int64_t c = 0; c < classes; c++)
        sum += counts[c];
    return sum;
}

double agreement_accuracy(const struct class_counts *counts)
{
    const int64_t all = sum_of(counts->labelled, counts->classes);
    return all > 0 ? (double)sum_of(counts->right, counts->classes) / (double)all : NAN;
}

double agreement_f1(const struct class_counts *counts)
{
    double sum = 0, classes = 0;
    for (int64_t c = 0; c < counts->classes; c++) {
        const double both = (double)(counts->labelled[c] + counts->predicted[c]);
        sum += both > 0 ? 2 * (double)counts->right[c] / both : 0;
        classes += both > 0;
    }
    return classes > 0 ? sum / classes : NAN;
}

double agreement_mcc(const struct class_counts *counts)
{
    const double all = (double)sum_of(counts->labelled, counts->classes);
    const double right = (double)sum_of(counts->right, counts->classes);
    double products = 0, labelled = 0, predicted = 0;
    for (int64_t c = 0; c < counts->classes; c++) {
        products += (double)counts->labelled[c] * (double)counts->predicted[c];
        labelled += (double)counts->labelled[c] * (double)counts->labelled[c];
        predicted += (double)counts->predicted[c] * (double)counts->predicted[c];
    }
    const double spread = (all * all - labelled) * (all * all - predicted);
    if (all == 0)
        return NAN;
    return spread > 0 ? (right * all - products) / sqrt(spread) : 0;
}

double agreement_r2(const double *predicted, const double *measured, int64_t count)
{
    double mean = 0, residual = 0, variance = 0;
    for (int64_t i = 0; i < count; i++)
        mean += measured[i] / (double)count;
    for (int64_t i = 0; i < count; i++) {
        residual += (measured[i] - predicted[i]) * (measured[i] - predicted[i]);
        variance += (measured[i] - mean) * (measured[i] - mean);
    }
    return variance > 0 ? 1 - residual / variance : NAN;
}
