/* The planning executor: runs the program on fake addresses and keeps a log, so that memory, cost, traffic and races
 * are known before anything is allocated, without a device and without other ranks. */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include "plan/log.h"

/* An executor of class "plan", which plans for `target` (borrowed; NULL = no executor, scratch counts as 0).
 * Launches are checked (op_check; wrong arguments are fatal) and logged. Memory is address space only, and touching it
 * is a fault. Every allocation is aligned to 256 bytes and followed by an unused gap. Addresses are not used again
 * after a release, and a planning executor whose target is another one shares no address with it. Events are logged;
 * synchronize and reserve do nothing, because only events order streams (core/executor.h). Free with class->destroy. */
struct executor *plan_executor_create(struct executor *target);

/* What was launched since creation or the last clear; owned by the executor. */
const struct plan_log *plan_executor_log(const struct executor *executor);

/* Empties the log. Allocations and the scratch maximum stay. */
void plan_executor_clear(struct executor *executor);

/* The largest scratch in bytes that any launch on that stream since creation needs on the target. */
int64_t plan_workspace(const struct executor *executor, int stream);

/* An allocation. */
struct plan_block {
    void *base;
    int64_t bytes;
    enum memory_kind kind;
    bool released;
};

/* All allocations since creation, in order; owned by the executor, valid until the next allocate. Returns their number.
 */
int64_t plan_executor_blocks(const struct executor *executor, const struct plan_block **blocks);

#endif
