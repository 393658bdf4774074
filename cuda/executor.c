#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/waiting.h"
#include "comm/comm.h"
#include "comm/copying_group.h"
#include "cuda/attention.h"
#include "cuda/tuned_kernels.h"
#include "cuda/cuda.h"
#include "cuda/kernel.h"
#include "cuda/nccl_group.h"
#include "cuda/nccl_watchdog.h"

#include <cublasLt.h>
#include <cuda_profiler_api.h>
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A CUDA event made for a struct event. The executor owns and destroys all of them. */
struct native_event {
    cudaEvent_t event;
    struct native_event *next;
};

/* Scratch that was replaced by larger scratch; CUDA graphs may still use it. */
struct outgrown {
    void *memory;
    struct outgrown *next;
};

/* An instantiated CUDA graph, and functions to call before each launch of it. */
struct recording {
    cudaGraphExec_t graph;
    struct notice {
        nccl_launched *launched;
        void *self;
        const char *name;
    } * notices;
    int64_t count;
};

/* The number of streams with collectives. A kernel of NCCL may wait for one that only another rank has started. On
 * several nodes the kernels of all these streams must therefore fit on the GPU at once: each uses at most an equal part
 * of the SMs. (NCCL_LAUNCH_ORDER_IMPLICIT would order the launches instead, but with it NCCL 2.28 fails to capture
 * all-to-alls by copy engines.) */
enum { COLLECTIVE_STREAMS = 5 };

struct cuda {
    struct executor executor; /* first member, so that a pointer to it can be cast */
    struct cuda_target targets[STREAM_COUNT];
    struct cuda_kept kept; /* of STREAM_COMPUTE */
    double timeout;
    int most_ctas;  /* limit of thread blocks per collective; 0: NCCL's default */
    int sharing;    /* number of ranks that use this GPU */
    int capability; /* compute capability of the GPU, 90 for 9.0 */
    struct placement_id id;
    struct native_event *events;
    struct event reached; /* for synchronize */
    struct outgrown *outgrown;
    int64_t recordings;          /* number of recordings that have not been discarded */
    struct recording *recording; /* the recording in progress; NULL: none */
    cudaEvent_t *stamps;         /* [stamp_count] */
    int64_t stamp_count;
};

/* -- Devices ----------------------------------------------------------------------------------------------------- */

int cuda_device_count(void)
{
    int count = 0;
    return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

struct placement_id cuda_device_id(int device)
{
    struct cudaDeviceProp properties;
    struct placement_id id;
    CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
    memcpy(id.bytes, properties.uuid.bytes, sizeof id.bytes);
    return id;
}

const char *cuda_versions(void)
{
    static char text[96];
    int runtime = 0;
    cudaRuntimeGetVersion(&runtime);
    snprintf(text, sizeof text, "CUDA %d.%d", runtime / 1000, runtime % 1000 / 10);
#ifdef CISTRON_NCCL
    size_t used = strlen(text);
    int nccl = nccl_group_version();
    snprintf(text + used, sizeof text - used, ", NCCL %d.%d.%d", nccl / 10000, nccl % 10000 / 100, nccl % 100);
#endif
    return text;
}

static int64_t unused_bytes(void)
{
    size_t unused = 0, total = 0;
    CUDA_CHECK(cudaMemGetInfo(&unused, &total));
    return (int64_t)unused;
}

static int64_t available(struct executor *executor)
{
    return unused_bytes() / ((struct cuda *)executor)->sharing;
}

/* Reserves memory for kernels, which are loaded at their first launch, for CUDA graphs, and for the driver's allocation
 * granularity of 2 MiB. */
static int64_t margin(struct executor *executor)
{
    (void)executor;
    return (int64_t)768 << 20;
}

static int64_t occupied(struct executor *executor)
{
    (void)executor;
    size_t unused = 0, total = 0;
    CUDA_CHECK(cudaMemGetInfo(&unused, &total));
    return (int64_t)(total - unused);
}

static const unsigned char *identity(struct executor *executor)
{
    return ((struct cuda *)executor)->id.bytes;
}

#ifdef CISTRON_NCCL
static double waited(struct executor *executor)
{
    (void)executor;
    return nccl_watchdog_seconds();
}
#else
#define waited NULL
#endif

/* -- Launches ---------------------------------------------------------------------------------------------------- */

static int64_t scratch_of(const struct cuda_target *target, enum op op, const void *args)
{
    switch (op) {
#define X(NAME, name)                                                                                                  \
    case OP_##NAME:                                                                                                    \
        return cuda_##name##_workspace(target, args);
        CUDA_WORKSPACE_TABLE(X)
#undef X
    default:
        return 0;
    }
}

/* Called before the op is launched, so it also does work that would take too long at launch. */
static int64_t workspace(struct executor *executor, enum op op, const void *args)
{
    const struct cuda_target *target = &((struct cuda *)executor)->targets[STREAM_COMPUTE];
    if (op == OP_ATTENTION_BACKWARD)
        cuda_attention_backward_plan(target, args);
    return scratch_of(target, op, args);
}

static void run(struct executor *executor, struct stream *stream, enum op op, const void *args)
{
    struct cuda_target *target = &((struct cuda *)executor)->targets[stream->id];
    int64_t scratch = scratch_of(target, op, args);
    target->tuning_pass = executor->tuning_pass;
    target->share = executor->share;
    if (scratch > executor->workspace_bytes[stream->id])
        error_fatal("cuda executor: %s needs %lld bytes of workspace, %lld are reserved on stream %d",
                    op_info(op)->name, (long long)scratch, (long long)executor->workspace_bytes[stream->id],
                    stream->id);
    switch (op) {
#define X(NAME, name)                                                                                                  \
    case OP_##NAME:                                                                                                    \
        cuda_##name(target, args);                                                                                     \
        return;
        OP_DEVICE_TABLE(X)
#undef X
    default:
        launch_collective(stream, op, args);
    }
}

/* Copies between any of device and host memory; the driver recognises which. With pageable memory as the source, the
 * call returns once the source may be overwritten. */
static void copy_bytes(const struct cuda_target *target, const void *from, void *to, size_t bytes)
{
    CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, target->stream));
}

void cuda_copy(const struct cuda_target *target, const struct copy_args *args)
{
    const struct tensor *from = &args->from, *to = &args->to;
    const size_t longest = INT32_MAX; /* the largest stride in bytes that the driver supports (cudaDevAttrMaxPitch) */
    size_t element = (size_t)dtype_size(from->dtype), width = (size_t)from->cols * element;
    size_t from_pitch = (size_t)from->stride * element, to_pitch = (size_t)to->stride * element;
    if (tensor_count(from) == 0)
        return;
    if (tensor_contiguous(from) && tensor_contiguous(to))
        copy_bytes(target, from->data, to->data, width * (size_t)from->rows);
    else if (from_pitch <= longest && to_pitch <= longest)
        CUDA_CHECK(cudaMemcpy2DAsync(to->data, to_pitch, from->data, from_pitch, width, (size_t)from->rows,
                                     cudaMemcpyDefault, target->stream));
    else /* few very long rows */
        for (int64_t row = 0; row < from->rows; row++)
            copy_bytes(target, tensor_at(from, row, 0), tensor_at(to, row, 0), width);
}

/* -- Memory ------------------------------------------------------------------------------------------------------ */

static void *allocate(struct executor *executor, int64_t bytes, enum memory_kind kind)
{
    void *memory = NULL;
    if (bytes <= 0)
        return NULL;
    if (kind == MEMORY_HOST) {
        CUDA_CHECK(cudaHostAlloc(&memory, (size_t)bytes, cudaHostAllocDefault));
        memset(memory, 0, (size_t)bytes);
        return memory;
    }
    cudaError_t status = cudaMalloc(&memory, (size_t)bytes);
    if (status == cudaErrorMemoryAllocation)
        error_fatal("out of device memory: %.2f GiB requested, %.2f GiB free", (double)bytes / (1 << 30),
                    (double)unused_bytes() / (1 << 30));
    cuda_check(status, "cudaMalloc");
    /* Our streams do not wait for the default stream, so synchronise: then all of them find zeros. */
    cudaStream_t stream = ((struct cuda *)executor)->targets[STREAM_COMPUTE].stream;
    CUDA_CHECK(cudaMemsetAsync(memory, 0, (size_t)bytes, stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
    return memory;
}

static void release(struct executor *executor, void *memory, enum memory_kind kind)
{
    (void)executor;
    if (memory != NULL && kind == MEMORY_HOST)
        CUDA_CHECK(cudaFreeHost(memory));
    else if (memory != NULL)
        CUDA_CHECK(cudaFree(memory));
}

/* Each stream has its own scratch, since streams run concurrently. CUDA graphs contain its address, so old scratch is
 * kept while there are any. */
static void reserve(struct executor *executor, int stream, int64_t bytes)
{
    struct cuda *cuda = (struct cuda *)executor;
    struct cuda_target *target = &cuda->targets[stream];
    if (bytes <= executor->workspace_bytes[stream])
        return;
    if (target->workspace != NULL && cuda->recordings > 0) {
        struct outgrown *kept = memory_allocate(sizeof *kept);
        *kept = (struct outgrown){target->workspace, cuda->outgrown};
        cuda->outgrown = kept;
    } else {
        release(executor, target->workspace, MEMORY_DEVICE);
    }
    target->workspace = allocate(executor, bytes, MEMORY_DEVICE);
    executor->workspace_bytes[stream] = bytes;
}

static void release_outgrown(struct cuda *cuda)
{
    while (cuda->outgrown != NULL) {
        struct outgrown *first = cuda->outgrown;
        cuda->outgrown = first->next;
        release(&cuda->executor, first->memory, MEMORY_DEVICE);
        memory_free(first);
    }
}

/* -- Order ------------------------------------------------------------------------------------------------------- */

static void record(struct executor *executor, struct event *event, struct stream *stream)
{
    struct cuda *cuda = (struct cuda *)executor;
    if (event->native == NULL) {
        struct native_event *own = memory_allocate(sizeof *own);
        CUDA_CHECK(cudaEventCreateWithFlags(&own->event, cudaEventDisableTiming));
        own->next = cuda->events;
        cuda->events = own;
        event->native = own->event;
    }
    CUDA_CHECK(cudaEventRecord(event->native, cuda->targets[stream->id].stream));
}

static void wait_for(struct executor *executor, struct event *event, struct stream *stream)
{
    CUDA_CHECK(cudaStreamWaitEvent(((struct cuda *)executor)->targets[stream->id].stream, event->native, 0));
}

static bool event_is_past(struct executor *executor, struct event *event, bool wait)
{
    (void)executor;
    struct rank_waiting waiting = {0};
    if (wait && !comm_attends())
        CUDA_CHECK(cudaEventSynchronize(event->native));
    cudaError_t status = cudaEventQuery(event->native);
    while (wait && status == cudaErrorNotReady) {
        comm_attend(waiting_turn(&waiting));
        status = cudaEventQuery(event->native);
    }
    if (status != cudaErrorNotReady)
        cuda_check(status, "cudaEventQuery");
    return status == cudaSuccess;
}

/* Uses an event, because a rank answers other ranks while it waits for one. */
static void synchronize(struct executor *executor, struct stream *stream)
{
    struct cuda *cuda = (struct cuda *)executor;
    record(executor, &cuda->reached, stream);
    event_is_past(executor, &cuda->reached, true);
}

/* -- Recordings: CUDA graphs -------------------------------------------------------------------------------------- */

static void capture_begin(struct executor *executor, struct stream *stream)
{
    struct cuda *cuda = (struct cuda *)executor;
    cuda->recording = memory_allocate(sizeof *cuda->recording);
    CUDA_CHECK(cudaStreamBeginCapture(cuda->targets[stream->id].stream, cudaStreamCaptureModeThreadLocal));
}

#ifdef CISTRON_NCCL
static bool at_replay(struct executor *executor, nccl_launched *launched, void *self, const char *name)
{
    struct recording *recording = ((struct cuda *)executor)->recording;
    if (recording == NULL)
        return false;
    const int64_t bytes = (recording->count + 1) * (int64_t)sizeof *recording->notices;
    recording->notices = memory_grow(recording->notices, bytes);
    recording->notices[recording->count++] = (struct notice){launched, self, name};
    return true;
}
#endif

static void *capture_end(struct executor *executor, struct stream *stream)
{
    struct cuda *cuda = (struct cuda *)executor;
    struct recording *recording = cuda->recording;
    cudaGraph_t graph;
    CUDA_CHECK(cudaStreamEndCapture(cuda->targets[stream->id].stream, &graph));
    CUDA_CHECK(cudaGraphInstantiate(&recording->graph, graph, 0));
    CUDA_CHECK(cudaGraphDestroy(graph));
    cuda->recordings++;
    cuda->recording = NULL;
    return recording;
}

static void replay(struct executor *executor, struct stream *stream, void *self)
{
    const struct recording *recording = self;
    for (int64_t i = 0; i < recording->count; i++)
        recording->notices[i].launched(recording->notices[i].self, recording->notices[i].name);
    CUDA_CHECK(cudaGraphLaunch(recording->graph, ((struct cuda *)executor)->targets[stream->id].stream));
}

static void discard(struct executor *executor, void *self)
{
    struct cuda *cuda = (struct cuda *)executor;
    struct recording *recording = self;
    CUDA_CHECK(cudaGraphExecDestroy(recording->graph)); /* a graph in flight is destroyed after it has run */
    free(recording->notices);
    memory_free(recording);
    if (--cuda->recordings == 0)
        release_outgrown(cuda);
}

/* -- For profilers (NVTX) --------------------------------------------------------------------------------------- */

static void stamp(struct executor *executor, struct stream *stream, int64_t number)
{
    struct cuda *cuda = (struct cuda *)executor;
    if (number >= cuda->stamp_count) {
        int64_t count = 2 * number + 1024;
        cuda->stamps = memory_grow(cuda->stamps, (int64_t)sizeof *cuda->stamps * count);
        for (int64_t i = cuda->stamp_count; i < count; i++)
            CUDA_CHECK(cudaEventCreate(&cuda->stamps[i]));
        cuda->stamp_count = count;
    }
    CUDA_CHECK(cudaEventRecord(cuda->stamps[number], cuda->targets[stream->id].stream));
}

static double stamp_seconds(struct executor *executor, int64_t from, int64_t to)
{
    const struct cuda *cuda = (struct cuda *)executor;
    float milliseconds = 0;
    CUDA_CHECK(cudaEventElapsedTime(&milliseconds, cuda->stamps[from], cuda->stamps[to]));
    return 1e-3 * milliseconds;
}

static void watch(struct executor *executor, bool begin)
{
    (void)executor;
    CUDA_CHECK(begin ? cudaProfilerStart() : cudaProfilerStop());
}

static void range(struct executor *executor, const char *name)
{
    (void)executor;
    if (name != NULL)
        nvtxRangePushA(name);
    else
        nvtxRangePop();
}

/* -- Tuned kernels ------------------------------------------------------------------------------------------------ */

static const void *tuned_table(struct executor *executor, int64_t *bytes)
{
    (void)executor;
    return tuned_kernels_table(bytes);
}

static bool reconsider(bool changed)
{
    if (changed) {
        cuda_gemm_reconsider();
        cuda_attention_reconsider();
    }
    return changed;
}

static bool load_tuned(struct executor *executor, const void *from, int64_t bytes)
{
    (void)executor;
    return reconsider(tuned_kernels_load(from, bytes));
}

static bool add_tuned(struct executor *executor, const void *from, int64_t bytes)
{
    (void)executor;
    return reconsider(tuned_kernels_add(from, bytes));
}

/* -- Creation ----------------------------------------------------------------------------------------------------- */

static void destroy(struct executor *executor)
{
    struct cuda *cuda = (struct cuda *)executor;
    while (cuda->events != NULL) {
        struct native_event *first = cuda->events;
        cuda->events = first->next;
        CUDA_CHECK(cudaEventDestroy(first->event));
        memory_free(first);
    }
    for (int64_t i = 0; i < cuda->stamp_count; i++)
        CUDA_CHECK(cudaEventDestroy(cuda->stamps[i]));
    free(cuda->stamps);
    cublasLtDestroy(cuda->targets[STREAM_COMPUTE].blas);
    release_outgrown(cuda);
    release(executor, cuda->kept.at, MEMORY_DEVICE);
    for (int i = 0; i < STREAM_COUNT; i++) {
        release(executor, cuda->targets[i].workspace, MEMORY_DEVICE);
        release(executor, cuda->targets[i].counters, MEMORY_DEVICE);
        CUDA_CHECK(cudaStreamDestroy(cuda->targets[i].stream));
    }
    memory_free(cuda);
}

#ifdef CISTRON_NCCL
/* Returns whether ranks of comm share a GPU. Collective. */
static bool shares(const struct cuda *cuda, struct comm *comm)
{
    struct placement_id *ids = memory_allocate((int64_t)sizeof *ids * comm->size);
    comm_all_gather(comm, &cuda->id, ids, sizeof cuda->id);
    bool repeats = placement_repeats(ids, comm->size);
    memory_free(ids);
    return repeats;
}

static struct group *make_nccl_group(struct cuda *cuda, struct comm *comm, const char *name)
{
    struct nccl_settings settings = {.executor = &cuda->executor,
                                     .targets = cuda->targets,
                                     .at_replay = at_replay,
                                     .timeout = cuda->timeout,
                                     .most_ctas = cuda->most_ctas,
                                     .deterministic = cuda->targets[STREAM_COMPUTE].deterministic};
    return nccl_group_create(comm, name, &settings);
}
#endif

/* Uses NCCL, unless ranks share a GPU, which NCCL rejects. */
static struct group *make_group(struct executor *executor, struct comm *comm, const char *name)
{
    if (comm->size == 1) /* nothing to communicate */
        return comm_group_create(comm, NULL, name);
#ifdef CISTRON_NCCL
    struct cuda *cuda = (struct cuda *)executor;
    if (!shares(cuda, comm))
        return make_nccl_group(cuda, comm, name);
#endif
    if (comm->rank == 0)
        log_info("# group \"%s\": its ranks share a GPU, so collectives run in host memory, which is slow", name);
    return copying_group_create(comm, executor, name);
}

/* Row and block scales: cuBLASLt's manual lists them only for compute capability 9.0. Operands of emulated formats are
 * bf16. */
static const char *lacks_products(const struct executor *executor, enum scaling scaling)
{
    const int capability = ((const struct cuda *)executor)->capability;
    if (scaling >= SCALING_1X32)
        return NULL;
    if (scaling == SCALING_TENSOR)
        return capability >= 89 ? NULL : "a GPU of compute capability 8.9 or newer";
    return capability == 90 && cublasLtGetVersion() >= 120900
               ? NULL
               : "a GPU of compute capability 9.0 and CUDA 12.9 or newer";
}

struct executor *cuda_executor_create(int device, int sharing, const struct device_request *request)
{
    static const struct executor_class class = {
        .name = "cuda",
        .launch = run,
        .allocate = allocate,
        .release = release,
        .event_record = record,
        .event_wait = wait_for,
        .event_passed = event_is_past,
        .synchronize = synchronize,
        .workspace = workspace,
        .reserve = reserve,
        .lacks_products = lacks_products,
        .destroy = destroy,
        .widest_head = CUDA_WIDEST_HEAD,
    };
    static const struct executor_device device_table = {
        .available = available, .margin = margin, .occupied = occupied, .identity = identity};
    static const struct executor_groups groups = {.make = make_group, .waited = waited};
    static const struct executor_capture capture = {
        .begin = capture_begin, .end = capture_end, .replay = replay, .discard = discard};
    static const struct executor_profiling profiling = {
        .stamp = stamp, .stamp_seconds = stamp_seconds, .watch = watch, .range = range};
    static const struct executor_tuning tuning = {.table = tuned_table, .load = load_tuned, .add = add_tuned};
    struct cuda *cuda = memory_allocate(sizeof *cuda);
    struct cudaDeviceProp properties;
    CUDA_CHECK(cudaSetDevice(device));
    CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
    cuda->executor = (struct executor){.class = &class,
                                       .owner = &cuda->executor,
                                       .device = &device_table,
                                       .groups = &groups,
                                       .capture = &capture,
                                       .profiling = &profiling,
                                       .tuning = &tuning};
    cuda->timeout = request->timeout;
    cuda->sharing = sharing;
    cuda->capability = 10 * properties.major + properties.minor;
    cuda->id = cuda_device_id(device);
#ifdef CISTRON_NCCL
    if (request->world != NULL && request->world->size > 1) {
        const bool several_nodes = comm_max_i64(request->world, request->node->size < request->world->size) > 0;
        const bool copies = nccl_group_prepare(request->world->rank == 0 && !request->quiet);
        cuda->most_ctas = several_nodes ? properties.multiProcessorCount / COLLECTIVE_STREAMS : 0;
        /* Equal on all ranks, since it determines the layout of buffers. Ranks that share a device sum on the host. */
        cuda->executor.copies = comm_max_i64(request->world, sharing > 1 || !copies) == 0;
    }
#endif
    int lowest, highest;
    CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
    cublasLtHandle_t blas;
    if (cublasLtCreate(&blas) != CUBLAS_STATUS_SUCCESS)
        error_fatal("cuBLASLt: cannot be initialised on device %d", device);
    for (int i = 0; i < STREAM_COUNT; i++) {
        struct cuda_target *target = &cuda->targets[i];
        /* Transfers have few blocks; they go first when blocks compete for SMs. */
        int priority = i == STREAM_COMPUTE ? lowest : highest;
        CUDA_CHECK(cudaStreamCreateWithPriority(&target->stream, cudaStreamNonBlocking, priority));
        target->multiprocessors = properties.multiProcessorCount;
        target->deterministic = request->deterministic;
        target->alone = request->world == NULL || request->world->size == 1;
        target->blas = blas;
    }
    for (int i = 0; i < STREAM_COUNT; i++)
        cuda->targets[i].counters = allocate(&cuda->executor, CUDA_COUNTERS * (int64_t)sizeof(int), MEMORY_DEVICE);
    cuda->kept.at = allocate(&cuda->executor, CUDA_KEPT, MEMORY_DEVICE);
    cuda->targets[STREAM_COMPUTE].kept = &cuda->kept;
    return &cuda->executor;
}
