/* The predictions of a fine-tuning head in a validation, and their metrics. Classes have accuracy, F1 (macro average),
 * Matthews' correlation, and if there are two the area under the ROC curve. Numbers have Spearman's correlation and
 * R^2, as means over the numbers of a sequence.
 *
 * Counts of classes are summed over ranks; scores of two classes, and numbers, are gathered to rank 0. */
#ifndef TRAIN_PREDICTIONS_H
#define TRAIN_PREDICTIONS_H

#include "base/agreement.h"
#include "comm/comm.h"
#include "engine/engine.h"
#include "monitor/validation.h"

struct head_predictions {
    struct task_settings task;
    struct class_counts counts; /* this rank's; arrays in one allocation at counts.labelled */
    int64_t width;              /* pairs of a row: numbers of a sequence, 1 for two classes, else 0 */
    int64_t rows, capacity;
    double *pairs; /* [rows * width * 2] score or prediction, and label or measured value; freed with free() */
};

void predictions_create(struct head_predictions *predictions, const struct task_settings *task);
void predictions_destroy(struct head_predictions *predictions);

/* Adds a micro-batch, as engine->predicted (engine/engine.h). */
void predictions_add(void *self, const struct tensor *outputs, const struct tensor *labels, const struct batch *batch);

/* Computes the metrics over all ranks, the same on each; those that do not apply are NaN. Collective. */
void predictions_metrics(const struct head_predictions *predictions, struct comm *world,
                         double metrics[VALIDATION_METRICS]);

#endif
