/* train.class_weights: weights of the classes in a fine-tuning head's loss. */
#ifndef SETUP_CLASS_WEIGHTS_H
#define SETUP_CLASS_WEIGHTS_H

#include "architecture/settings.h"

/* Returns whether the deck weights classes, and whether by their frequency. */
bool class_weights_given(const struct deck *deck);
bool class_weights_balanced(const struct deck *deck);

/* Writes the deck's weights to weights[task->labels]. counts[task->labels]: labels of each class in data.train, used if
 * they are balanced: a class has the weight labels / (classes * its labels) (scikit-learn's), or 0 without labels.
 * ERROR_USER: not one positive number for each class, no classification head, or train.reproducible. */
int class_weights_read(float *weights, const struct deck *deck, const struct task_settings *task,
                       const int64_t *counts);

#endif
