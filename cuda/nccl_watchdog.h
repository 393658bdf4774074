/* The watchdog of a group of GPUs: a thread that looks every 20 ms at the collectives in flight, and at the call of
 * NCCL in which the main thread is: creating a group, and the first collective of a kind, wait for the other ranks too.
 * The device counts the collectives that it starts and ends on each stream of the group, whether they were launched one
 * by one or by a CUDA graph, so the watchdog needs no call of CUDA. Collectives of one stream run in the order in which
 * they were launched; those of two streams do not, so each stream has counters and a queue of its own. The clock of a
 * collective starts when the device reaches it, so the host may be any number of collectives ahead of the device. A
 * collective that exceeds the limit ends the process by error_fatal, whose hooks know that this is not the main thread.
 * Nothing is aborted first: the process ends, the driver ends its work on the device, and the launcher ends the other
 * ranks. */
#ifndef CUDA_NCCL_WATCHDOG_H
#define CUDA_NCCL_WATCHDOG_H

#include "comm/comm.h"
#include "core/executor.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Counters of a stream: the group's collectives that the device has started on it, and ended. */
enum { WATCHDOG_BEGUN, WATCHDOG_DONE, WATCHDOG_PLACES };

/* A collective that was launched. */
struct nccl_launch {
    const char *name;
    int64_t number; /* of the group's launches on all streams */
};

/* The collectives of a group on one stream, in the order of launches and so of the device. */
struct nccl_queue {
    struct nccl_watchdog *watchdog;
    int64_t launched, finished;  /* since the start; finished: as the watchdog has seen */
    struct nccl_launch *pending; /* collective i of those in flight at i % room; owned */
    int64_t room;
    int64_t followed; /* the watchdog's own: the collective that it has seen started; -1: none */
    double since;     /* and when, by clock_seconds */
};

struct nccl_watchdog {
    /* set by the group before the start */
    const struct group *group;
    struct comm *comm;
    double timeout;                              /* seconds; 0: none */
    void (*check)(void *self, const char *name); /* an error of a collective in flight is fatal */
    void *self;                                  /* of check */
    uint64_t (*counters)[WATCHDOG_PLACES];       /* [STREAM_COUNT], in the device's memory; borrowed */
    uint64_t (*seen)[WATCHDOG_PLACES]; /* [STREAM_COUNT], copies in the host's memory, some microseconds later */

    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    bool stop;
    const char *inside; /* the call of NCCL in which the main thread is; NULL: none */
    double inside_since;
    int64_t launched; /* collectives, on all streams */
    struct nccl_queue queues[STREAM_COUNT];
};

void nccl_watchdog_start(struct nccl_watchdog *watchdog);
void nccl_watchdog_stop(struct nccl_watchdog *watchdog);
/* Waits until all collectives are done, and answers other ranks meanwhile; the main thread's. */
void nccl_watchdog_drain(struct nccl_watchdog *watchdog);

/* Around each call of NCCL that may wait for other ranks. */
void nccl_watchdog_enter(struct nccl_watchdog *watchdog, const char *name);
void nccl_watchdog_leave(struct nccl_watchdog *watchdog);

/* A collective is launched on a stream, alone or by a CUDA graph. queue: the stream's struct nccl_queue. Never waits.
 */
void nccl_watchdog_launched(void *queue, const char *name);

/* Seconds that the device has been in collectives of all groups of this process so far, waiting for other ranks or not.
 * Watchdogs see it by samples, 50 a second, so of 10 seconds it is right to 0.2 or so. */
double nccl_watchdog_seconds(void);

#endif
