/* Tuning: where an executor has several kernels for the same result (core/choice.h), one is chosen for all ranks before
 * a run's first step: that of the checkpoint from which the run goes on, else that of the user's tuning file, else that
 * of the file which comes with the program. What none has is timed, each product or attention by one of the ranks. With
 * device.deterministic the checkpoint's choices alone are taken and nothing is timed. */
#ifndef TRAIN_TUNING_H
#define TRAIN_TUNING_H

#include "comm/comm.h"
#include "loader/loader.h"
#include "setup/setup.h"

/* All ranks take the choices that are known, before anything is planned, so that no kernel is built that is known to be
 * slower. checkpoint: that the run goes on from, NULL for none. Collective over world; an agreed code. ERROR_USER: the
 * checkpoint's choices cannot be read. */
int tuning_take(struct comm *world, struct executor *executor, const struct setup *setup, const char *checkpoint);

/* Times the rest in a rehearsal on all ranks, keeps the choices and shares them. engine, loader: what the run trains by
 * and reads. Before any step or validation; weights, moments and the place in the data stay as they are. Collective
 * over world. */
void tuning_complete(struct comm *world, const struct setup *setup, struct engine *engine, struct loader *loader);

#endif
