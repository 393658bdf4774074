/* What a run finds in output.folder under the names that it writes: files of its own it replaces, others it refuses
 * (doc/errors.md, "What is replaced"). Local. */
#ifndef TRAIN_FOLDER_CHECK_H
#define TRAIN_FOLDER_CHECK_H

#include "checkpoint/checkpoint.h"
#include "setup/setup.h"

#include <stdbool.h>

/* The first line of a run's deck.cfg, which tells it from a deck of the user's own. */
extern const char folder_deck_head[];

/* Does the folder hold a run's log.jsonl or checkpoints? */
bool folder_holds_run(const char *folder);

/* May a run with this setup work in output.folder? path, from: the checkpoint that it starts from and what that says;
 * NULL: it starts afresh. ERROR_USER: the folder holds the result of a run that `path` is not of, files that are not of
 * a run under names that a run writes, or a folder final_model that is not an export. */
int folder_check_run(const struct setup *setup, const char *path, const struct checkpoint_meta *from);

#endif
