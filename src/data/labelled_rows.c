#include "data/labelled_rows.h"
#include "base/range.h"
#include "data/batch.h"

#include <math.h>

int64_t labelled_rows_capacity(int64_t tokens, double probability)
{
    enum { DEVIATIONS = 6, MULTIPLE = 16 };
    const double expected = (double)tokens * probability;
    const double most = ceil(expected + DEVIATIONS * sqrt(expected * (1 - probability)));
    const int64_t rounded = ((int64_t)most + MULTIPLE - 1) / MULTIPLE * MULTIPLE;
    return MIN(rounded, tokens);
}

static int64_t count_labels(const int32_t *labels, int64_t tokens)
{
    int64_t count = 0;
    for (int64_t t = 0; t < tokens; t++)
        count += labels[t] >= 0;
    return count;
}

static void select_rows(const struct labelled_rows *to, const int32_t *labels, int64_t tokens, int64_t n)
{
    int64_t count = 0;
    for (int64_t t = 0; t < tokens; t++) {
        const bool labelled = labels[t] >= 0;
        to->places[t] = (int32_t)(labelled ? count : n);
        if (labelled)
            to->rows[count++] = (int32_t)t;
    }
    for (; count < n; count++)
        to->rows[count] = 0;
}

static void select_labels(int32_t *to, const int32_t *labels, int64_t tokens, int64_t n)
{
    int64_t count = 0;
    for (int64_t t = 0; t < tokens; t++)
        if (labels[t] >= 0)
            to[count++] = labels[t];
    for (; count < n; count++)
        to[count] = BATCH_IGNORED;
}

int64_t labelled_rows_select(const struct labelled_rows *to, const int32_t *labels, int64_t tokens, int parts, int part,
                             double probability)
{
    const int64_t own = tokens / parts;
    int64_t n = labelled_rows_capacity(own, probability);
    for (int p = 0; p < parts; p++)
        if (count_labels(labels + p * own, own) > n)
            n = own;
    select_rows(to, labels + part * own, own, n);
    for (int p = 0; p < parts; p++)
        select_labels(to->labels + p * n, labels + p * own, own, n);
    return n;
}
