/* Tuning: where an executor has several ways to do the same (core/choice.h), rank 0 chooses for all ranks before a
 * run's first step: as the checkpoint did from which the run goes on, else as the tuning file says, and by timing what
 * neither knows. With device.deterministic the checkpoint's choices alone are taken and nothing is timed. */
#ifndef TRAIN_TUNING_H
#define TRAIN_TUNING_H

#include "train/session.h"

/* checkpoint: that the run goes on from, NULL for none; trains: it has a step to make. Before any step or validation of
 * the session; weights, moments and the place in the data stay as they are. Collective over world; an agreed code.
 * ERROR_USER: the checkpoint's choices cannot be read. */
int tuning_prepare(struct session *session, const char *checkpoint, bool trains);

#endif
