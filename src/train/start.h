/* The start of a run: its deck, its folder, its checkpoint. All functions are collective over world; they return
 * agreed codes, and rank 0 has printed the message. */
#ifndef TRAIN_START_H
#define TRAIN_START_H

#include "checkpoint/checkpoint.h"
#include "train/session.h"

/* Reads the deck on rank 0, with overrides[count]. The deck is the file `path`, or if `from` is not NULL, the deck with
 * which the checkpoint or run folder `from` was trained; then train.resume names that checkpoint. Keys of a
 * checkpoint's deck that say where a run writes are ignored: output.folder becomes the checkpoint's own folder. */
int start_read_deck(struct comm *world, struct deck *deck, const char *path, const char *from, char *const overrides[],
                    int count);

/* Makes output.folder and its missing parent folders. *made: the number of folders made on rank 0; 0 on other ranks. */
int start_make_folder(struct comm *world, const char *folder, int *made);

/* Removes temporary files that killed programs left in output.folder; failures are ignored. The caller must own the
 * folder's lock. */
void start_clean_folder(struct comm *world, const char *folder);

/* Asks Lustre to spread the run's files as checkpoint.stripes says, and logs it if it does. */
void start_stripe_folder(struct comm *world, const struct setup *setup);

/* Finds and verifies the checkpoint that train.resume requests. *path is freed with free(), NULL for a fresh start. If
 * train.resume names a file or folder, the run begins there; once the run has a checkpoint of its own in output.folder,
 * that one is used. aside: as in checkpoint_find_to_load. ERROR_USER: there is no checkpoint, or train.resume = "never"
 * and the folder has a run. */
int start_find(struct comm *world, const struct setup *setup, char **path, char **aside);

/* For a deck that leaves something to fit_choose, in a run that resumes from the checkpoint `path`: copies what that
 * run chose (memory.fitted_layers, fitted_offload, fitted_head_tokens) if it had the same number of ranks and
 * layers. */
int start_inherit_fit(struct comm *world, struct deck *deck, const char *path);

/* Checks whether the session's run, with this deck as given, may resume from the checkpoint `path`. ERROR_USER: keys
 * that must not change have changed (the message names each), the tokens are others, or output.folder has later
 * checkpoints. */
int start_check(const struct session *session, const struct deck *deck, const struct checkpoint_meta *meta,
                const char *path);

/* Finds the position in the session's data at which the run resumes; the caller destroys it, also after an error.
 * *changes: how the stores changed, freed with free(); NULL: stores and weights are unchanged. ERROR_USER: a store has
 * changed under its name, or the data cannot be exchanged. */
int start_place(const struct session *session, const struct checkpoint_meta *meta, const char *path,
                struct blend_position *place, char **changes);

/* Writes FOLDER/deck.cfg, the effective deck. ERROR_USER. */
int start_write_deck(struct comm *world, const char *folder, const char *text);

#endif
