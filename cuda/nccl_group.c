#include "cuda/nccl_group.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "comm/lanes.h"
#include "cuda/kernel.h"
#include "cuda/nccl_versions.h"
#include "cuda/nccl_watchdog.h"
#include "cuda/peer_copies.h"

#include <nccl.h>
#include <stdlib.h>
#include <string.h>

/* An NCCL window of the group's memory, which other ranks write without using SMs. */
struct token_window;

struct nccl_group {
    struct group group;
    struct comm *comm;
    struct nccl_settings settings;
    ncclComm_t nccl;
    ncclComm_t lanes[TRANSFER_DIRECTIONS]; /* one-way communicators with neighbouring ranks; NULL before the first
                                              send_receive */
    struct token_window *windows;
    struct peer_copies *peer; /* NULL: the ranks do not reach each other's memory, or the group has none yet */
    void *flags;              /* memory for peer's use; NULL: none */
    struct nccl_watchdog watchdog;
};

static void check(ncclResult_t status, const char *what)
{
    if (status != ncclSuccess && status != ncclInProgress)
        error_fatal("NCCL: %s: %s (%s)", what, ncclGetErrorString(status), ncclGetLastError(NULL));
}
#define CHECK_NCCL(call) check((call), #call)

static void check_one(ncclComm_t nccl, const char *name)
{
    ncclResult_t status;
    CHECK_NCCL(ncclCommGetAsyncError(nccl, &status));
    check(status, name);
}

/* Called by the watchdog: an asynchronous error on any communicator of the group is fatal. */
static void check_asynchronous(void *self, const char *name)
{
    const struct nccl_group *own = self;
    check_one(own->nccl, name);
    for (int lane = 0; lane < TRANSFER_DIRECTIONS; lane++) {
        ncclComm_t open = __atomic_load_n(&own->lanes[lane], __ATOMIC_ACQUIRE);
        if (open != NULL)
            check_one(open, name);
    }
}

/* begin and end are called before and after a collective is launched or captured. */
static void begin(struct nccl_group *own, int stream, const char *name)
{
    struct nccl_watchdog *w = &own->watchdog;
    if (!own->settings.at_replay(own->settings.executor, nccl_watchdog_launched, &w->queues[stream], name))
        nccl_watchdog_launched(&w->queues[stream], name);
    cuda_progress(own->settings.targets[stream].stream, &w->counters[stream][WATCHDOG_BEGUN],
                  &w->seen[stream][WATCHDOG_BEGUN]);
    nccl_watchdog_enter(w, name);
}

static void end(struct nccl_group *own, int stream)
{
    struct nccl_watchdog *w = &own->watchdog;
    nccl_watchdog_leave(w);
    cuda_progress(own->settings.targets[stream].stream, &w->counters[stream][WATCHDOG_DONE],
                  &w->seen[stream][WATCHDOG_DONE]);
}

/* -- Collectives ------------------------------------------------------------------------------------------------- */

/* Returns the NCCL type of numbers to be summed or compared. */
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
        error_fatal("NCCL: no sums or maxima of %s", dtype_name(t->dtype));
    }
}

static const struct cuda_target *target_of(const struct group *group, const struct stream *stream)
{
    const struct nccl_group *own = group->self;
    return &own->settings.targets[stream->id];
}

/* Launches a collective. CALL is ncclSomething(..., communicator, stream). */
#define COLLECT(group, stream, name, CALL, ...)                                                                        \
    do {                                                                                                               \
        struct nccl_group *own = (group)->self;                                                                        \
        begin(own, (stream)->id, name);                                                                                \
        CHECK_NCCL(CALL(__VA_ARGS__, own->nccl, target_of(group, stream)->stream));                                    \
        end(own, (stream)->id);                                                                                        \
    } while (0)

static ncclResult_t gather_rows(const struct tensor *in, const struct tensor *out, ncclComm_t nccl, cudaStream_t stream)
{
    return ncclAllGather(in->data, out->data, (size_t)(in->cols * dtype_size(in->dtype)), ncclInt8, nccl, stream);
}

/* Row r of `in` goes to rank r; row r of `out` comes from rank r. */
static ncclResult_t exchange_rows(const struct tensor *in, const struct tensor *out, ncclComm_t nccl,
                                  cudaStream_t stream)
{
    const size_t bytes = (size_t)(in->cols * dtype_size(in->dtype));
#if NCCL_VERSION_CODE >= 22800
    return ncclAlltoAll(in->data, out->data, bytes, ncclInt8, nccl, stream);
#else
    CHECK_NCCL(ncclGroupStart());
    for (int r = 0; r < (int)in->rows; r++) {
        CHECK_NCCL(ncclSend(tensor_at(in, r, 0), bytes, ncclInt8, r, nccl, stream));
        CHECK_NCCL(ncclRecv(tensor_at(out, r, 0), bytes, ncclInt8, r, nccl, stream));
    }
    return ncclGroupEnd();
#endif
}

/* Returns whether the group's copies reach a tensor on all ranks (cuda/peer_copies.h). */
static bool reaches(const struct group *group, const struct tensor *tensor)
{
    const struct nccl_group *own = group->self;
    return own->peer != NULL && tensor_present(tensor) && peer_copies_reach(own->peer, tensor);
}

/* Copies the other ranks' parts of this rank's row of `in` to `scratch`, and adds all. */
static void scatter_copies(struct nccl_group *own, struct stream *stream, const struct tensor *in,
                           const struct tensor *scratch, struct tensor sum)
{
    const struct cuda_target *target = &own->settings.targets[stream->id];
    peer_copies_exchange(own->peer, stream->id, target->stream, in, scratch, false);
    cuda_rank_sum(target, *scratch, own->group.rank, tensor_rows(in, own->group.rank, 1), sum);
}

static void reduce_copies(struct nccl_group *own, struct stream *stream, const struct all_reduce_args *args)
{
    const struct tensor x = tensor_matrix(args->x.data, args->x.dtype, own->group.size, args->scratch.cols);
    const struct tensor sum = tensor_rows(&x, own->group.rank, 1);
    scatter_copies(own, stream, &x, &args->scratch, sum);
    peer_copies_gather(own->peer, stream->id, own->settings.targets[stream->id].stream, &sum, &x);
}

/* As COLLECT, of a function that launches copies. */
#define COLLECT_COPIES(group, stream, name, call)                                                                      \
    do {                                                                                                               \
        begin((group)->self, (stream)->id, name);                                                                      \
        call;                                                                                                          \
        end((group)->self, (stream)->id);                                                                              \
    } while (0)

static void nccl_all_reduce(struct group *group, struct stream *stream, const struct all_reduce_args *args)
{
    const struct tensor *x = &args->x;
    if (reaches(group, &args->scratch) && reaches(group, x))
        COLLECT_COPIES(group, stream, "all_reduce", reduce_copies(group->self, stream, args));
    else
        COLLECT(group, stream, "all_reduce", ncclAllReduce, x->data, x->data, (size_t)tensor_count(x), type_of(x),
                args->maximum ? ncclMax : ncclSum);
}

static void nccl_reduce_scatter(struct group *group, struct stream *stream, const struct reduce_scatter_args *args)
{
    if (reaches(group, &args->scratch))
        COLLECT_COPIES(group, stream, "reduce_scatter",
                       scatter_copies(group->self, stream, &args->in, &args->scratch, args->out));
    else
        COLLECT(group, stream, "reduce_scatter", ncclReduceScatter, args->in.data, args->out.data,
                (size_t)args->out.cols, type_of(&args->in), ncclSum);
}

static void nccl_all_gather(struct group *group, struct stream *stream, const struct all_gather_args *args)
{
    const struct nccl_group *own = group->self;
    if (reaches(group, &args->out))
        COLLECT_COPIES(
            group, stream, "all_gather",
            peer_copies_gather(own->peer, stream->id, target_of(group, stream)->stream, &args->in, &args->out));
    else
        COLLECT(group, stream, "all_gather", gather_rows, &args->in, &args->out);
}

static void nccl_broadcast(struct group *group, struct stream *stream, const struct broadcast_args *args)
{
    COLLECT(group, stream, "broadcast", ncclBroadcast, args->x.data, args->x.data, (size_t)tensor_extent(&args->x),
            ncclInt8, args->root);
}

static void nccl_all_to_all(struct group *group, struct stream *stream, const struct all_to_all_args *args)
{
    const struct nccl_group *own = group->self;
    if (reaches(group, &args->out))
        COLLECT_COPIES(
            group, stream, "all_to_all",
            peer_copies_exchange(own->peer, stream->id, target_of(group, stream)->stream, &args->in, &args->out, true));
    else
        COLLECT(group, stream, "all_to_all", exchange_rows, &args->in, &args->out);
}

static ncclResult_t pass_on(const struct group *group, const struct shift_args *args, ncclComm_t nccl,
                            cudaStream_t stream)
{
    const size_t bytes = (size_t)tensor_extent(&args->in);
    const int next = (group->rank + 1) % group->size, before = (group->rank + group->size - 1) % group->size;
    CHECK_NCCL(ncclGroupStart());
    CHECK_NCCL(ncclSend(args->in.data, bytes, ncclInt8, next, nccl, stream));
    CHECK_NCCL(ncclRecv(args->out.data, bytes, ncclInt8, before, nccl, stream));
    return ncclGroupEnd();
}

static void nccl_shift(struct group *group, struct stream *stream, const struct shift_args *args)
{
    const struct nccl_group *own = group->self;
    if (reaches(group, &args->out))
        COLLECT_COPIES(
            group, stream, "shift",
            peer_copies_shift(own->peer, stream->id, target_of(group, stream)->stream, &args->in, &args->out));
    else
        COLLECT(group, stream, "shift", pass_on, group, args);
}

/* Returns the configuration of all communicators of a group. */
static ncclConfig_t config_of(const struct nccl_group *own)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    if (own->settings.most_ctas > 0)
        config.maxCTAs = own->settings.most_ctas;
#if NCCL_VERSION_CODE >= 22700
    config.commName = own->group.name;
#endif
    return config;
}

/* -- Communicators ------------------------------------------------------------------------------------------------ */

/* NCCL's ranks find each other through a rank that made an id, which accepts their connections one after another. Many
 * ranks have several ids, each for about this many of them (NCCL 2.23). */
enum { RANKS_OF_AN_ID = 128 };

static int id_count(int size)
{
#if NCCL_VERSION_CODE >= 22300
    return (size + RANKS_OF_AN_ID - 1) / RANKS_OF_AN_ID;
#else
    (void)size;
    return 1;
#endif
}

/* Returns the id that a rank makes, -1 for none: the first of each `count` nearly equal parts of the ranks makes one,
 * as NCCL's manual has it for ncclCommInitRankScalable. */
static int id_made_by(int rank, int size, int count)
{
    const int larger = size % count, part = size / count, end = larger * (part + 1); /* end of the larger parts */
    if (rank < end)
        return rank % (part + 1) == 0 ? rank / (part + 1) : -1;
    return (rank - end) % part == 0 ? larger + (rank - end) / part : -1;
}

/* Makes the ids, and sends all to all ranks: as sums of numbers that are zero on other ranks. Free them with
 * memory_free. Collective. */
static ncclUniqueId *share_ids(struct comm *comm, int count)
{
    _Static_assert(sizeof(ncclUniqueId) % sizeof(int64_t) == 0, "ids are summed as numbers");
    ncclUniqueId *ids = memory_allocate(count * (int64_t)sizeof *ids);
    const int own = id_made_by(comm->rank, comm->size, count);
    if (own >= 0)
        CHECK_NCCL(ncclGetUniqueId(&ids[own]));
    comm_reduce(comm, (int64_t *)ids, count * (int64_t)(sizeof *ids / sizeof(int64_t)), COMM_SUM);
    return ids;
}

/* Makes the group's communicator, by `count` ids. It is not split from another one: with shared resources (splitShare),
 * NCCL 2.18 to 2.30 runs the launches of both one after another, and without them NCCL makes it as any other, after a
 * ring of messages around all ranks of the first. */
static ncclComm_t open_communicator(struct nccl_group *own, ncclUniqueId *ids, int count)
{
    const int size = own->group.size;
    ncclConfig_t config = config_of(own);
    ncclComm_t made;
#if NCCL_VERSION_CODE >= 22300
    CHECK_NCCL(ncclCommInitRankScalable(&made, size, own->group.rank, count, ids, &config));
#else
    (void)count;
    CHECK_NCCL(ncclCommInitRankConfig(&made, size, ids[0], own->group.rank, &config));
#endif
    return made;
}

/* A lane is a communicator in which rank 0 sends and rank 1 receives. Launches of one communicator run one after
 * another on all streams; in a communicator of several ranks a message would wait for other messages, and stages for
 * each other. */
enum { LANE_SENDS, LANE_RECEIVES, LANE_RANKS };

static bool lane_sends(enum transfer_direction lane)
{
    return lane == SEND_TO_NEXT || lane == SEND_TO_PREVIOUS;
}

static void open_lanes(struct nccl_group *own)
{
    const int rank = own->group.rank, size = own->group.size;
    ncclUniqueId made[LANE_WAYS], *ids = memory_allocate(size * (int64_t)sizeof made);
    for (int way = 0; way < LANE_WAYS; way++)
        CHECK_NCCL(ncclGetUniqueId(&made[way]));
    comm_all_gather(own->comm, made, ids, sizeof made);
    ncclConfig_t config = config_of(own);
    for (int round = 0; round < LANE_ROUNDS; round++) {
        const enum transfer_direction lane = lane_in_round(rank, size, round);
        ncclComm_t open;
        if (lane == TRANSFER_DIRECTIONS)
            continue;
        CHECK_NCCL(ncclCommInitRankConfig(&open, LANE_RANKS, ids[lane_number(rank, size, lane)],
                                          lane_sends(lane) ? LANE_SENDS : LANE_RECEIVES, &config));
        __atomic_store_n(&own->lanes[lane], open, __ATOMIC_RELEASE); /* from here on the watchdog checks it */
    }
    memory_free(ids);
}

/* In the order of opening, since NCCL may wait for the other end. */
static void close_lanes(struct nccl_group *own)
{
    for (int round = 0; round < LANE_ROUNDS; round++) {
        const enum transfer_direction lane = lane_in_round(own->group.rank, own->group.size, round);
        if (lane != TRANSFER_DIRECTIONS && own->lanes[lane] != NULL)
            CHECK_NCCL(ncclCommDestroy(own->lanes[lane]));
    }
}

static ncclResult_t send_receive_lanes(const struct nccl_group *own, const struct send_receive_args *args,
                                       ncclComm_t nccl, cudaStream_t stream)
{
    (void)nccl;
    CHECK_NCCL(ncclGroupStart());
    for (int r = 0; r < TRANSFER_DIRECTIONS; r++) {
        const struct tensor *x = op_tensor(OP_SEND_RECEIVE, args, r);
        const size_t bytes = (size_t)tensor_extent(x);
        if (bytes > 0 && lane_sends((enum transfer_direction)r))
            CHECK_NCCL(ncclSend(x->data, bytes, ncclInt8, LANE_RECEIVES, own->lanes[r], stream));
        else if (bytes > 0)
            CHECK_NCCL(ncclRecv(x->data, bytes, ncclInt8, LANE_SENDS, own->lanes[r], stream));
    }
    return ncclGroupEnd();
}

static void nccl_send_receive(struct group *group, struct stream *stream, const struct send_receive_args *args)
{
    struct nccl_group *of = group->self;
    if (of->lanes[SEND_TO_NEXT] == NULL) {
        nccl_watchdog_enter(&of->watchdog, "the first send_receive");
        open_lanes(of);
        nccl_watchdog_leave(&of->watchdog);
    }
    COLLECT(group, stream, "send_receive", send_receive_lanes, of, args);
}

/* -- Creation ----------------------------------------------------------------------------------------------------- */

/* Memory of the group, which NCCL registers as windows. If all ranks are on one node with peer access, NCCL maps the
 * windows of all into each (NCCL 2.28's manual: window registration), and gathers, all-to-alls and sums into them are
 * copies (cuda/peer_copies.h). NCCL_WIN_ENABLE=0 in the environment disables it. */
#if NCCL_VERSION_CODE >= 22800

struct token_window {
    void *memory;
    ncclWindow_t handle; /* NULL: this rank or another one could not register */
    struct token_window *next;
};

/* Registers memory on all ranks, or on none. */
static ncclWindow_t open_window(struct nccl_group *own, void *memory, int64_t bytes)
{
    ncclWindow_t handle = NULL;
    nccl_watchdog_enter(&own->watchdog, "the registration of memory");
    ncclResult_t status = ncclCommWindowRegister(own->nccl, memory, (size_t)bytes, &handle, NCCL_WIN_COLL_SYMMETRIC);
    nccl_watchdog_leave(&own->watchdog);
    if (comm_max_i64(own->comm, status != ncclSuccess) == 0)
        return handle;
    if (status == ncclSuccess && handle != NULL)
        CHECK_NCCL(ncclCommWindowDeregister(own->nccl, handle));
    if (own->windows == NULL && own->group.rank == 0)
        log_info("# group \"%s\": NCCL does not register its memory (%s), so its transfers use SMs", own->group.name,
                 status == ncclSuccess ? "on another rank" : ncclGetErrorString(status));
    return NULL;
}

/* Allocates and registers zeroed memory. */
static struct token_window *make_window(struct nccl_group *own, int64_t bytes)
{
    struct token_window *window = memory_allocate(sizeof *window);
    cudaStream_t stream = own->settings.targets[STREAM_COMPUTE].stream;
    if (ncclMemAlloc(&window->memory, (size_t)bytes) != ncclSuccess)
        error_fatal("out of device memory: %.2f GiB asked for by group \"%s\"", (double)bytes / (1 << 30),
                    own->group.name);
    CUDA_CHECK(cudaMemsetAsync(window->memory, 0, (size_t)bytes, stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
    window->handle = open_window(own, window->memory, bytes);
    window->next = own->windows;
    own->windows = window;
    return window;
}

/* Returns whether all ranks reach the window on all ranks. */
static bool add_window(struct nccl_group *own, const struct token_window *window, int64_t bytes)
{
    const bool added =
        window->handle != NULL && peer_copies_add(own->peer, own->nccl, window->memory, bytes, window->handle);
    return comm_max_i64(own->comm, !added) == 0;
}

/* Makes the copies between the ranks' memories, with the first memory of the group. */
static void make_copies(struct nccl_group *own)
{
    const int64_t bytes = peer_copies_flags(own->group.size);
    const struct token_window *flags = make_window(own, bytes);
    own->flags = flags->memory;
    own->peer = peer_copies_create(own->group.rank, own->group.size);
    if (add_window(own, flags, bytes))
        return;
    peer_copies_destroy(own->peer);
    own->peer = NULL;
}

static void *nccl_allocate(struct group *group, int64_t bytes)
{
    struct nccl_group *own = group->self;
    if (own->flags == NULL)
        make_copies(own);
    const struct token_window *window = make_window(own, bytes);
    if (own->peer != NULL && !add_window(own, window, bytes))
        peer_copies_remove(own->peer, window->memory);
    return window->memory;
}

static void close_window(struct nccl_group *own, void *memory)
{
    struct token_window **at = &own->windows, *window;
    while (*at != NULL && (*at)->memory != memory)
        at = &(*at)->next;
    window = *at;
    if (window == NULL)
        error_fatal("bug: group \"%s\" has no memory at %p", own->group.name, memory);
    *at = window->next;
    if (window->handle != NULL)
        CHECK_NCCL(ncclCommWindowDeregister(own->nccl, window->handle));
    CHECK_NCCL(ncclMemFree(memory));
    memory_free(window);
}

static void nccl_release(struct group *group, void *memory)
{
    struct nccl_group *own = group->self;
    CUDA_CHECK(cudaDeviceSynchronize()); /* freeing does not wait for launches in flight */
    if (own->peer != NULL)
        peer_copies_remove(own->peer, memory);
    close_window(own, memory);
}

static void end_copies(struct nccl_group *own)
{
    if (own->peer != NULL)
        peer_copies_destroy(own->peer);
    if (own->flags != NULL)
        close_window(own, own->flags);
}

#else

#define nccl_allocate NULL
#define nccl_release NULL

static void end_copies(struct nccl_group *own)
{
    (void)own;
}

#endif

/* Runs collectives of several sizes: at the first of a size, NCCL connects the ranks and allocates memory. After that,
 * the free memory is what the run may use. */
static void nccl_connect(struct group *group)
{
    struct nccl_group *own = group->self;
    enum { COUNTS = 4, LARGEST = 16 << 20 };
    static const int64_t counts[COUNTS] = {4, 16 << 10, 1 << 20, LARGEST};
    struct executor *executor = own->settings.executor;
    struct stream stream = {executor, STREAM_REDUCE, NULL};
    const int size = own->group.size;
    float *numbers = executor->class->allocate(executor, (LARGEST + size) * (int64_t)sizeof *numbers, MEMORY_DEVICE);
    for (int i = 0; i < COUNTS; i++) {
        const struct tensor whole = tensor_matrix(numbers, DTYPE_F32, size, (counts[i] + size - 1) / size);
        const struct tensor part = tensor_rows(&whole, own->group.rank, 1);
        nccl_all_reduce(&own->group, &stream, &(struct all_reduce_args){.group = &own->group, .x = whole});
        nccl_reduce_scatter(&own->group, &stream,
                            &(struct reduce_scatter_args){.group = &own->group, .in = whole, .out = part});
        nccl_all_gather(&own->group, &stream, &(struct all_gather_args){&own->group, part, whole});
    }
    stream_synchronize(&stream);
    executor->class->release(executor, numbers, MEMORY_DEVICE);
}

static void nccl_destroy(struct group *group)
{
    struct nccl_group *own = group->self;
    struct executor *executor = own->settings.executor;
    nccl_watchdog_drain(&own->watchdog); /* the watchdog asks NCCL about collectives in flight */
    nccl_watchdog_enter(&own->watchdog, "the end");
    end_copies(own);
    close_lanes(own);
    CHECK_NCCL(ncclCommDestroy(own->nccl));
    nccl_watchdog_leave(&own->watchdog);
    nccl_watchdog_stop(&own->watchdog);
    executor->class->release(executor, own->watchdog.counters, MEMORY_DEVICE);
    executor->class->release(executor, own->watchdog.seen, MEMORY_HOST);
    memory_free(own);
}

static const struct group_class nccl_class = {.name = "nccl",
#define X(NAME, name) .name = nccl_##name,
                                              OP_COLLECTIVE_TABLE(X)
#undef X
                                                  .allocate = nccl_allocate,
                                              .connect = nccl_connect,
                                              .release = nccl_release,
                                              .destroy = nccl_destroy};

/* Fixes NCCL's algorithm. NCCL would choose by size and machine, and sum in different orders. Its configuration of
 * groups has no setting for this, so environment variables are set, unless the user has set them. */
static void pin_algorithm(void)
{
    setenv("NCCL_ALGO", "Ring", 0);
    setenv("NCCL_PROTO", "Simple", 0);
}

struct group *nccl_group_create(struct comm *comm, const char *name, const struct nccl_settings *settings)
{
    struct nccl_group *own = memory_allocate(sizeof *own);
    own->group =
        (struct group){.name = name, .rank = comm->rank, .size = comm->size, .class = &nccl_class, .self = own};
    own->comm = comm;
    own->settings = *settings;
    if (settings->deterministic)
        pin_algorithm();
    const int ids_made = id_count(comm->size);
    ncclUniqueId *ids = share_ids(comm, ids_made);
    struct executor *executor = settings->executor;
    const int64_t bytes = STREAM_COUNT * (int64_t)sizeof(uint64_t[WATCHDOG_PLACES]);
    struct nccl_watchdog *w = &own->watchdog;
    w->group = &own->group;
    w->comm = comm;
    w->timeout = settings->timeout;
    w->check = check_asynchronous;
    w->self = own;
    w->counters = executor->class->allocate(executor, bytes, MEMORY_DEVICE);
    w->seen = executor->class->allocate(executor, bytes, MEMORY_HOST);
    nccl_watchdog_start(w);
    nccl_watchdog_enter(w, "the beginning");
    own->nccl = open_communicator(own, ids, ids_made);
    nccl_watchdog_leave(w);
    memory_free(ids);
    return &own->group;
}

bool nccl_group_prepare(bool loud)
{
    const char *nvls = getenv("NCCL_NVLS_ENABLE"), *windows = getenv("NCCL_WIN_ENABLE");
    const struct nccl_use use = nccl_use_of(nccl_group_version(), nvls, windows);
    if (use.disable_nvls && setenv("NCCL_NVLS_ENABLE", "0", 0) == 0 && loud)
        log_info("# NCCL_NVLS_ENABLE=0: with NVLS this version of NCCL can hang when two ranks gather by copy engines "
                 "(NCCL 2.31.2 does not)");
    return use.copies && NCCL_VERSION_CODE >= NCCL_COPIES;
}

int nccl_group_version(void)
{
    int version = 0;
    CHECK_NCCL(ncclGetVersion(&version));
    return version;
}
