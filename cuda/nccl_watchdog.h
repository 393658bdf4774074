/* The watchdog of a group of GPUs: a thread that looks every 20 ms at the oldest collective on its way, and at the call
 * of NCCL in which the main thread is: making a group, and the first collective of a kind, wait for the other ranks
 * too. The device counts the collectives that it comes to and leaves, whether they were launched one by one or are part
 * of a recording, so the watchdog needs no call of CUDA. The clock of a collective runs from when the device has come
 * to it, so the host may be ahead as far as it likes. What takes too long ends the process by error_fatal, whose hooks
 * know that this is not the main thread. Nothing is aborted first: the process is not to go on, the driver ends what it
 * has on the device, and the launcher ends the other ranks. */
#ifndef CUDA_NCCL_WATCHDOG_H
#define CUDA_NCCL_WATCHDOG_H

#include "comm/comm.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* How many collectives of a group the device has come to, and is behind. */
enum { WATCHDOG_BEGUN, WATCHDOG_DONE, WATCHDOG_PLACES };
enum { WATCHDOG_PENDING = 16384 /* collectives on their way that it can name */ };

struct nccl_watchdog {
    /* the group's, which sets them before the start */
    const struct group *group;
    struct comm *comm;
    double timeout;                              /* seconds; 0: none */
    void (*check)(void *self, const char *name); /* an error of a collective on its way is fatal */
    void *self;                                  /* of check */
    uint64_t *counters;                          /* [WATCHDOG_PLACES], the device's */
    uint64_t *seen; /* [WATCHDOG_PLACES], the same in the host's memory, some microseconds later */

    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    bool stop;
    const char *inside; /* the call of NCCL in which the main thread is; NULL: none */
    double inside_since;
    int64_t launched, finished; /* collectives that streams were given; that are done, as the watchdog has seen */
    const char *names[WATCHDOG_PENDING]; /* of collective i, at i % WATCHDOG_PENDING: those between */
    int64_t followed; /* the watchdog's own: the number of the collective that it has seen begun; -1: none */
    double since;     /* and when, by clock_seconds */
};

void nccl_watchdog_start(struct nccl_watchdog *watchdog);
void nccl_watchdog_stop(struct nccl_watchdog *watchdog);
/* Waits until all collectives are done. */
void nccl_watchdog_drain(struct nccl_watchdog *watchdog);

/* Around each call of NCCL that may wait for other ranks. */
void nccl_watchdog_enter(struct nccl_watchdog *watchdog, const char *name);
void nccl_watchdog_leave(struct nccl_watchdog *watchdog);

/* A stream is given a collective, alone or in a recording; self is the watchdog. */
void nccl_watchdog_launched(void *self, const char *name);

/* Seconds that the device has been in collectives of all groups of this process so far, waiting for other ranks or not.
 * Watchdogs see it by samples, 50 a second, so of 10 seconds it is right to 0.2 or so. */
double nccl_watchdog_seconds(void);

#endif
