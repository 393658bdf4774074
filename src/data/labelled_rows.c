#include "data/labelled_rows.h"
#include "base/range.h"
#include "data/batch.h"

#include <math.h>

int64_t labelled_rows_most(int64_t tokens, int64_t labels)
{
    enum { MULTIPLE = 16 };
    const int64_t rounded = (labels + MULTIPLE - 1) / MULTIPLE * MULTIPLE;
    return MIN(rounded, tokens);
}

int64_t labelled_rows_capacity(int64_t tokens, double probability)
{
    enum { DEVIATIONS = 6 };
    const double expected = (double)tokens * probability;
    return labelled_rows_most(tokens, (int64_t)ceil(expected + DEVIATIONS * sqrt(expected * (1 - probability))));
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
                             int64_t capacity)
{
    const int64_t own = tokens / parts;
    int64_t n = capacity;
    for (int p = 0; p < parts; p++)
        if (count_labels(labels + p * own, own) > n)
            n = own;
    select_rows(to, labels + part * own, own, n);
    for (int p = 0; p < parts; p++)
        select_labels(to->labels + p * n, labels + p * own, own, n);
    return n;
}

/* Gives the labelled tokens of a segment compact row `row`. Returns their number, and their label in *label. */
static int64_t average_segment(const struct labelled_rows *to, const int32_t *labels, int64_t start, int64_t length,
                               int64_t row, int32_t *label)
{
    const int64_t count = count_labels(labels + start, length);
    for (int64_t t = start; t < start + length; t++)
        if (labels[t] >= 0) {
            to->places[t] = (int32_t)row;
            to->factors[t] = 1.0f / (float)count;
            *label = labels[t];
        }
    return count;
}

void labelled_rows_average(const struct labelled_rows *to, const int32_t *labels, int64_t tokens, const int32_t *start,
                           const int32_t *length, int64_t segments, int64_t capacity)
{
    int64_t rows = 0;
    for (int64_t t = 0; t < tokens; t++) {
        to->places[t] = (int32_t)capacity;
        to->factors[t] = 0;
    }
    for (int64_t s = 0; s < segments; s++) {
        int32_t label = BATCH_IGNORED;
        if (average_segment(to, labels, start[s], length[s], rows, &label) > 0)
            to->labels[rows++] = label;
    }
    for (; rows < capacity; rows++)
        to->labels[rows] = BATCH_IGNORED;
}
