/* The training run: start or restart, the loop, its end. */
#ifndef TRAIN_RUN_H
#define TRAIN_RUN_H

#include "comm/comm.h"
#include "core/device.h"

/* `cistron train DECK [key=value ...]`. Collective over world; returns an agreed enum error_code, its message printed.
 * Rank 0 reads the deck: the file deck_path or, when `from` is not NULL, what the checkpoint or run folder `from` was
 * trained with, and goes on from there. make_executor as for session_create. */
int run_train(struct comm *world, const char *deck_path, const char *from, char *const overrides[], int override_count,
              device_make *make_executor);

#endif
