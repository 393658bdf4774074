/* Tuning: where an executor has several ways to do the same (core/choice.h), one choice is made for all ranks before a
 * run's first step: as the checkpoint has it from which the run goes on, else as the tuning file says. What neither
 * knows is timed, each piece of work by one of the ranks. With device.deterministic the checkpoint's choices alone are
 * taken and nothing is timed. */
#ifndef TRAIN_TUNING_H
#define TRAIN_TUNING_H

#include "comm/comm.h"
#include "data/loader.h"
#include "deck/deck.h"
#include "step/engine.h"

/* What knew the choices that a run begins with. */
enum tuning_source { TUNING_NONE, TUNING_CHECKPOINT, TUNING_FILE };

/* All ranks take what is known: before anything is planned, so that no way is made ready that is known to be slower.
 * checkpoint: that the run goes on from, NULL for none. Collective over world; an agreed code. ERROR_USER: the
 * checkpoint's choices cannot be read. */
int tuning_take(enum tuning_source *source, struct comm *world, struct executor *executor, const struct deck *deck,
                const char *checkpoint);

/* Times the rest in a rehearsal on all ranks, keeps it and shares it. source: of tuning_take. engine, loader: what the
 * run trains by and reads. trains: it has a step to make. Before any step or validation; weights, moments and the place
 * in the data stay as they are. Collective over world. */
void tuning_complete(enum tuning_source source, struct comm *world, const struct deck *deck, struct engine *engine,
                     struct loader *loader, bool trains);

#endif
