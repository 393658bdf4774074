/* The training run: start or resume, the loop, and the end. */
#ifndef TRAIN_RUN_H
#define TRAIN_RUN_H

#include "comm/comm.h"
#include "core/device.h"

/* Runs `cistron train DECK [key=value ...]`. Rank 0 reads the deck: the file deck_path, or if `from` is not NULL, the
 * deck of the checkpoint or run folder `from`, and then the run resumes from there. make_executor: as for
 * session_create. Collective over world; returns an agreed enum error_code, after its message was printed. */
int run_train(struct comm *world, const char *deck_path, const char *from, char *const overrides[], int override_count,
              device_make *make_executor);

#endif
