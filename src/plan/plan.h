/* The planning executor: runs the program on fake addresses and keeps a log, so that memory, cost, traffic and races
 * are known before anything is allocated, without a device or other ranks. */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include "plan/log.h"

/* Makes an executor of class "plan" that plans for `target` (borrowed; NULL = no executor, scratch is 0). Launches are
 * checked (op_check; wrong arguments are fatal) and logged. Memory is address space only: accessing it faults. Every
 * allocation is aligned to 256 bytes and followed by an unused gap. Addresses are not reused after a release; if the
 * target is a planning executor too, the two share no address. Events are logged; synchronize and reserve do nothing,
 * because only events order streams (core/executor.h). Free with class->destroy. */
struct executor *plan_executor_create(struct executor *target);

/* Returns the log since creation or the last clear; owned by the executor. */
const struct plan_log *plan_executor_log(const struct executor *executor);

/* Empties the log. Keeps allocations and the scratch maximum. */
void plan_executor_clear(struct executor *executor);

/* Returns the largest scratch, in bytes, that a launch on that stream since creation needs on the target. */
int64_t plan_workspace(const struct executor *executor, int stream);

/* An allocation. */
struct plan_block {
    void *base;
    int64_t bytes;
    enum memory_kind kind;
    bool released;
};

/* Writes the allocations since creation, in order; owned by the executor, valid until the next allocate. Returns their
 * number. */
int64_t plan_executor_blocks(const struct executor *executor, const struct plan_block **blocks);

#endif
