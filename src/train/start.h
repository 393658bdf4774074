/* Where a run starts from: its deck, its folder, its checkpoint. All are collective over world; they return agreed
 * codes and rank 0 has printed the message. */
#ifndef TRAIN_START_H
#define TRAIN_START_H

#include "checkpoint/checkpoint.h"
#include "train/session.h"

/* The deck of the file `path` or, when `from` is not NULL, that which the checkpoint or run folder `from` was trained
 * with, whose train.resume then names the checkpoint; with overrides[count]. Of a checkpoint's deck
 * the keys that say where a run writes do not count: output.folder is the checkpoint's own folder. Rank 0 reads. */
int start_read_deck(struct comm *world, struct deck *deck, const char *path, const char *from, char *const overrides[],
                    int count);

/* Makes output.folder and those above it. *made: how many, on rank 0; 0 elsewhere. */
int start_make_folder(struct comm *world, const char *folder, int *made);

/* Removes what killed programs left in output.folder under temporary names, as far as that goes: to be called by who
 * holds the folder's lock. */
void start_clean_folder(struct comm *world, const char *folder);

/* The verified checkpoint that train.resume asks for, NULL for a fresh start; freed with free(). A file or folder that
 * train.resume names is where a run begins: once the run has a checkpoint of its own in output.folder, it is that one.
 * aside: as checkpoint_find_to_load has it. ERROR_USER: it holds none, or "never" meets a folder with a run. */
int start_find(struct comm *world, const struct setup *setup, char **path, char **aside);

/* For a deck that leaves something to fit_choose and goes on from the checkpoint `path`: takes over what that run had
 * chosen (memory.fitted_layers, fitted_offload, fitted_head_tokens) if it was for as many ranks and layers. */
int start_inherit_fit(struct comm *world, struct deck *deck, const char *path);

/* May the session's run, with this deck as given, go on from the checkpoint `path`? ERROR_USER: keys that may not
 * change, each named; other tokens; later checkpoints in output.folder. */
int start_check(const struct session *session, const struct deck *deck, const struct checkpoint_meta *meta,
                const char *path);

/* The place in the session's data at which the run goes on; to be destroyed in any case. *told: what has become of the
 * stores, freed with free(); NULL: they and their weights are the same. ERROR_USER: a store has changed under its name;
 * data that cannot be exchanged. */
int start_place(const struct session *session, const struct checkpoint_meta *meta, const char *path,
                struct blend_position *place, char **told);

/* Writes FOLDER/deck.cfg, the effective deck. ERROR_USER. */
int start_write_deck(struct comm *world, const char *folder, const char *text);

#endif
