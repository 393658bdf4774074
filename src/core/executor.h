/* An executor: what ops run on, with its streams and events. Whoever uses one goes through core/launch.h. */
#ifndef CORE_EXECUTOR_H
#define CORE_EXECUTOR_H

#include "core/choice.h"
#include "core/group.h"
#include "core/op.h"

struct comm;

enum memory_kind { MEMORY_DEVICE, MEMORY_HOST };

/* Units run on the first. The others are for transfers beside it: gradients that are summed, weights that are gathered,
 * what a unit's ops exchange with other ranks, what units keep in host memory, and what a stage sends to others. */
enum { STREAM_COMPUTE, STREAM_REDUCE, STREAM_GATHER, STREAM_EXCHANGE, STREAM_OFFLOAD, STREAM_RELAY, STREAM_COUNT };

struct executor {
    const struct executor_class *class;
    int64_t workspace_bytes[STREAM_COUNT]; /* what reserve() last provided */
    /* Set by the executor's user. rehearsal: results will be discarded, so the executor may time kernels and choose.
     * share: the keys that it times itself. */
    bool rehearsal;
    struct choice_share share;
    /* On one node, its groups move memory that they allocated without taking SMs, so that sums may be made of copies
     * (`room` of collectives). */
    bool copies;
    /* Set by the executor's user: the ranks of the world are on nodes in blocks of this size (comm_node_block). 0: all
     * are on one node. */
    int node_block;
};

struct stream {
    struct executor *executor;
    int id; /* STREAM_COMPUTE, ... */
    void *native;
};

/* A point in a stream. `serial` counts records of this event, so that the planner can tell them apart. */
struct event {
    void *native;
    uint64_t serial;
};

/* Numbers of stamps: the engine has those from 0, a profile those from STAMP_PROFILE. */
enum { STAMP_PROFILE = 16 };

/* An executor: cpu, cuda, plan, record, or one that wraps another. Launches on one stream run in order; launches on
 * different streams are ordered by events alone. Arguments are copied if they outlive the call. */
struct executor_class {
    const char *name;
    void (*launch)(struct executor *executor, struct stream *stream, enum op op, const void *args);
    /* Memory aligned to 256 bytes on the device (64 on the host). Every stream finds it zero. Device memory is
     * allocated at start-up only. Host memory is pinned where there is a device, so that copies need not wait for the
     * host. */
    void *(*allocate)(struct executor *executor, int64_t bytes, enum memory_kind kind);
    void (*release)(struct executor *executor, void *memory, enum memory_kind kind);
    void (*event_record)(struct executor *executor, struct event *event, struct stream *stream);
    void (*event_wait)(struct executor *executor, struct event *event, struct stream *stream);
    /* Has the stream passed the event's last record? With `wait`, the host waits until it has. NULL: it always has. */
    bool (*event_passed)(struct executor *executor, struct event *event, bool wait);
    /* The host waits until all that was launched on the stream has run. */
    void (*synchronize)(struct executor *executor, struct stream *stream);
    /* Scratch bytes that an op needs beside its arguments; 0 for most. */
    int64_t (*workspace)(struct executor *executor, enum op op, const void *args);
    /* Provides scratch of `bytes` for the ops of a stream. It only grows, and scratch that recordings use stays where
     * it is. A launch that needs more than was reserved is fatal. */
    void (*reserve)(struct executor *executor, int stream, int64_t bytes);
    /* A group of collectives on this executor's memory over the ranks of comm, which it borrows; collective. NULL: the
     * memory is the host's (comm/comm.h). */
    struct group *(*make_group)(struct executor *executor, struct comm *comm, const char *name);
    /* Bytes that may still be allocated on the device; NULL: as many as the host has. */
    int64_t (*available)(struct executor *executor);
    /* How many of the available bytes must stay free, because the driver will take them itself; NULL: none. */
    int64_t (*margin)(struct executor *executor);
    /* Bytes of the device's memory that are in use, by whomever. NULL: the memory is the host's. */
    int64_t (*occupied)(struct executor *executor);
    /* Which device it is, on whatever node: a GPU's UUID of 16 bytes, borrowed. NULL: the host. */
    const unsigned char *(*identity)(struct executor *executor);
    /* Seconds that the device has been in collectives of its groups so far, waiting for other ranks or not; by samples,
     * good for ten seconds and more. 0 and NULL: it is the host that waits (comm_seconds). */
    double (*waited)(struct executor *executor);
    /* Times on a stream (core/profile.h, engine_seconds). stamp: remembers under `number` when the stream comes here,
     * in place of an earlier stamp of that number. stamp_seconds: the seconds between two stamps that the stream has
     * passed. NULL: the host's clock tells the same. */
    void (*stamp)(struct executor *executor, struct stream *stream, int64_t number);
    double (*stamp_seconds)(struct executor *executor, int64_t from, int64_t to);
    /* For profilers (NVTX). watch: begin or stop profiling. range: what follows belongs to the part `name`; name NULL
     * ends the part that began last. NULL: there is no profiler. */
    void (*watch)(struct executor *executor, bool begin);
    void (*range)(struct executor *executor, const char *name);
    /* Recording. From capture_begin on, launches on this stream are not run but recorded, and so are those of every
     * stream that events fork from it and join to it again. capture_end returns the recording. replay runs it on a
     * stream, any number of times; it reads what its addresses hold then. Free it with discard. All NULL: not offered.
     */
    void (*capture_begin)(struct executor *executor, struct stream *stream);
    void *(*capture_end)(struct executor *executor, struct stream *stream);
    void (*replay)(struct executor *executor, struct stream *stream, void *recording);
    void (*discard)(struct executor *executor, void *recording);
    /* Where there are several kernels for the same result: which the executor chose for what it has run, as bytes of
     * core/choice.h, borrowed until it chooses again. take_choices replaces all choices, so that this executor computes
     * as that one did; add_choices keeps its own, too, but for those of the same key. They return false, and change
     * nothing, if the choices were made for another device. All NULL: there is one kernel for each result. */
    const void *(*choices)(struct executor *executor, int64_t *bytes);
    bool (*take_choices)(struct executor *executor, const void *from, int64_t bytes);
    bool (*add_choices)(struct executor *executor, const void *from, int64_t bytes);
    /* What this device lacks for products of 8-bit copies of a scaling (core/quantization.h), to follow "needs"; NULL
     * where it has them. The function is NULL where they are emulated, whatever the scaling. */
    const char *(*lacks_products)(const struct executor *executor, enum scaling scaling);
    void (*destroy)(struct executor *executor);
    bool dry;            /* runs nothing and its memory cannot be touched: the caller need not prepare data for it */
    int64_t widest_head; /* of attention; 0: any */
};

#endif
