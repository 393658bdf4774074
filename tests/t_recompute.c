/* A step has the same bits under each recompute policy, in each layer beside others, and with layers offloaded to host
 * memory. Each policy keeps what it says, and less than the policies that it includes. */
#include "steps.h"

#include "cpu/cpu.h"
#include "model/block.h"

/* -- Recomputed tensors have the bits of kept ones --------------------------------------------------------------- */

/* What a layer keeps by a policy does not depend on other layers, but for its output, of which the backward of a
 * post-norm layer after it may read quantized forms alone. */
static void check_kept(const struct toy *mixed, struct toy_options options, int layer)
{
    struct toy alike;
    options.recompute = recompute_of(&mixed->model.settings.recompute, layer);
    options.settings.recompute = (struct recompute){.others = DECK_RECOMPUTE_NONE};
    toy_create(&alike, &options);
    struct id_set *kept = &alike.engine.memory.units[1 + layer].kept,
                  expected = mixed->engine.memory.units[1 + layer].kept;
    const struct id_set dropped = block_dropped_by(&alike.model.units[1 + layer], options.recompute);
    if (options.settings.family->post_norm) {
        id_set_add(kept, UNIT_OUTPUT);
        id_set_add(&expected, UNIT_OUTPUT);
    }
    CHECK(memcmp(kept, &expected, sizeof *kept) == 0);
    for (int id = 0; id < alike.model.units[1 + layer].tensor_count; id++)
        CHECK(!id_set_has(kept, id) || !id_set_has(&dropped, id));
    toy_destroy(&alike);
}

/* Each policy keeps less than those that it includes. */
static void test_policies(struct executor *executor, enum toy_kind kind)
{
    int64_t kept[DECK_RECOMPUTE_FULL + 1];
    for (int policy = DECK_RECOMPUTE_NONE; policy <= DECK_RECOMPUTE_FULL; policy++) {
        struct toy_options options = toy_options(executor);
        struct toy toy;
        options.settings = toy_settings(kind);
        options.recompute = (enum deck_recompute)policy;
        toy_create(&toy, &options);
        kept[policy] = toy.engine.memory.chunks[0].slot_bytes;
        toy_destroy(&toy);
    }
    CHECK(kept[DECK_RECOMPUTE_ONLY_NORMS] < kept[DECK_RECOMPUTE_NONE]);
    CHECK(kept[DECK_RECOMPUTE_ACTIVATION] < kept[DECK_RECOMPUTE_NONE]);
    CHECK(kept[DECK_RECOMPUTE_NORMS] < kept[DECK_RECOMPUTE_ONLY_NORMS]);
    for (int policy = DECK_RECOMPUTE_NORMS; policy <= DECK_RECOMPUTE_FULL; policy++)
        CHECK(kept[policy] < kept[policy - 1]);
}

/* Each policy in each of the three layers, beside others. */
static void test_keep_table(struct executor *executor, enum toy_kind kind, int recipe)
{
    struct toy_options options = options_of(executor, kind, recipe);
    int64_t all_bytes, bytes;
    char *all = plain_state(executor, options, &all_bytes);
    for (int policy = DECK_RECOMPUTE_NONE; policy <= DECK_RECOMPUTE_FULL; policy++) {
        options.recompute = (enum deck_recompute)policy;
        options.settings.recompute = (struct recompute){.others = DECK_RECOMPUTE_NONE};
        give_policy(&options.settings.recompute, 0, policy + 1);
        give_policy(&options.settings.recompute, 2, 3 * policy + 5);
        /* of weights: for each product, or kept; with delayed scaling their amaxes then wait for the next step */
        options.settings.precision.quantizes_per_gemm = policy % 2 == 1 && recipe != DECK_RECIPE_DELAYED;
        struct toy toy;
        toy_create(&toy, &options);
        for (int layer = 0; layer < 3; layer++)
            check_kept(&toy, options, layer);
        char *state = run_steps(&toy, 1, false, &bytes);
        if (!CHECK(same(all, all_bytes, state, bytes)))
            fprintf(stderr, "    model %d, recipe %d, keep table %d\n", (int)kind, recipe, policy);
        free(state);
        toy_destroy(&toy);
    }
    free(all);
}

/* -- Offload: what has been in host memory is what was sent there -----------------------------------------------------
 */

/* One to four of four layers, beside others, with one and two slots. */
static void test_offload(struct executor *executor, enum toy_kind kind, int recipe)
{
    static const struct layer_list lists[] = {{1, {{0, 0}}}, {1, {{3, 3}}}, {2, {{0, 0}, {2, 3}}}, {1, {{0, 3}}}};
    struct toy_options options = options_of(executor, kind, recipe);
    options.settings.layers = 4;
    int64_t plain_bytes, bytes;
    char *plain = plain_state(executor, options, &plain_bytes);
    for (int i = 0; i < 4; i++) {
        struct toy toy;
        options.settings.recompute.offloaded = lists[i];
        options.recompute = i == 1 ? DECK_RECOMPUTE_QKV : DECK_RECOMPUTE_NORMS;
        options.slots = 1 + i % 2;
        toy_create(&toy, &options);
        char *state = run_steps(&toy, options.slots, false, &bytes);
        CHECK(same(plain, plain_bytes, state, bytes));
        CHECK(toy.engine.memory.offload[0].count == (i < 2 ? 1 : 1 + i));
        CHECK(toy.engine.budget.bytes[BUDGET_HOST] == toy.engine.memory.offload[0].slot_bytes * options.slots);
        free(state);
        toy_destroy(&toy);
    }
    free(plain);
}

int main(void)
{
    batches_make();
    struct executor *cpu = cpu_executor_create(2);
    for (int i = 0; i < 2; i++) {
        const int recipe = i == 0 ? DECK_RECIPE_DELAYED : DECK_RECIPE_BLOCK;
        test_keep_table(cpu, TOY_LLAMA, recipe);
        test_keep_table(cpu, TOY_ESM2, recipe);
        test_keep_table(cpu, TOY_OLMO2, recipe);
        test_offload(cpu, i == 0 ? TOY_LLAMA : TOY_ESM2, recipe);
    }
    test_keep_table(cpu, TOY_AMPLIFY, DECK_RECIPE_NVFP4);
    test_policies(cpu, TOY_LLAMA);
    test_policies(cpu, TOY_OLMO2);
    test_offload(cpu, TOY_AMPLIFY, DECK_RECIPE_NONE);
    cpu->class->destroy(cpu);
    return check_end();
}
