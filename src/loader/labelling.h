/* Labels of segments for a fine-tuning head (model/task_head.h), from the labels of token stores. */
#ifndef LOADER_LABELLING_H
#define LOADER_LABELLING_H

#include "architecture/settings.h"
#include "data/batch.h"
#include "loader/packer.h"
#include "loader/store_set.h"

/* Checks that all stores have the labels that the task learns, with the same classes, and that a head for sequences
 * gets each sequence as one window; truncate: the first window is enough. ERROR_USER. */
int labelling_check(const struct task_settings *task, const struct store_set *set, bool truncate);

/* Returns whether the classes, or numbers, of one store are the first ones of the other. */
bool labelling_agrees(const struct token_store *a, const struct token_store *b);

/* Adds the labels of each class in all stores to counts[task->labels]. */
void labelling_count(const struct task_settings *task, const struct store_set *set, int64_t *counts);

/* Writes the labels of a segment, which begins at token `at` of the batch and is in segment slot `slot`, and adds to
 * batch->valid. A head for sequences: the class, or with targets the slot, at the tokens that task->pooling names. A
 * head for tokens: each token's class, none at special tokens. reversed: the window is read from the other strand.
 * Fatal: a class of the store is not one of task->labels. */
void label_segment(const struct task_settings *task, const struct window_source *source,
                   const struct packer_segment *segment, bool reversed, struct batch *batch, int64_t at, int64_t slot);

#endif
