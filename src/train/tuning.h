/* Tuning: if an executor has several kernels for one result (core/tuned_kernels.h), one of them is chosen for all ranks
 * before a run's first step. Known tuned kernels come from the checkpoint that the run resumes from, else from the
 * user's tuning file, else from the file that is installed with the program. Unknown ones are timed, each GEMM or
 * attention by one of the ranks. With device.deterministic only the checkpoint's tuned kernels are used, and nothing is
 * timed. */
#ifndef TRAIN_TUNING_H
#define TRAIN_TUNING_H

#include "comm/comm.h"
#include "loader/loader.h"
#include "setup/setup.h"

/* Loads the known tuned kernels on all ranks. Call it before anything is planned, so that kernels that are known to be
 * slower are not built. checkpoint: the one to resume from, NULL: none. Collective over world; an agreed code.
 * ERROR_USER: the checkpoint's tuned kernels cannot be read. */
int tuning_take(struct comm *world, struct executor *executor, const struct setup *setup, const char *checkpoint);

/* Times what is still unknown in a tuning pass on all ranks, saves the tuned kernels and sends them to all ranks.
 * engine, loader: those of the run. Call it before any step or validation; weights, moments and the position in the
 * data do not change. Collective over world. */
void tuning_complete(struct comm *world, const struct setup *setup, struct engine *engine, struct loader *loader);

#endif
