/* The watchdog of GPU collectives (cuda/nccl_watchdog.h) with counters that this program sets, as the device would:
 *   watchdog table     on 3 ranks: each has 20,000 collectives in flight, rank 0's device stays in one of them, rank 1
 *                      answers nobody, rank 2 drains
 *   watchdog overtaken on 2 ranks: a later collective on a second stream ends, the first does not
 *   watchdog waits     on 2 ranks: the device stays in a later collective and has not reached the first
 *   watchdog call      on 2 ranks: a call of NCCL does not return
 *   watchdog passes    on 2 ranks: all collectives end, in another order than that of their launches
 * Ends with 1 by the watchdog, with 0 where nothing is wrong, or with 3 after WAIT seconds. (tests/t_watchdog.sh) */
#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "base/waiting.h"
#include "core/group.h"
#include "cuda/nccl_watchdog.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MANY = 20000, STUCK = 17000, SILENT = 1, DRAINS = 2, LIMIT = 2, WAIT = 30, NOT_ENDED = 3 };

static struct nccl_watchdog dog;
static struct group group;
static uint64_t seen[STREAM_COUNT][WATCHDOG_PLACES];

static void no_error(void *self, const char *name)
{
    (void)self, (void)name;
}

static void give(int stream, const char *name)
{
    nccl_watchdog_launched(&dog.queues[stream], name);
}

/* The device has started and ended these numbers of collectives of a stream. */
static void device(int stream, uint64_t begun, uint64_t done)
{
    __atomic_store_n(&seen[stream][WATCHDOG_BEGUN], begun, __ATOMIC_RELEASE);
    __atomic_store_n(&seen[stream][WATCHDOG_DONE], done, __ATOMIC_RELEASE);
}

static void attend(void)
{
    struct rank_waiting waiting = {0};
    while (clock_seconds() < WAIT)
        comm_attend(waiting_turn(&waiting));
    exit(NOT_ENDED);
}

static void table(int rank)
{
    for (int i = 0; i < MANY; i++)
        give(STREAM_REDUCE, i == STUCK ? "the stuck one" : "another");
    if (rank == 0)
        device(STREAM_REDUCE, STUCK + 1, STUCK);
    if (rank == SILENT)
        sleep(WAIT);
    if (rank == DRAINS)
        nccl_watchdog_drain(&dog);
    attend();
}

static void two_streams(bool first_starts)
{
    give(STREAM_REDUCE, "first");
    give(STREAM_GATHER, "second");
    give(STREAM_REDUCE, "third");
    device(STREAM_REDUCE, first_starts, 0);
    device(STREAM_GATHER, 1, first_starts);
    attend();
}

static void *end_all(void *self)
{
    (void)self;
    for (uint64_t i = 1; i <= MANY; i++) {
        device(STREAM_GATHER, i, i);
        device(STREAM_REDUCE, i / 2, i / 2);
    }
    device(STREAM_REDUCE, MANY, MANY);
    return NULL;
}

static void passes(void)
{
    for (int i = 0; i < MANY; i++) {
        give(STREAM_REDUCE, "sum");
        give(STREAM_GATHER, "gather");
    }
    pthread_t thread = thread_start(end_all, NULL, "the device");
    nccl_watchdog_drain(&dog);
    pthread_join(thread, NULL);
    nccl_watchdog_stop(&dog);
}

int main(int argc, char **argv)
{
    const char *what = argc == 2 ? argv[1] : "";
    clock_seconds();
    MPI_Init(&argc, &argv);
    struct comm *world = comm_open_mpi();
    error_open(world->rank);
    group = (struct group){.name = "test", .rank = world->rank, .size = world->size};
    dog = (struct nccl_watchdog){.group = &group, .comm = world, .timeout = LIMIT, .check = no_error, .seen = seen};
    nccl_watchdog_start(&dog);
    if (strcmp(what, "table") == 0)
        table(world->rank);
    else if (strcmp(what, "overtaken") == 0 || strcmp(what, "waits") == 0)
        two_streams(strcmp(what, "overtaken") == 0);
    else if (strcmp(what, "passes") == 0)
        passes();
    else if (strcmp(what, "call") == 0)
        nccl_watchdog_enter(&dog, "the first call"), attend();
    else
        return NOT_ENDED;
    comm_destroy(world);
    MPI_Finalize();
    return 0;
}
