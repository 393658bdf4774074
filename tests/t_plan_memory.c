/* The planned memory of a step is what its ops touch, in every category, sharding level, recompute policy and recipe,
 * and what a process that trains has resident. */
#include "steps.h"

#include "cpu/cpu.h"
#include "plan/lifetime.h"
#include "plan/plan.h"

#include <sys/wait.h>
#include <unistd.h>

/* Sums, by category, each block's bytes up to the last that a launch touches. No launch touches bytes after the block
 * in which it begins. */
static void sum_touched(const struct plan_log *log, const struct budget *budget, int64_t *sums)
{
    int64_t wrong = 0;
    for (int i = 0; i < budget->count; i++) {
        const uintptr_t begin = (uintptr_t)budget->blocks[i].address, end = begin + (uintptr_t)budget->blocks[i].bytes;
        uintptr_t last = begin;
        for (struct plan_touch touch = {.log = log}; plan_touch_next(&touch);) {
            const uintptr_t touched = plan_region_end(&touch.region);
            if (touch.region.base < begin || touch.region.base >= end)
                continue;
            wrong += touched > end;
            last = touched > last ? touched : last;
        }
        sums[budget->blocks[i].category] += (int64_t)(last - begin);
    }
    CHECK(wrong == 0);
}

static void test_plan(struct executor *cpu, struct toy_options options)
{
    struct executor *plan = plan_executor_create(cpu);
    struct toy toy;
    options.executor = plan;
    toy_create(&toy, &options);
    struct schedule schedule = schedule_create(MICRO_BATCHES, options.slots, options.split_backward);
    engine_step(&toy.engine, &schedule, batches, 1e-2);
    engine_evaluate(&toy.engine, batches, 1);
    const struct budget *budget = &toy.engine.budget;
    int64_t touched[BUDGET_CATEGORIES] = {0};
    sum_touched(plan_executor_log(plan), budget, touched);
    int64_t in_category[BUDGET_CATEGORIES] = {0};
    for (int i = 0; i < budget->count; i++)
        in_category[budget->blocks[i].category]++;
    for (int c = 0; c < BUDGET_CATEGORIES; c++) {
        if (c == BUDGET_WORKSPACE || c == BUDGET_MARGIN)
            continue;
        /* each block may end in padding to 256 bytes */
        int64_t padding = in_category[c] * LIFETIME_ALIGNMENT;
        if (!CHECK(touched[c] == budget->bytes[c] ||
                   (touched[c] < budget->bytes[c] && touched[c] > budget->bytes[c] - padding)))
            fprintf(stderr, "    %s: %lld planned, %lld touched\n", budget_category_name((enum budget_category)c),
                    (long long)budget->bytes[c], (long long)touched[c]);
    }
    schedule_destroy(&schedule);
    toy_destroy(&toy);
    plan->class->destroy(plan);
}

/* Peak resident memory of a process that makes an engine and steps, less its value before, against the plan's total. */
static void test_resident(void)
{
    int channel[2];
    CHECK(pipe(channel) == 0);
    pid_t child = fork();
    if (child == 0) {
        struct executor *cpu = cpu_executor_create(2);
        struct toy_options options = toy_options(cpu);
        options.settings.layers = 6;
        options.settings.hidden = 512;
        options.settings.ffn = 1376;
        options.settings.heads = options.settings.kv_heads = 8;
        options.settings.head_dim = 64;
        options.row_tokens = 512;
        struct batch batch;
        toy_batch(&batch, options.rows, options.row_tokens, 5);
        struct toy toy;
        int64_t before = memory_resident_now();
        toy_create(&toy, &options);
        struct schedule schedule = schedule_create(1, 1, false);
        engine_step(&toy.engine, &schedule, &batch, 1e-3);
        double numbers[2] = {(double)(memory_resident_peak() - before), (double)budget_total(&toy.engine.budget)};
        ssize_t written = write(channel[1], numbers, sizeof numbers);
        _exit(written == (ssize_t)sizeof numbers ? 0 : 1);
    }
    double numbers[2] = {0, 0};
    CHECK(read(channel[0], numbers, sizeof numbers) == (ssize_t)sizeof numbers);
    waitpid(child, NULL, 0);
    printf("plan: %.1f MiB planned, %.1f MiB resident\n", numbers[1] / 1048576, numbers[0] / 1048576);
#ifndef __SANITIZE_ADDRESS__ /* whose shadow memory is resident too */
    CHECK(fabs(numbers[0] - numbers[1]) <= 0.05 * numbers[1] + 32e6);
#endif
}

int main(void)
{
    test_resident(); /* first: the child must not inherit a grown heap, nor a forked OpenMP pool */
    batches_make();
    struct executor *cpu = cpu_executor_create(2);
    struct group whole = {.name = "data", .rank = 5, .size = 8}, half = {.name = "shard", .rank = 1, .size = 4};
    struct group pair = {.name = "replicas", .rank = 1, .size = 2};
    const struct parallel_groups groups = {
        .all = &whole, .data = &whole, .gather = &half, .reduce = &half, .replicas = &pair};
    for (int layers = 1; layers <= 2; layers++) { /* other units take turns in the store's buffers */
        struct toy_options options = toy_options(NULL);
        options.groups = &groups;
        options.settings = toy_settings(TOY_LLAMA_TIED);
        options.settings.layers = layers;
        options.sharding.level = SHARD_FULL;
        test_plan(cpu, options);
    }
    for (int policy = DECK_RECOMPUTE_NONE; policy <= DECK_RECOMPUTE_FULL; policy++) {
        struct toy_options options = toy_options(NULL);
        options.groups = &groups;
        options.recompute = (enum deck_recompute)policy;
        options.slots = 1 + policy % 3;
        options.settings = toy_settings((enum toy_kind)(policy % TOY_KINDS));
        give_policy(&options.settings.recompute, 1, policy + 2);
        if (policy < DECK_RECOMPUTE_QKV)
            options.settings.recompute.offloaded = (struct layer_list){1, {{policy % 3, 2}}};
        options.compute = policy % 2 ? DTYPE_BF16 : DTYPE_F32;
        options.head_tokens = 20;
        for (int level = SHARD_NONE; level <= SHARD_FULL; level++) {
            options.sharding = (struct sharding){.level = (enum shard_level)level,
                                                 .bf16_sums = level != SHARD_NONE && policy % 2 == 0,
                                                 .whole_gradients = level == SHARD_FULL && policy >= 4,
                                                 .no_masters = options.compute == DTYPE_BF16 && policy >= 2};
            test_plan(cpu, options);
        }
        struct toy_options rounded = options;
        rounded.groups = NULL;
        rounded.slots = 1;
        rounded.compute = DTYPE_BF16;
        rounded.sharding = (struct sharding){.bf16_gradients = true};
        rounded.settings.rounds_gradients = true;
        test_plan(cpu, rounded);
        for (int recipe = DECK_RECIPE_DELAYED; recipe <= DECK_RECIPE_NVFP4; recipe++) {
            options.settings.precision = toy_precision(recipe);
            options.settings.precision.quantizes_per_gemm = recipe % 2 == 1;
            test_plan(cpu, options);
        }
    }
    cpu->class->destroy(cpu);
    return check_end();
}
