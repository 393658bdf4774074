#include "base/ranking.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>

struct ranked {
    double value;
    int64_t index;
};

static int by_value(const void *a, const void *b)
{
    const struct ranked *first = a, *second = b;
    return (first->value > second->value) - (first->value < second->value);
}

/* Writes ranks[count], from 1; equal values have the mean of their ranks. */
static void rank_values(const double *values, int64_t count, double *ranks)
{
    struct ranked *sorted = memory_allocate(count * (int64_t)sizeof *sorted);
    for (int64_t i = 0; i < count; i++)
        sorted[i] = (struct ranked){values[i], i};
    qsort(sorted, (size_t)count, sizeof *sorted, by_value);
    for (int64_t first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && sorted[end].value == sorted[first].value;)
            end++;
        for (int64_t i = first; i < end; i++)
            ranks[sorted[i].index] = 0.5 * (double)(first + 1 + end);
    }
    memory_free(sorted);
}

double ranking_spearman(const double *a, const double *b, int64_t count)
{
    double *ranks[2] = {memory_allocate(count * (int64_t)sizeof(double)),
                        memory_allocate(count * (int64_t)sizeof(double))};
    const double mean = 0.5 * (double)(count + 1);
    double squares[2] = {0, 0}, products = 0;
    rank_values(a, count, ranks[0]);
    rank_values(b, count, ranks[1]);
    for (int64_t i = 0; i < count; i++) {
        const double x = ranks[0][i] - mean, y = ranks[1][i] - mean;
        squares[0] += x * x;
        squares[1] += y * y;
        products += x * y;
    }
    memory_free(ranks[0]);
    memory_free(ranks[1]);
    return squares[0] > 0 && squares[1] > 0 ? products / sqrt(squares[0] * squares[1]) : NAN;
}

double ranking_auc(const double *scores, const double *values, int64_t count, double threshold)
{
    double *ranks = memory_allocate(count * (int64_t)sizeof *ranks);
    double above = 0, sum = 0;
    rank_values(scores, count, ranks);
    for (int64_t i = 0; i < count; i++)
        if (values[i] > threshold) {
            above++;
            sum += ranks[i];
        }
    memory_free(ranks);
    const double below = (double)count - above;
    return above > 0 && below > 0 ? (sum - 0.5 * above * (above + 1)) / (above * below) : NAN;
}
