/* The log: what the planning and the record executors saw, in the order in which the host issued it. Everything else
 * in this folder is computed from a log: races, lifetimes, the recompute closure, replay. */
#ifndef PLAN_LOG_H
#define PLAN_LOG_H

#include "core/launch.h"

enum plan_kind { PLAN_LAUNCH, PLAN_RECORD, PLAN_WAIT };

struct plan_entry {
    enum plan_kind kind;
    int stream; /* id, 0 .. STREAM_COUNT - 1 */
    /* PLAN_LAUNCH */
    enum op op;
    int64_t args; /* where plan_log_args finds the copy */
    /* PLAN_RECORD, PLAN_WAIT: an event's address and the number of its records up to here tell records apart */
    const struct event *event; /* never dereferenced */
    uint64_t serial;
    int64_t record; /* PLAN_WAIT: index of the entry waited for; -1 = it lies before the log, or there is none */
};

/* Zero-initialised is an empty log. */
struct plan_log {
    struct plan_entry *entries; /* count of them */
    int64_t count, capacity;
    char *args; /* copies of arguments, args_bytes in use */
    int64_t args_bytes, args_capacity;
};

/* Part of a log: entries first .. end - 1. */
struct plan_span {
    const struct plan_log *log;
    int64_t first, end;
};

/* Append an entry. The arguments are copied; a group that they point to must outlive the log. A wait refers to the
 * latest record of its event. */
void plan_log_launch(struct plan_log *log, const struct stream *stream, enum op op, const void *args);
void plan_log_record(struct plan_log *log, const struct stream *stream, const struct event *event);
void plan_log_wait(struct plan_log *log, const struct stream *stream, const struct event *event);

/* Empties the log and frees what it held. */
void plan_log_clear(struct plan_log *log);

struct plan_span plan_log_all(const struct plan_log *log);

/* The arguments of a launch, valid until the next append. */
const void *plan_log_args(const struct plan_log *log, const struct plan_entry *entry);

/* The bytes that one tensor of a launch covers: `rows` runs of `row_bytes` bytes, `stride` bytes apart. A contiguous
 * tensor is one run. */
struct plan_region {
    uintptr_t base;
    int64_t rows, row_bytes, stride;
    int access; /* enum op_access */
};

/* The region of a launch's field (0 .. op_info(op)->field_count - 1). False when the tensor is absent or empty. */
bool plan_log_region(const struct plan_log *log, const struct plan_entry *entry, int field, struct plan_region *region);

/* Goes through all regions of all launches of a log, launch by launch, field by field. Begins zero-initialised but for
 * `log`; after plan_touch_next has said true the other members say what is touched. */
struct plan_touch {
    const struct plan_log *log;
    int64_t entry; /* index in the log */
    int field;
    struct plan_region region;
    int next_field;
};
bool plan_touch_next(struct plan_touch *touch);

/* A region of plain contiguous memory. */
struct plan_region plan_region_bytes(const void *base, int64_t bytes);

/* One past the last byte. */
uintptr_t plan_region_end(const struct plan_region *region);

/* True when the two share a byte; exact, so column views of one matrix that lie side by side do not. */
bool plan_region_overlap(const struct plan_region *a, const struct plan_region *b);

/* What a span costs. Bytes are the sizes of all tensors read plus those written, whatever a cache may save. */
struct plan_cost {
    int64_t launches;
    int64_t flops; /* op_flops: useful multiply-adds x 2 */
    int64_t bytes;
};
struct plan_cost plan_log_cost(struct plan_span span);

/* Bytes that each rank of a group must receive in the span's collectives when no byte is sent needlessly. With n
 * ranks: (n - 1) / n of the whole for reduce_scatter, all_gather and all_to_all, twice that for all_reduce, and all
 * of it, once, for broadcast, shift and relay. */
struct plan_traffic {
    const char *group;
    int64_t collectives, bytes;
};

/* A collective's group and these bytes of it; false for other ops. */
bool plan_traffic_of(enum op op, const void *args, const struct group **group, int64_t *bytes);

/* Traffic by name of group, in order of first use. Writes the first `max` and returns how many groups there are. */
int plan_log_traffic(struct plan_span span, struct plan_traffic *out, int max);

#endif
