/* A log of launches and events, made by the planning and the record executors in the order in which the host issued
 * them. Everything else in this folder works on logs: races, lifetimes, the recompute closure, replay. */
#ifndef PLAN_LOG_H
#define PLAN_LOG_H

#include "core/launch.h"

enum plan_kind { PLAN_LAUNCH, PLAN_RECORD, PLAN_WAIT };

struct plan_entry {
    enum plan_kind kind;
    int stream; /* id, 0 .. STREAM_COUNT - 1 */
    /* PLAN_LAUNCH */
    enum op op;
    int64_t args; /* offset of the copied arguments, for plan_log_args */
    /* PLAN_RECORD, PLAN_WAIT: a record is identified by the event's address and the number of its records so far */
    const struct event *event; /* never dereferenced */
    uint64_t serial;
    int64_t record; /* PLAN_WAIT: index of the record that is waited for; -1 = it precedes the log, or there is none */
};

/* An empty log is all zero. */
struct plan_log {
    struct plan_entry *entries; /* [count] */
    int64_t count, capacity;
    char *args; /* copies of arguments, args_bytes in use */
    int64_t args_bytes, args_capacity;
};

/* A part of a log: entries first .. end - 1. */
struct plan_span {
    const struct plan_log *log;
    int64_t first, end;
};

/* Append an entry. Arguments are copied; a group in them must outlive the log. A wait refers to the latest record of
 * its event. */
void plan_log_launch(struct plan_log *log, const struct stream *stream, enum op op, const void *args);
void plan_log_record(struct plan_log *log, const struct stream *stream, const struct event *event);
void plan_log_wait(struct plan_log *log, const struct stream *stream, const struct event *event);

/* Empties the log and frees its memory. */
void plan_log_clear(struct plan_log *log);

struct plan_span plan_log_all(const struct plan_log *log);

/* Returns the arguments of a launch, valid until the next append. */
const void *plan_log_args(const struct plan_log *log, const struct plan_entry *entry);

/* The memory that a tensor of a launch covers: `rows` runs of `row_bytes` bytes, `stride` bytes apart. A contiguous
 * tensor is one run. */
struct plan_region {
    uintptr_t base;
    int64_t rows, row_bytes, stride;
    int access; /* enum op_access */
};

/* Writes the region of a launch's field (0 .. op_info(op)->field_count - 1). Returns false if the tensor is absent or
 * empty. */
bool plan_log_region(const struct plan_log *log, const struct plan_entry *entry, int field, struct plan_region *region);

/* Iterates over all regions of all launches of a log, launch by launch, field by field. Start with all zero except
 * `log`. plan_touch_next returns whether there is a next region, which the other members then describe. */
struct plan_touch {
    const struct plan_log *log;
    int64_t entry; /* index in the log */
    int field;
    struct plan_region region;
    int next_field;
};
bool plan_touch_next(struct plan_touch *touch);

/* Returns the region of contiguous memory. */
struct plan_region plan_region_bytes(const void *base, int64_t bytes);

/* Returns the address after the region's last byte. */
uintptr_t plan_region_end(const struct plan_region *region);

/* Returns whether two regions share a byte. Exact: column views of a matrix that do not overlap share none. */
bool plan_region_overlap(const struct plan_region *a, const struct plan_region *b);

/* The cost of a span. Bytes are the sizes of all tensors read plus those of all tensors written, without reuse in
 * caches. */
struct plan_cost {
    int64_t launches;
    int64_t flops; /* op_flops: useful multiply-adds x 2 */
    int64_t bytes;
};
struct plan_cost plan_log_cost(struct plan_span span);

/* The minimum bytes that each rank of a group receives in the span's collectives. With n ranks: (n - 1) / n of the
 * whole tensor for reduce_scatter, all_gather and all_to_all, twice that for all_reduce, and the whole for broadcast,
 * shift and send_receive. */
struct plan_traffic {
    const char *group;
    int64_t collectives, bytes;
};

/* Writes a collective's group and the bytes that a rank receives in it; returns false for other ops. */
bool plan_traffic_of(enum op op, const void *args, const struct group **group, int64_t *bytes);

/* Sums the traffic by name of group, in order of first use. Writes the first `max` groups and returns the number of
 * groups. */
int plan_log_traffic(struct plan_span span, struct plan_traffic *out, int max);

#endif
