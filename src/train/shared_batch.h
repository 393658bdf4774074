/* One micro-batch that all ranks have, for passes that are not steps: tuning (train/tuning.h), rechecks
 * (train/run_recheck.c). */
#ifndef TRAIN_SHARED_BATCH_H
#define TRAIN_SHARED_BATCH_H

#include "comm/comm.h"
#include "engine/engine.h"
#include "loader/loader.h"

/* Copies one of rank 0's next micro-batches to all ranks, since a rank may not have rows of its own; free it with
 * batch_destroy. The loader's position does not change. Collective over world. */
void shared_batch_create(struct batch *batch, struct comm *world, const struct engine *engine, struct loader *loader);

#endif
