#include "train/predictions.h"
#include "base/memory.h"
#include "base/ranking.h"

#include <math.h>
#include <stdlib.h>

void predictions_create(struct head_predictions *p, const struct task_settings *task)
{
    const bool numbers = task->problem == DECK_PROBLEM_REGRESSION;
    const int64_t classes = numbers ? 0 : task->labels;
    *p = (struct head_predictions){.task = *task, .counts = {.classes = classes}};
    p->width = numbers ? task->labels : classes == 2 ? 1 : 0;
    p->counts.labelled = memory_allocate(3 * classes * (int64_t)sizeof *p->counts.labelled);
    p->counts.predicted = p->counts.labelled + classes;
    p->counts.right = p->counts.predicted + classes;
}

void predictions_destroy(struct head_predictions *p)
{
    memory_free(p->counts.labelled);
    free(p->pairs);
    *p = (struct head_predictions){0};
}

/* Returns the pairs of one more row. */
static double *next_pairs(struct head_predictions *p)
{
    if (p->rows == p->capacity) {
        p->capacity = 2 * p->capacity + 256;
        p->pairs = memory_grow(p->pairs, p->capacity * p->width * 2 * (int64_t)sizeof *p->pairs);
    }
    return p->pairs + p->rows++ * p->width * 2;
}

static void add_class(struct head_predictions *p, const struct tensor *outputs, int64_t row, int32_t label)
{
    int64_t best = 0;
    for (int64_t c = 1; c < outputs->cols; c++)
        if (tensor_get(outputs, row, c) > tensor_get(outputs, row, best))
            best = c;
    p->counts.labelled[label]++;
    p->counts.predicted[best]++;
    p->counts.right[label] += best == label;
    if (p->width == 0)
        return;
    double *pair = next_pairs(p);
    pair[0] = tensor_get(outputs, row, 1) - tensor_get(outputs, row, 0);
    pair[1] = label;
}

static void add_numbers(struct head_predictions *p, const struct tensor *outputs, int64_t row, const float *targets)
{
    double *pairs = next_pairs(p);
    for (int64_t i = 0; i < p->width; i++) {
        pairs[2 * i] = tensor_get(outputs, row, i);
        pairs[2 * i + 1] = (double)targets[i];
    }
}

void predictions_add(void *self, const struct tensor *outputs, const struct tensor *labels, const struct batch *batch)
{
    struct head_predictions *p = self;
    const int32_t *label = labels->data;
    for (int64_t row = 0; row < outputs->rows; row++) {
        if (label[row] < 0)
            continue;
        if (p->task.problem == DECK_PROBLEM_REGRESSION)
            add_numbers(p, outputs, row, batch->targets + label[row] * batch->numbers);
        else
            add_class(p, outputs, row, label[row]);
    }
}

/* Gathers the pairs of all ranks to rank 0. Returns them, freed with memory_free, and their number of rows; NULL and 0
 * on other ranks. */
static double *gather_pairs(const struct head_predictions *p, struct comm *world, int64_t *rows)
{
    const int64_t most = comm_max_i64(world, p->rows), block = most * p->width * 2;
    double *own = memory_allocate((block + 1) * (int64_t)sizeof *own), *all = NULL;
    int64_t *counts = memory_allocate(world->size * (int64_t)sizeof *counts);
    for (int64_t i = 0; i < p->rows * p->width * 2; i++)
        own[i] = p->pairs[i];
    if (world->rank == 0)
        all = memory_allocate((world->size * block + 1) * (int64_t)sizeof *all);
    comm_gather(world, &p->rows, counts, sizeof *counts);
    comm_gather(world, own, all, block * (int64_t)sizeof *own);
    *rows = 0;
    for (int r = 0; r < world->size && world->rank == 0; r++) {
        for (int64_t i = 0; i < counts[r] * p->width * 2; i++)
            all[*rows * p->width * 2 + i] = all[r * block + i];
        *rows += counts[r];
    }
    memory_free(own);
    memory_free(counts);
    return all;
}

/* Copies one of the pairs of each row. */
static void unzip(const double *pairs, int64_t rows, int64_t width, int64_t number, double *first, double *second)
{
    for (int64_t r = 0; r < rows; r++) {
        first[r] = pairs[(r * width + number) * 2];
        second[r] = pairs[(r * width + number) * 2 + 1];
    }
}

/* Computes the metrics of pairs on rank 0. */
static void pair_metrics(const struct head_predictions *p, const double *pairs, int64_t rows,
                         double metrics[VALIDATION_METRICS])
{
    double *first = memory_allocate((rows + 1) * (int64_t)sizeof *first);
    double *second = memory_allocate((rows + 1) * (int64_t)sizeof *second);
    double spearman = 0, r2 = 0;
    for (int64_t i = 0; i < p->width; i++) {
        unzip(pairs, rows, p->width, i, first, second);
        spearman += ranking_spearman(first, second, rows) / (double)p->width;
        r2 += agreement_r2(first, second, rows) / (double)p->width;
    }
    if (p->task.problem == DECK_PROBLEM_REGRESSION) {
        metrics[VALIDATION_SPEARMAN] = spearman;
        metrics[VALIDATION_R2] = r2;
    } else {
        metrics[VALIDATION_AUC] = ranking_auc(first, second, rows, 0.5);
    }
    memory_free(first);
    memory_free(second);
}

void predictions_metrics(const struct head_predictions *p, struct comm *world, double metrics[VALIDATION_METRICS])
{
    int64_t rows;
    for (int m = 0; m < VALIDATION_METRICS; m++)
        metrics[m] = (double)NAN;
    if (p->counts.classes > 0) {
        comm_reduce(world, p->counts.labelled, 3 * p->counts.classes, COMM_SUM);
        metrics[VALIDATION_ACCURACY] = agreement_accuracy(&p->counts);
        metrics[VALIDATION_F1] = agreement_f1(&p->counts);
        metrics[VALIDATION_MCC] = agreement_mcc(&p->counts);
    }
    if (p->width == 0)
        return;
    double *pairs = gather_pairs(p, world, &rows);
    if (world->rank == 0)
        pair_metrics(p, pairs, rows, metrics);
    memory_free(pairs);
    comm_broadcast(world, metrics, VALIDATION_METRICS * (int64_t)sizeof *metrics, 0);
}
