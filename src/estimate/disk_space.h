/* Estimates the disk space of a run, and checks that its folder has that much free. */
#ifndef ESTIMATE_DISK_SPACE_H
#define ESTIMATE_DISK_SPACE_H

#include "comm/comm.h"
#include "setup/setup.h"

struct disk_space {
    int64_t checkpoint;  /* bytes of a checkpoint: weights, moments, scales */
    int64_t model;       /* bytes of a final model: weights only */
    int64_t checkpoints; /* maximum number of kept checkpoints; for keep_every, if they are written every
                            checkpoint.every */
    int64_t total; /* bytes of the kept checkpoints, one being written, the final model and checkpoint.export_final */
    int64_t free;  /* bytes free in output.folder; -1 if the file system does not say */
};

/* Returns the disk space of a complete setup. Local. */
struct disk_space disk_space_of(const struct setup *setup);

/* Checks the disk space before a training run begins. Warns if the free space is less than `total`, less the
 * checkpoints already in the folder. ERROR_USER: not even one checkpoint fits. Rank 0 checks. Collective; same code on
 * all ranks. */
int disk_space_check(struct comm *world, const struct setup *setup);

#endif
