/* Vectors of records from the states of their tokens: pooling, both strands, norms. */
#include "base/clones.h"
#include "base/range.h"
#include "infer/embed_private.h"

#include <float.h>
#include <math.h>

/* Columns of the states that are pooled at once, and the least number for a thread: a cache line. */
enum { POOLED_COLUMNS = 256, LEAST_COLUMNS = 16, FEW_NUMBERS = 1 << 13 };

/* Writes the mean of one token of each strand, or of all its residues, of `columns` columns of the states. row may
 * overlap the states: it begins at or before them. */
CPU_CLONES static void pool_record(const struct embed_command *e, const float *states, int64_t tokens, float *row,
                                   int64_t columns)
{
    double sum[POOLED_COLUMNS] = {0};
    const bool mean = e->choices.pool == EMBEDDINGS_MEAN;
    const int64_t first = mean ? e->begin : e->choices.pool == EMBEDDINGS_LAST ? tokens - 1 : 0;
    const int64_t count = mean ? tokens - e->begin - e->end : 1;
    for (int64_t s = 0; s < e->strands; s++)
        for (int64_t t = s * tokens + first; t < s * tokens + first + count; t++)
            for (int64_t i = 0; i < columns; i++)
                sum[i] += states[t * e->width + i];
    for (int64_t i = 0; i < columns; i++)
        row[i] = count > 0 ? (float)(sum[i] / (double)(e->strands * count)) : NAN;
}

/* Pool "none" of both strands: writes the mean of each token's state and that of its complement in the other strand to
 * rows [tokens], which begin at or before the states. */
CPU_CLONES static void join_strands(const struct embed_command *e, const float *states, int64_t tokens, float *rows,
                                    int64_t columns)
{
    const int64_t width = e->width, last = tokens - 1 - e->end;
    for (int64_t t = 0; t < tokens; t++) {
        const bool special = t < e->begin || t > last;
        const float *other = states + (tokens + (special ? t : e->begin + last - t)) * width;
        for (int64_t i = 0; i < columns; i++)
            rows[t * width + i] = (states[t * width + i] + other[i]) / 2;
    }
}

/* Pools all records of this team's batch in the columns first .. first + columns - 1, which do not depend on others. */
static void pool_columns(const struct embed_command *e, int64_t first, int64_t columns)
{
    const int own = e->inference->team;
    const float *states = e->vectors + first;
    float *row = e->vectors + first;
    for (int64_t i = 0; i < e->round.counts[own]; i++) {
        const int64_t length = embed_lengths(e, own)[i];
        if (embed_pools(e))
            pool_record(e, states, length, row, columns);
        else
            join_strands(e, states, length, row, columns);
        states += e->strands * length * e->width;
        row += (embed_pools(e) ? 1 : length) * e->width;
    }
}

/* Returns the threads for this team's batch. */
static int threads_for(const struct embed_command *e, int64_t tokens)
{
    return tokens * e->width > FEW_NUMBERS ? e->inference->threads : 1;
}

/* Each thread pools some columns of all records, so the order of a column's sum does not depend on their number. */
void embed_pool_batch(const struct embed_command *e, int64_t tokens)
{
    const int64_t lines = (e->width + LEAST_COLUMNS - 1) / LEAST_COLUMNS, parts = MIN(threads_for(e, tokens), lines);
#pragma omp parallel for num_threads((int)parts) schedule(static)
    for (int64_t part = 0; part < parts; part++) {
        const int64_t end = MIN((part + 1) * lines / parts * LEAST_COLUMNS, e->width);
        for (int64_t first = part * lines / parts * LEAST_COLUMNS; first < end; first += POOLED_COLUMNS)
            pool_columns(e, first, MIN(POOLED_COLUMNS, end - first));
    }
}

CPU_CLONES static bool all_finite(const float *values, int64_t count)
{
    int finite = 1;
    for (int64_t i = 0; i < count; i++)
        finite &= fabsf(values[i]) <= FLT_MAX;
    return finite != 0;
}

bool embed_is_finite(const struct embed_command *e, int64_t tokens)
{
    int finite = 1;
#pragma omp parallel for num_threads(threads_for(e, tokens)) schedule(static) reduction(& : finite)
    for (int64_t t = 0; t < tokens; t++)
        finite &= all_finite(e->vectors + t * e->width, e->width);
    return finite != 0;
}

/* Divides each layer's part of a row by its L2 norm. */
static void normalize_row(const struct embed_command *e, float *row)
{
    const int64_t hidden = e->inference->setup.model.hidden;
    for (float *part = row; part < row + e->width; part += hidden) {
        double squares = 0;
        for (int64_t i = 0; i < hidden; i++)
            squares += (double)part[i] * part[i];
        for (int64_t i = 0; i < hidden && squares > 0; i++)
            part[i] = (float)(part[i] / sqrt(squares));
    }
}

void embed_normalize_rows(const struct embed_command *e, int64_t rows)
{
#pragma omp parallel for num_threads(threads_for(e, rows)) schedule(static)
    for (int64_t r = 0; r < rows; r++)
        normalize_row(e, e->vectors + r * e->width);
}
