#include "plan/plan.h"
#include "base/error.h"
#include "base/memory.h"

#include <stdlib.h>

/* The first fake address has a bit that user space of a 64-bit machine does not map, so accesses fault. */
#define FIRST_ADDRESS ((uintptr_t)1 << 48)

enum { ALIGNMENT = 256, GAP = 4096 };

struct plan_executor {
    struct executor base;
    struct executor *target;
    struct plan_log log;
    struct plan_block *blocks; /* [block_count] */
    int64_t block_count, block_capacity;
    uintptr_t first_free; /* address of the next block, if this executor hands out addresses itself */
    uintptr_t *next;      /* this executor's first_free, or the target's if that plans too, so that nested plans use
                             different addresses */
    int64_t workspace[STREAM_COUNT];
};

static struct plan_executor *self(struct executor *executor)
{
    return (struct plan_executor *)executor;
}

static int64_t plan_class_workspace(struct executor *executor, enum op op, const void *args)
{
    struct executor *target = self(executor)->target;
    return target != NULL ? target->class->workspace(target, op, args) : 0;
}

static void plan_launch(struct executor *executor, struct stream *stream, enum op op, const void *args)
{
    struct plan_executor *plan = self(executor);
    const char *wrong = op_check(op, args);
    if (wrong != NULL)
        error_fatal("bug: %s cannot run with these arguments: %s", op_info(op)->name, wrong);
    int64_t workspace = plan_class_workspace(executor, op, args);
    if (workspace > plan->workspace[stream->id])
        plan->workspace[stream->id] = workspace;
    plan_log_launch(&plan->log, stream, op, args);
}

static void *plan_allocate(struct executor *executor, int64_t bytes, enum memory_kind kind)
{
    struct plan_executor *plan = self(executor);
    if (bytes <= 0)
        return NULL;
    if (plan->block_count == plan->block_capacity) {
        plan->block_capacity = plan->block_capacity > 0 ? 2 * plan->block_capacity : 64;
        plan->blocks = memory_grow(plan->blocks, plan->block_capacity * (int64_t)sizeof *plan->blocks);
    }
    void *base = (void *)*plan->next;
    plan->blocks[plan->block_count++] = (struct plan_block){base, bytes, kind, false};
    *plan->next += ((uintptr_t)bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + GAP;
    return base;
}

static void plan_release(struct executor *executor, void *memory, enum memory_kind kind)
{
    struct plan_executor *plan = self(executor);
    if (memory == NULL)
        return;
    int64_t low = 0, high = plan->block_count; /* binary search: addresses only grow */
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if ((uintptr_t)plan->blocks[middle].base < (uintptr_t)memory)
            low = middle + 1;
        else
            high = middle;
    }
    struct plan_block *block = &plan->blocks[low];
    if (low == plan->block_count || block->base != memory || block->kind != kind || block->released)
        error_fatal("bug: release of %p, which is not a live block of this plan", memory);
    block->released = true;
}

static void plan_event_record(struct executor *executor, struct event *event, struct stream *stream)
{
    plan_log_record(&self(executor)->log, stream, event);
}

static void plan_event_wait(struct executor *executor, struct event *event, struct stream *stream)
{
    plan_log_wait(&self(executor)->log, stream, event);
}

static void plan_synchronize(struct executor *executor, struct stream *stream)
{
    (void)executor;
    (void)stream;
}

static void plan_reserve(struct executor *executor, int stream, int64_t bytes)
{
    int64_t *reserved = &executor->workspace_bytes[stream];
    *reserved = bytes > *reserved ? bytes : *reserved;
}

static void plan_destroy(struct executor *executor)
{
    struct plan_executor *plan = self(executor);
    plan_log_clear(&plan->log);
    free(plan->blocks);
    memory_free(plan);
}

static const struct executor_class plan_class = {
    .name = "plan",
    .launch = plan_launch,
    .allocate = plan_allocate,
    .release = plan_release,
    .event_record = plan_event_record,
    .event_wait = plan_event_wait,
    .synchronize = plan_synchronize,
    .workspace = plan_class_workspace,
    .reserve = plan_reserve,
    .destroy = plan_destroy,
    .dry = true,
};

struct executor *plan_executor_create(struct executor *target)
{
    struct plan_executor *plan = memory_allocate(sizeof *plan);
    plan->base.class = &plan_class;
    if (target != NULL) {
        plan->base.owner = target->owner;
        plan->base.device = target->device; /* the other tables need an executor that runs launches */
        plan->base.copies = target->copies;
        plan->base.node_block = target->node_block;
    }
    plan->target = target;
    plan->first_free = FIRST_ADDRESS;
    plan->next = target != NULL && target->class == &plan_class ? self(target)->next : &plan->first_free;
    return &plan->base;
}

const struct plan_log *plan_executor_log(const struct executor *executor)
{
    return &((const struct plan_executor *)executor)->log;
}

void plan_executor_clear(struct executor *executor)
{
    plan_log_clear(&self(executor)->log);
}

int64_t plan_workspace(const struct executor *executor, int stream)
{
    return ((const struct plan_executor *)executor)->workspace[stream];
}

int64_t plan_executor_blocks(const struct executor *executor, const struct plan_block **blocks)
{
    const struct plan_executor *plan = (const struct plan_executor *)executor;
    *blocks = plan->blocks;
    return plan->block_count;
}
