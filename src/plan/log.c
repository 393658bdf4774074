#include "plan/log.h"
#include "base/error.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

enum { ARGS_ALIGNMENT = 16 }; /* every args struct is aligned */

static struct plan_entry *append(struct plan_log *log, enum plan_kind kind, const struct stream *stream)
{
    if (stream->id < 0 || stream->id >= STREAM_COUNT)
        error_fatal("bug: stream %d, but streams are numbered 0 to %d", stream->id, STREAM_COUNT - 1);
    if (log->count == log->capacity) {
        log->capacity = log->capacity > 0 ? 2 * log->capacity : 256;
        log->entries = memory_grow(log->entries, log->capacity * (int64_t)sizeof *log->entries);
    }
    struct plan_entry *entry = &log->entries[log->count++];
    *entry = (struct plan_entry){.kind = kind, .stream = stream->id, .record = -1};
    return entry;
}

void plan_log_launch(struct plan_log *log, const struct stream *stream, enum op op, const void *args)
{
    struct plan_entry *entry = append(log, PLAN_LAUNCH, stream);
    int64_t bytes = (int64_t)op_info(op)->args_bytes;
    int64_t needed = log->args_bytes + bytes;
    if (needed > log->args_capacity) {
        log->args_capacity = needed > 16384 ? 2 * needed : 16384;
        log->args = memory_grow(log->args, log->args_capacity);
    }
    entry->op = op;
    entry->args = log->args_bytes;
    memcpy(log->args + entry->args, args, (size_t)bytes);
    log->args_bytes = (needed + ARGS_ALIGNMENT - 1) / ARGS_ALIGNMENT * ARGS_ALIGNMENT;
}

void plan_log_record(struct plan_log *log, const struct stream *stream, const struct event *event)
{
    struct plan_entry *entry = append(log, PLAN_RECORD, stream);
    entry->event = event;
    entry->serial = event->serial;
}

void plan_log_wait(struct plan_log *log, const struct stream *stream, const struct event *event)
{
    struct plan_entry *entry = append(log, PLAN_WAIT, stream);
    entry->event = event;
    entry->serial = event->serial;
    for (int64_t i = log->count - 2; i >= 0 && entry->record < 0; i--) {
        const struct plan_entry *e = &log->entries[i];
        if (e->kind == PLAN_RECORD && e->event == event && e->serial == event->serial)
            entry->record = i;
    }
}

void plan_log_clear(struct plan_log *log)
{
    free(log->entries);
    free(log->args);
    *log = (struct plan_log){0};
}

struct plan_span plan_log_all(const struct plan_log *log)
{
    return (struct plan_span){log, 0, log->count};
}

const void *plan_log_args(const struct plan_log *log, const struct plan_entry *entry)
{
    return log->args + entry->args;
}

bool plan_log_region(const struct plan_log *log, const struct plan_entry *entry, int field, struct plan_region *region)
{
    const void *args = plan_log_args(log, entry);
    const struct tensor *tensor = op_tensor(entry->op, args, field);
    if (!tensor_present(tensor) || tensor_count(tensor) == 0)
        return false;
    *region = plan_region_bytes(tensor->data, tensor_extent(tensor));
    region->access = op_field_access(entry->op, args, field);
    if (!tensor_contiguous(tensor)) {
        region->rows = tensor->rows;
        region->row_bytes = tensor->cols * dtype_size(tensor->dtype);
        region->stride = tensor->stride * dtype_size(tensor->dtype);
    }
    return true;
}

bool plan_touch_next(struct plan_touch *touch)
{
    for (; touch->entry < touch->log->count; touch->entry++, touch->next_field = 0) {
        const struct plan_entry *entry = &touch->log->entries[touch->entry];
        if (entry->kind != PLAN_LAUNCH)
            continue;
        while (touch->next_field < op_info(entry->op)->field_count) {
            touch->field = touch->next_field++;
            if (plan_log_region(touch->log, entry, touch->field, &touch->region))
                return true;
        }
    }
    return false;
}

/* -- Regions ----------------------------------------------------------------------------------------------------- */

struct plan_region plan_region_bytes(const void *base, int64_t bytes)
{
    return (struct plan_region){(uintptr_t)base, 1, bytes, bytes, 0};
}

uintptr_t plan_region_end(const struct plan_region *region)
{
    return region->base + (uintptr_t)((region->rows - 1) * region->stride + region->row_bytes);
}

static int64_t floor_divide(int64_t a, int64_t b)
{
    return a >= 0 ? a / b : -((-a + b - 1) / b);
}

/* Run i of a covers [i s, i s + wa), run j of b covers [d + j s, d + j s + wb), so they overlap if d - wa < (i - j) s <
 * d + wb; i - j takes every value from 1 - b.rows to a.rows - 1. */
static bool overlap_same_stride(const struct plan_region *a, const struct plan_region *b, int64_t stride)
{
    int64_t distance = (int64_t)(b->base - a->base);
    int64_t lowest = floor_divide(distance - a->row_bytes, stride) + 1;
    int64_t highest = floor_divide(distance + b->row_bytes - 1, stride);
    if (lowest < 1 - b->rows)
        lowest = 1 - b->rows;
    if (highest > a->rows - 1)
        highest = a->rows - 1;
    return lowest <= highest;
}

bool plan_region_overlap(const struct plan_region *a, const struct plan_region *b)
{
    if (a->base >= plan_region_end(b) || b->base >= plan_region_end(a))
        return false;
    /* a single run has no stride, so it can use the other's */
    if (a->rows == 1)
        return overlap_same_stride(a, b, b->stride);
    if (b->rows == 1 || a->stride == b->stride)
        return overlap_same_stride(a, b, a->stride);
    for (int64_t i = 0; i < b->rows; i++) {
        struct plan_region run = {b->base + (uintptr_t)(i * b->stride), 1, b->row_bytes, b->row_bytes, b->access};
        if (overlap_same_stride(a, &run, a->stride))
            return true;
    }
    return false;
}

/* -- Cost -------------------------------------------------------------------------------------------------------- */

struct plan_cost plan_log_cost(struct plan_span span)
{
    struct plan_cost cost = {0};
    for (int64_t i = span.first; i < span.end; i++) {
        const struct plan_entry *entry = &span.log->entries[i];
        if (entry->kind != PLAN_LAUNCH)
            continue;
        cost.launches++;
        cost.flops += op_flops(entry->op, plan_log_args(span.log, entry));
        for (int field = 0; field < op_info(entry->op)->field_count; field++) {
            struct plan_region region;
            if (!plan_log_region(span.log, entry, field, &region))
                continue;
            int passes = region.access == OP_READ_WRITE ? 2 : 1;
            cost.bytes += passes * region.rows * region.row_bytes;
        }
    }
    return cost;
}

bool plan_traffic_of(enum op op, const void *args, const struct group **group, int64_t *bytes)
{
    const struct tensor *whole;
    int passes = 1;
    switch (op) {
    case OP_ALL_REDUCE: {
        const struct all_reduce_args *a = args;
        *group = a->group, whole = &a->x, passes = 2;
        break;
    }
    case OP_REDUCE_SCATTER: {
        const struct reduce_scatter_args *a = args;
        *group = a->group, whole = &a->in;
        break;
    }
    case OP_ALL_GATHER: {
        const struct all_gather_args *a = args;
        *group = a->group, whole = &a->out;
        break;
    }
    case OP_BROADCAST: {
        const struct broadcast_args *a = args;
        *group = a->group;
        *bytes = a->group->size > 1 ? tensor_count(&a->x) * dtype_size(a->x.dtype) : 0;
        return true;
    }
    case OP_ALL_TO_ALL: {
        const struct all_to_all_args *a = args;
        *group = a->group, whole = &a->out;
        break;
    }
    case OP_SHIFT: {
        const struct shift_args *a = args;
        *group = a->group;
        *bytes = a->group->size > 1 ? tensor_extent(&a->out) : 0;
        return true;
    }
    case OP_SEND_RECEIVE: {
        const struct send_receive_args *a = args;
        *group = a->group;
        *bytes = tensor_extent(&a->from_previous) + tensor_extent(&a->from_next);
        return true;
    }
    default:
        return false;
    }
    int64_t size = (*group)->size;
    *bytes = passes * tensor_count(whole) * dtype_size(whole->dtype) * (size - 1) / size;
    return true;
}

int plan_log_traffic(struct plan_span span, struct plan_traffic *out, int max)
{
    int groups = 0;
    struct plan_traffic *all = NULL;
    for (int64_t i = span.first; i < span.end; i++) {
        const struct plan_entry *entry = &span.log->entries[i];
        const struct group *group;
        int64_t bytes;
        if (entry->kind != PLAN_LAUNCH || !plan_traffic_of(entry->op, plan_log_args(span.log, entry), &group, &bytes))
            continue;
        int g = 0;
        while (g < groups && strcmp(all[g].group, group->name) != 0)
            g++;
        if (g == groups) {
            all = memory_grow(all, ++groups * (int64_t)sizeof *all);
            all[g] = (struct plan_traffic){group->name, 0, 0};
        }
        all[g].collectives++;
        all[g].bytes += bytes;
    }
    for (int g = 0; g < groups && g < max; g++)
        out[g] = all[g];
    free(all);
    return groups;
}
