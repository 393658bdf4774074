#include "cuda/nccl_group.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "cuda/kernel.h"

#include <nccl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

enum { PENDING = 1024 /* collectives on their way that the watchdog follows */ };

struct pending {
    cudaEvent_t done;
    const char *name; /* of the collective */
    int64_t sequence;
    double since; /* clock_seconds of its launch */
};

struct nccl_group {
    struct group group;
    struct comm *comm; /* borrowed */
    struct executor *executor;
    ncclComm_t nccl; /* of more than one rank */
    int device;
    double timeout;

    pthread_t watchdog;
    bool watched;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    bool stop;
    struct pending ring[PENDING];
    int64_t launched, finished; /* sequence numbers; ring entry i % PENDING */
};

static void check(ncclResult_t status, const char *what)
{
    if (status != ncclSuccess && status != ncclInProgress)
        error_fatal("NCCL: %s: %s (%s)", what, ncclGetErrorString(status), ncclGetLastError(NULL));
}
#define CHECK_NCCL(call) check((call), #call)

/* -- Watchdog ---------------------------------------------------------------------------------------------------- */

/* The oldest collective on its way: finished, or how long it has been. Lock held. */
static bool follow(struct nccl_group *own)
{
    struct pending *oldest = &own->ring[own->finished % PENDING];
    cudaError_t status = cudaEventQuery(oldest->done);
    if (status == cudaSuccess) {
        own->finished++;
        return true;
    }
    if (status != cudaErrorNotReady)
        cuda_check(status, oldest->name);
    ncclResult_t asynchronous;
    CHECK_NCCL(ncclCommGetAsyncError(own->nccl, &asynchronous));
    check(asynchronous, oldest->name);
    double waited = clock_seconds() - oldest->since;
    if (own->timeout > 0 && waited > own->timeout)
        error_fatal("%s number %lld of group \"%s\" has not finished on rank %d of %d after %.0f s (comm.timeout)",
                    oldest->name, (long long)oldest->sequence, own->group.name, own->group.rank, own->group.size,
                    waited);
    return false;
}

static void *watch(void *self)
{
    struct nccl_group *own = self;
    CUDA_CHECK(cudaSetDevice(own->device));
    pthread_mutex_lock(&own->lock);
    while (!own->stop) {
        if (own->finished == own->launched) {
            pthread_cond_wait(&own->changed, &own->lock);
        } else if (!follow(own)) {
            const struct timespec pause = {0, 20 * 1000 * 1000};
            pthread_mutex_unlock(&own->lock);
            nanosleep(&pause, NULL);
            pthread_mutex_lock(&own->lock);
        }
    }
    pthread_mutex_unlock(&own->lock);
    return NULL;
}

static void start_watchdog(struct nccl_group *own)
{
    sigset_t all, before;
    pthread_mutex_init(&own->lock, NULL);
    pthread_cond_init(&own->changed, NULL);
    for (int i = 0; i < PENDING; i++)
        CUDA_CHECK(cudaEventCreateWithFlags(&own->ring[i].done, cudaEventDisableTiming));
    sigfillset(&all); /* signals are waited for by a thread of their own (base/signals.h) */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&own->watchdog, NULL, watch, own);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        error_fatal("the watchdog of group \"%s\" cannot start a thread: %s", own->group.name, strerror(failed));
    own->watched = true;
}

static void stop_watchdog(struct nccl_group *own)
{
    pthread_mutex_lock(&own->lock);
    own->stop = true;
    pthread_cond_broadcast(&own->changed);
    pthread_mutex_unlock(&own->lock);
    pthread_join(own->watchdog, NULL);
    for (int i = 0; i < PENDING; i++)
        CUDA_CHECK(cudaEventDestroy(own->ring[i].done));
    pthread_cond_destroy(&own->changed);
    pthread_mutex_destroy(&own->lock);
}

/* A collective has just been put on the stream. */
static void launched(struct nccl_group *own, cudaStream_t stream, const char *name)
{
    pthread_mutex_lock(&own->lock);
    if (own->launched - own->finished == PENDING) { /* so far ahead of the device: wait for the oldest */
        CUDA_CHECK(cudaEventSynchronize(own->ring[own->finished % PENDING].done));
        own->finished++;
    }
    struct pending *entry = &own->ring[own->launched % PENDING];
    entry->name = name;
    entry->sequence = own->launched++;
    entry->since = clock_seconds();
    CUDA_CHECK(cudaEventRecord(entry->done, stream));
    pthread_cond_broadcast(&own->changed);
    pthread_mutex_unlock(&own->lock);
}

/* -- Collectives ------------------------------------------------------------------------------------------------- */

/* Of numbers that are summed. */
static ncclDataType_t type_of(const struct tensor *t)
{
    switch (t->dtype) {
    case DTYPE_F32:
        return ncclFloat32;
    case DTYPE_F64:
        return ncclFloat64;
    case DTYPE_BF16:
        return ncclBfloat16;
    case DTYPE_I32:
        return ncclInt32;
    default:
        error_fatal("NCCL: no sums of %s", dtype_name(t->dtype));
    }
}

static cudaStream_t stream_of(const struct stream *stream)
{
    return cuda_executor_stream(stream->executor, stream->id);
}

static void nccl_all_reduce(struct group *group, struct stream *stream, const struct all_reduce_args *args)
{
    struct nccl_group *own = group->self;
    if (group->size == 1)
        return;
    CHECK_NCCL(ncclAllReduce(args->x.data, args->x.data, (size_t)tensor_count(&args->x), type_of(&args->x), ncclSum,
                             own->nccl, stream_of(stream)));
    launched(own, stream_of(stream), "all_reduce");
}

static void nccl_reduce_scatter(struct group *group, struct stream *stream, const struct reduce_scatter_args *args)
{
    struct nccl_group *own = group->self;
    if (group->size == 1) {
        cuda_executor_copy(stream, args->in, args->out);
        return;
    }
    CHECK_NCCL(ncclReduceScatter(args->in.data, args->out.data, (size_t)args->out.cols, type_of(&args->in), ncclSum,
                                 own->nccl, stream_of(stream)));
    launched(own, stream_of(stream), "reduce_scatter");
}

static void nccl_all_gather(struct group *group, struct stream *stream, const struct all_gather_args *args)
{
    struct nccl_group *own = group->self;
    if (group->size == 1) {
        cuda_executor_copy(stream, args->in, args->out);
        return;
    }
    CHECK_NCCL(ncclAllGather(args->in.data, args->out.data, (size_t)(args->in.cols * dtype_size(args->in.dtype)),
                             ncclInt8, own->nccl, stream_of(stream)));
    launched(own, stream_of(stream), "all_gather");
}

static void nccl_broadcast(struct group *group, struct stream *stream, const struct broadcast_args *args)
{
    struct nccl_group *own = group->self;
    if (group->size == 1)
        return;
    CHECK_NCCL(ncclBroadcast(args->x.data, args->x.data, (size_t)tensor_extent(&args->x), ncclInt8, args->root,
                             own->nccl, stream_of(stream)));
    launched(own, stream_of(stream), "broadcast");
}

/* -- Making ------------------------------------------------------------------------------------------------------ */

static void nccl_destroy(struct group *group)
{
    struct nccl_group *own = group->self;
    if (own->watched) {
        stop_watchdog(own);
        CHECK_NCCL(ncclCommDestroy(own->nccl));
    }
    memory_free(own);
}

static const struct group_class nccl_class = {"nccl",          nccl_all_reduce, nccl_reduce_scatter,
                                              nccl_all_gather, nccl_broadcast,  nccl_destroy};

struct group *nccl_group_create(struct comm *comm, struct executor *executor, const char *name, double timeout)
{
    struct nccl_group *own = memory_allocate(sizeof *own);
    own->group = (struct group){name, comm->rank, comm->size, &nccl_class, own};
    own->comm = comm;
    own->executor = executor;
    own->timeout = timeout;
    if (comm->size == 1)
        return &own->group;
    ncclUniqueId id;
    if (comm->rank == 0)
        CHECK_NCCL(ncclGetUniqueId(&id));
    comm_broadcast(comm, &id, sizeof id, 0);
    CUDA_CHECK(cudaGetDevice(&own->device));
    CHECK_NCCL(ncclCommInitRank(&own->nccl, comm->size, id, comm->rank));
    start_watchdog(own);
    return &own->group;
}

int nccl_group_version(void)
{
    int version = 0;
    CHECK_NCCL(ncclGetVersion(&version));
    return version;
}
