/* Key header: an executor runs ops: on the CPU (cpu/), on a GPU (cuda/), on fake addresses to plan memory
 * (plan/plan.h), or by passing launches on to another executor (a wrapper, such as plan/record.h). Ops are launched
 * through core/launch.h. Failures are fatal (base/error.h), unless a function says otherwise. */
#ifndef CORE_EXECUTOR_H
#define CORE_EXECUTOR_H

#include "core/tuned_kernels.h"
#include "core/group.h"
#include "core/op.h"

struct comm;

enum memory_kind { MEMORY_DEVICE, MEMORY_HOST };

/* The streams of an executor. Units run on STREAM_COMPUTE; the others carry transfers concurrently with it. */
enum {
    STREAM_COMPUTE,
    STREAM_REDUCE,   /* sums of gradients over ranks */
    STREAM_GATHER,   /* gathers of weights */
    STREAM_EXCHANGE, /* transfers between ranks by a unit's ops */
    STREAM_OFFLOAD,  /* offloaded activations, both ways; snapshots */
    STREAM_SEND,     /* pipeline sends; receives run on STREAM_COMPUTE */
    STREAM_COUNT
};

/* The state that all executors have, and the function tables that they offer beyond executor_class, each complete or
 * NULL. A caller passes `owner` as the executor of these functions. `owner` is the executor itself; in a wrapper it is
 * the owner of the target's tables. A wrapper starts as a copy of its target's struct executor, which passes all tables
 * on; then it sets its class, and sets NULL for tables whose use would bypass the wrapper. Its class forwards the
 * mandatory functions; `tuning_pass` and `share` are set on the target. A wrapper with a table of its own is the owner
 * of all its tables. */
struct executor {
    const struct executor_class *class;
    struct executor *owner;                     /* not read where all tables are NULL */
    const struct executor_device *device;       /* NULL: the memory is the host's */
    const struct executor_groups *groups;       /* NULL: collectives run in host memory (comm/comm.h) */
    const struct executor_capture *capture;     /* NULL: launches cannot be captured */
    const struct executor_profiling *profiling; /* NULL: the host's clock times launches, and there is no profiler */
    const struct executor_tuning *tuning;       /* NULL: each result has one kernel */
    int64_t workspace_bytes[STREAM_COUNT];      /* bytes that reserve() has provided */
    /* Set by the executor's user. tuning_pass: a tuning pass, whose results are discarded, so the executor may time
     * kernels. share: the keys that this rank times. */
    bool tuning_pass;
    struct tuning_share share;
    /* On one node, the executor's groups move memory that they allocated without slowing kernels down, so sums can use
     * copies (`scratch` of collectives in core/op.h). */
    bool copies;
    /* Set by the executor's user: the ranks of the world are on nodes in blocks of this size (comm_node_block). 0: all
     * ranks are on one node. */
    int node_block;
};

/* A queue of launches, by which a caller names one of an executor's streams. The caller fills it. */
struct stream {
    struct executor *executor;
    int id; /* STREAM_COMPUTE, ... */
    void *native;
};

/* A point in a stream. `serial` counts the records of this event, so that the planner can tell them apart. The executor
 * owns `native` and frees it when it is destroyed. */
struct event {
    void *native;
    uint64_t serial;
};

/* Numbers of stamps (executor_profiling): the engine uses numbers from 0, a profile numbers from STAMP_PROFILE. */
enum { STAMP_PROFILE = 16 };

/* The functions that every executor has. Launches on one stream run in order; launches on different streams are ordered
 * by events alone. */
struct executor_class {
    const char *name;
    /* Runs an op. args: the op's struct *_args, which is copied if it outlives the call. */
    void (*launch)(struct executor *executor, struct stream *stream, enum op op, const void *args);
    /* Returns `bytes` of memory, which every stream finds zero. MEMORY_DEVICE is aligned to 256 bytes and
     * allocated at start-up only. MEMORY_HOST is aligned to 64 bytes, and pinned where there is a device, so that the
     * host need not wait for copies. Free it with release and the same kind. */
    void *(*allocate)(struct executor *executor, int64_t bytes, enum memory_kind kind);
    /* memory: may be NULL. */
    void (*release)(struct executor *executor, void *memory, enum memory_kind kind);
    void (*event_record)(struct executor *executor, struct event *event, struct stream *stream);
    /* Later launches on the stream wait for the event's last record. The host does not wait. */
    void (*event_wait)(struct executor *executor, struct event *event, struct stream *stream);
    /* Returns whether the stream has passed the event's last record. wait: the host waits until it has. The function is
     * NULL where launches are synchronous, so that every event has passed. */
    bool (*event_passed)(struct executor *executor, struct event *event, bool wait);
    /* The host waits until all launches on the stream have run. */
    void (*synchronize)(struct executor *executor, struct stream *stream);
    /* Returns the scratch bytes that an op needs in addition to its arguments; 0 for most. Addresses in args are not
     * read. */
    int64_t (*workspace)(struct executor *executor, enum op op, const void *args);
    /* Provides scratch of `bytes` for the ops of a stream. Scratch only grows, and scratch that captured launches use
     * stays where it is. A launch that needs more than was reserved is fatal. */
    void (*reserve)(struct executor *executor, int stream, int64_t bytes);
    /* Returns what the device lacks for matrix products of quantized operands with this scaling (core/quantization.h),
     * as text to follow "needs"; NULL: nothing. The function is NULL where all such products are emulated. */
    const char *(*lacks_products)(const struct executor *executor, enum scaling scaling);
    void (*destroy)(struct executor *executor);
    bool dry;            /* runs nothing, and its memory cannot be touched: the caller need not prepare data for it */
    int64_t widest_head; /* the largest head_dim of attention; 0: any */
};

/* A device with memory of its own. */
struct executor_device {
    /* Returns the bytes that this rank may still allocate: its part where ranks share the device. */
    int64_t (*available)(struct executor *executor);
    /* Returns how many of the available bytes must stay free, because the driver will use them. */
    int64_t (*margin)(struct executor *executor);
    /* Returns the bytes in use on the device, by all programs. */
    int64_t (*occupied)(struct executor *executor);
    /* Returns the device's UUID, 16 bytes, the same in every process that uses the device; borrowed. */
    const unsigned char *(*identity)(struct executor *executor);
};

/* Collectives on device memory. */
struct executor_groups {
    /* Makes a group over the ranks of comm, which it borrows. Collective over comm. Free it with the group's class. */
    struct group *(*make)(struct executor *executor, struct comm *comm, const char *name);
    /* Returns the seconds that the device has been in collectives so far, waiting for other ranks or not. The number is
     * sampled, and good for intervals of ten seconds and more. NULL: the host does the waiting (comm_seconds). */
    double (*waited)(struct executor *executor);
};

/* Capture of launches (CUDA graphs). */
struct executor_capture {
    /* Starts a capture: until `end`, launches on the stream, and on streams that events fork from it and later join to
     * it, are captured instead of run. */
    void (*begin)(struct executor *executor, struct stream *stream);
    /* Ends the capture and returns the captured graph; free it with discard. */
    void *(*end)(struct executor *executor, struct stream *stream);
    /* Runs the graph's launches on a stream, any number of times, with the current contents of their addresses. */
    void (*replay)(struct executor *executor, struct stream *stream, void *recording);
    void (*discard)(struct executor *executor, void *recording);
};

/* Times on a stream (core/profile.h, engine_seconds), and ranges for profilers (NVTX). */
struct executor_profiling {
    /* Stores the time at which the stream reaches this point as stamp `number`, and replaces an earlier one of this
     * number. */
    void (*stamp)(struct executor *executor, struct stream *stream, int64_t number);
    /* Returns the seconds from one stamp to another. The stream has passed both. */
    double (*stamp_seconds)(struct executor *executor, int64_t from, int64_t to);
    /* Starts (begin) or stops the collection of an attached profiler. */
    void (*watch)(struct executor *executor, bool begin);
    /* Begins a range `name` of launches, which may be nested. NULL: ends the innermost range. */
    void (*range)(struct executor *executor, const char *name);
};

/* Tuned kernels: which of several kernels for the same result the executor uses. Tables are the bytes of
 * core/tuned_kernels.h. */
struct executor_tuning {
    /* Returns the tuned kernels of the launches so far, borrowed until the executor chooses again. */
    const void *(*table)(struct executor *executor, int64_t *bytes);
    /* Replaces all entries, so that results are those of the executor that made `from`. Returns false, and changes
     * nothing, if that was another kind of device or library. */
    bool (*load)(struct executor *executor, const void *from, int64_t bytes);
    /* Adds entries, and replaces those with the same key. Returns as load does. */
    bool (*add)(struct executor *executor, const void *from, int64_t bytes);
};

#endif
