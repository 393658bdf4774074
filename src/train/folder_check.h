/* Checks what output.folder already has under the names that a run writes. Files of this run are replaced, other files
 * are refused (doc/errors.md, "What is replaced"). Local. */
#ifndef TRAIN_FOLDER_CHECK_H
#define TRAIN_FOLDER_CHECK_H

#include "checkpoint/checkpoint.h"
#include "setup/setup.h"

#include <stdbool.h>

/* The first line of a run's deck.cfg. It distinguishes the file from a deck that the user wrote. */
extern const char folder_deck_head[];

/* Returns whether the folder has a run's log.jsonl or checkpoints. */
bool folder_has_run(const char *folder);

/* Checks whether a run with this setup may work in output.folder. path, from: the checkpoint that the run starts from,
 * and its metadata; NULL: a fresh start. ERROR_USER: the folder has the result of a run to which `path` does not
 * belong, files under a run's names that no run wrote, or a folder final_model that is not an export. */
int folder_check_run(const struct setup *setup, const char *path, const struct checkpoint_meta *from);

#endif
