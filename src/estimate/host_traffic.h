/* The messages between hosts outside of steps: of a start, a save, a restart and the roll call of a hang. */
#ifndef ESTIMATE_HOST_TRAFFIC_H
#define ESTIMATE_HOST_TRAFFIC_H

#include "comm/counting.h"
#include "estimate/rates.h"

enum host_work { HOST_START, HOST_SAVE, HOST_LOAD, HOST_ROLL_CALL, HOST_WORKS };

struct host_traffic {
    struct comm_traffic of[HOST_WORKS]; /* of rank 0, which has the most */
    int communicators;                  /* between devices: a rank's groups of several ranks, and lanes of its stage */
    int rounds;                         /* in which these are made, one after another */
};

/* Returns "start", ...; a static string. */
const char *host_work_name(enum host_work work);

/* Returns the seconds of rank 0's messages: HOST_ROUND_SECONDS for each of the messages that wait for another one,
 * HOST_MESSAGE_SECONDS for each, and the bytes at the profile's rate between nodes. A roll call also waits for those
 * who do not answer. The constants are assumptions, not measured. */
double host_seconds(const struct host_traffic *traffic, enum host_work work, const struct machine_rates *rates);

/* Returns about how many bytes of a GPU NCCL allocates for the rank's communicators, in addition to the planned memory.
 * A fit to what NCCL 2.28.3 took in ten layouts of four H100s, to within 0.5 GiB (bench/results/gpu_layouts.txt). A
 * group whose collectives are copies takes about 0.25 GiB less than that. */
int64_t host_communicator_memory(const struct host_traffic *traffic);

#endif
