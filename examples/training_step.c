/* Trains a tiny Llama for a few steps on the CPU executor.
 *
 * A training needs a model (a list of units), an engine (memory, weights, optimizer), a schedule (the order of forwards
 * and backwards) and batches. `cistron train` makes the same parts from a deck, with a loader that fills the batches
 * (train/session.c). The sequence here repeats six tokens. The loss starts near ln 16 = 2.77, the loss of a uniform
 * guess, and falls towards 0. */
#include "comm/comm.h"
#include "cpu/cpu.h"
#include "data/batch.h"
#include "state/initialise.h"

#include <stdio.h>

enum { TOKENS = 48, VOCABULARY = 16, PERIOD = 6, STEPS = 40 };

/* One row with one segment. A token's label is the token that follows it; the last one has none. */
static void fill(struct batch *batch)
{
    batch_create(batch, 1, TOKENS, 1);
    batch->segment_length[0] = TOKENS;
    for (int t = 0; t < TOKENS; t++) {
        batch->tokens[t] = 2 * (t % PERIOD);
        batch->positions[t] = t;
        batch->labels[t] = t + 1 < TOKENS ? 2 * ((t + 1) % PERIOD) : BATCH_IGNORED;
    }
    batch->valid = TOKENS - 1;
    batch->real = TOKENS;
}

int main(void)
{
    const struct model_settings settings = {.family = &family_llama,
                                            .layers = 2,
                                            .hidden = 32,
                                            .ffn = 64,
                                            .heads = 4,
                                            .kv_heads = 2,
                                            .head_dim = 8,
                                            .vocabulary = VOCABULARY,
                                            .rope = {.theta = 10000},
                                            .norm_eps = 1e-5,
                                            .init_std = 0.1,
                                            .embedding_std = 0.1,
                                            .output_std = 0.1,
                                            .decay_matrices = true};
    const struct engine_settings engine_settings = {
        .memory = {.compute = DTYPE_F32,
                   .statistic = DTYPE_F32,
                   .slots = {1}, /* micro-batches whose activations are kept at a time */
                   .rows = 1,
                   .row_tokens = TOKENS,
                   .max_segments = 1},
        .optimizer = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .clip = 1.0}};

    struct executor *executor = cpu_executor_create(2);
    struct comm *self = comm_self(); /* one process; two_ranks.c has more */
    struct group *group = comm_group_create(self, NULL, "data");
    const struct parallel_groups groups = groups_replicated(group);
    struct model model;
    struct engine engine;
    model_create(&model, &settings, TOKENS, TOKENS);
    engine_create(&engine, executor, &model, &groups, &engine_settings);
    engine_initialise(&engine, 7); /* the seed */

    struct batch batch;
    fill(&batch);
    struct schedule schedule = schedule_create(1, 1, false); /* one micro-batch a step: its forward, its backward */
    for (int step = 1; step <= STEPS; step++) {
        const struct engine_result result = engine_step(&engine, &schedule, &batch, 1e-2 /* learning rate */);
        if (step == 1 || step % 10 == 0)
            printf("step %2d  loss %.3f  gradient norm %.3f\n", step, result.loss_sum / result.labels,
                   result.grad_norm);
    }

    schedule_destroy(&schedule);
    batch_destroy(&batch);
    engine_destroy(&engine);
    model_destroy(&model);
    comm_group_destroy(group);
    comm_destroy(self);
    executor->class->destroy(executor);
    return 0;
}
