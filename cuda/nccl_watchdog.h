/* The watchdog of a group of GPUs: a thread that checks every 20 ms the collectives in flight and the NCCL call of the
 * main thread. Creating a group and the first collective of a kind also wait for other ranks.
 *
 * The device counts the collectives that it starts and ends on each stream, whether they were launched one by one or by
 * a CUDA graph, so the watchdog makes no CUDA calls. Collectives of one stream run in launch order; collectives of
 * different streams do not, so each stream has its own counters and queue. A collective's time starts when the device
 * reaches it, so the host may be any number of collectives ahead of the device.
 *
 * A collective that exceeds the limit ends the process by error_fatal, whose hooks know that this is not the main
 * thread. Nothing is aborted first: the process ends, the driver ends its work on the device, and the launcher ends the
 * other ranks. */
#ifndef CUDA_NCCL_WATCHDOG_H
#define CUDA_NCCL_WATCHDOG_H

#include "comm/comm.h"
#include "core/executor.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* A stream's counters: collectives of the group that the device has started on it, and ended. */
enum { WATCHDOG_BEGUN, WATCHDOG_DONE, WATCHDOG_PLACES };

/* A launched collective. */
struct nccl_launch {
    const char *name;
    int64_t number; /* sequence number among the group's launches on all streams */
};

/* A group's collectives on one stream, in launch order, which is the device's order. */
struct nccl_queue {
    struct nccl_watchdog *watchdog;
    int64_t launched, finished;  /* numbers since the start; finished: seen by the watchdog */
    struct nccl_launch *pending; /* [room], a ring: collective i in flight is at i % room; owned */
    int64_t room;
    int64_t followed; /* used by the watchdog only: the collective that it has seen start; -1: none */
    double since;     /* when it saw that, by clock_seconds */
};

struct nccl_watchdog {
    /* set by the group before nccl_watchdog_start */
    const struct group *group;
    struct comm *comm;
    double timeout;                              /* seconds; 0: none */
    void (*check)(void *self, const char *name); /* checks for errors of the collective in flight, which are fatal */
    void *self;                                  /* argument of check */
    uint64_t (*counters)[WATCHDOG_PLACES];       /* [STREAM_COUNT], in device memory; borrowed */
    uint64_t (*seen)[WATCHDOG_PLACES];           /* [STREAM_COUNT], copies in host memory, microseconds later */

    pthread_t thread;
    pthread_mutex_t lock; /* guards the fields below */
    pthread_cond_t changed;
    bool stop;
    const char *inside; /* the NCCL call that the main thread is in; NULL: none */
    double inside_since;
    int64_t launched; /* collectives, on all streams */
    struct nccl_queue queues[STREAM_COUNT];
};

void nccl_watchdog_start(struct nccl_watchdog *watchdog);
void nccl_watchdog_stop(struct nccl_watchdog *watchdog);
/* Waits until all collectives are done, and answers other ranks meanwhile. For the main thread. */
void nccl_watchdog_drain(struct nccl_watchdog *watchdog);

/* Called before and after each NCCL call that may wait for other ranks. */
void nccl_watchdog_enter(struct nccl_watchdog *watchdog, const char *name);
void nccl_watchdog_leave(struct nccl_watchdog *watchdog);

/* Records that a collective is launched on a stream, alone or by a CUDA graph. queue: the stream's struct nccl_queue.
 * Never waits. */
void nccl_watchdog_launched(void *queue, const char *name);

/* Returns the seconds that the device has spent in collectives of all groups of this process, including waiting for
 * other ranks. The watchdogs sample it 50 times a second, so over 10 seconds it is accurate to about 0.2. */
double nccl_watchdog_seconds(void);

#endif
