/* Runs a unit, a transformer block, on the planning executor.
 *
 * The planning executor checks and logs launches on addresses that no memory backs. So the program knows a model's
 * memory, cost and traffic before it allocates anything: `cistron plan` is made of such runs. This example plans a
 * block of Llama 3.1 8B for 8,192 tokens in bf16, on a machine of any size. */
#include "architecture/family.h"
#include "comm/comm.h"
#include "core/op.h"
#include "engine/engine.h"
#include "plan/plan.h"

#include <stdio.h>

enum { TOKENS = 8192 };

int main(void)
{
    const struct model_settings settings = {.family = &family_llama,
                                            .layers = 1,
                                            .hidden = 4096,
                                            .ffn = 14336,
                                            .heads = 32,
                                            .kv_heads = 8,
                                            .head_dim = 128,
                                            .vocabulary = 128256,
                                            .rope = {.theta = 500000},
                                            .norm_eps = 1e-5};
    const struct engine_settings engine_settings = {.memory = {.compute = DTYPE_BF16,
                                                               .statistic = DTYPE_F32,
                                                               .slots = {1},
                                                               .rows = 1,
                                                               .row_tokens = TOKENS,
                                                               .max_segments = 1},
                                                    .optimizer = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8}};
    /* The units of this model are an embedding, one block and a head. An engine knows where their tensors lie. */
    struct executor *plan = plan_executor_create(NULL);
    struct comm *self = comm_self();
    struct group *group = comm_group_create(self, plan, "data");
    const struct parallel_groups groups = groups_replicated(group);
    struct model model;
    struct engine engine;
    model_create(&model, &settings, TOKENS, TOKENS);
    engine_create(&engine, plan, &model, &groups, &engine_settings);

    const struct plan_block *blocks;
    const int64_t count = plan_executor_blocks(plan, &blocks);
    int64_t bytes = 0;
    for (int64_t i = 0; i < count; i++)
        bytes += blocks[i].kind == MEMORY_DEVICE && !blocks[i].released ? blocks[i].bytes : 0;
    printf("training takes %.1f GB of device memory\n", (double)bytes * 1e-9);

    /* The forward of the block alone: weights are acquired, the unit launches its ops, weights are released. */
    struct unit *block = &model.units[1];
    engine.execution.pass = PASS_FORWARD;
    engine.execution.batch = &engine.batches[0];
    plan_executor_clear(plan); /* forgets what engine_create launched */
    engine.store->class->begin(engine.store, &block, 1, engine.execution.stream, false);
    engine.store->class->acquire(engine.store, block, engine.execution.stream);
    memory_forward_unit(&engine.execution, block);
    engine.store->class->release(engine.store, block, engine.execution.stream);

    /* The log holds every launch with its arguments. Reflection (op_flops) needs no code for each op here. */
    const struct plan_log *log = plan_executor_log(plan);
    for (int64_t i = 0; i < log->count; i++)
        if (log->entries[i].kind == PLAN_LAUNCH) {
            const enum op op = log->entries[i].op;
            printf("%-20s %7.1f Gflop\n", op_info(op)->name,
                   (double)op_flops(op, plan_log_args(log, &log->entries[i])) * 1e-9);
        }
    const struct plan_cost cost = plan_log_cost(plan_log_all(log));
    printf("forward of %s: %d launches, %.1f Tflop, %.1f GB read and written\n", block->name, (int)cost.launches,
           (double)cost.flops * 1e-12, (double)cost.bytes * 1e-9);

    engine_destroy(&engine);
    model_destroy(&model);
    comm_group_destroy(group);
    comm_destroy(self);
    plan->class->destroy(plan);
    return 0;
}
