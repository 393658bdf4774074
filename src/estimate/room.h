/* What a run takes on disk, and whether its folder has room for that. */
#ifndef ESTIMATE_ROOM_H
#define ESTIMATE_ROOM_H

#include "comm/comm.h"
#include "setup/setup.h"

struct disk_room {
    int64_t checkpoint;  /* bytes: weights, moments, scales */
    int64_t model;       /* weights alone */
    int64_t checkpoints; /* that stay, at most; of keep_every those that checkpoint.every writes */
    int64_t total;       /* bytes of these, one that is being written, the final model and checkpoint.export_final */
    int64_t free;        /* bytes below output.folder; -1 where the file system does not tell */
};

/* For a complete setup. Local. */
struct disk_room room_of(const struct setup *setup);

/* For a training that is about to begin: ERROR_USER where not even one checkpoint finds room; a warning where not all
 * that stay do, what the folder holds of the run already left out. Rank 0 looks. Collective; an agreed code. */
int room_check(struct comm *world, const struct setup *setup);

#endif
