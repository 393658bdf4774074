/* Tuning: where an executor has several kernels for the same result (core/choice.h), one is chosen for all ranks before
 * a run's first step: that of the checkpoint from which the run goes on, else that of the tuning file. What neither has
 * is timed, each product or attention by one of the ranks. With device.deterministic the checkpoint's choices alone are
 * taken and nothing is timed. */
#ifndef TRAIN_TUNING_H
#define TRAIN_TUNING_H

#include "comm/comm.h"
#include "data/loader.h"
#include "deck/deck.h"
#include "step/engine.h"

/* Where the choices that a run begins with come from. */
enum tuning_source { TUNING_NONE, TUNING_CHECKPOINT, TUNING_FILE };

/* All ranks take the choices that are known, before anything is planned, so that no kernel is built that is known to be
 * slower. checkpoint: that the run goes on from, NULL for none. Collective over world; an agreed code. ERROR_USER: the
 * checkpoint's choices cannot be read. */
int tuning_take(enum tuning_source *source, struct comm *world, struct executor *executor, const struct deck *deck,
                const char *checkpoint);

/* Times the rest in a rehearsal on all ranks, keeps the choices and shares them. source: of tuning_take. engine,
 * loader: what the run trains by and reads. trains: it has a step to make. Before any step or validation; weights,
 * moments and the place in the data stay as they are. Collective over world. */
void tuning_complete(enum tuning_source source, struct comm *world, const struct deck *deck, struct engine *engine,
                     struct loader *loader, bool trains);

#endif
