/* Quantized operands pass through unchanged unit code: gradients with one linear layer in emulated e4m3 are as near to
 * the oracle's as they must be, and with each recipe every parameter of toys of every family has a gradient. */
#include "steps.h"

#include "cpu/cpu.h"
#include "ref/reference.h"

/* -- Operands: one linear in emulated e4m3 through the unchanged unit code ---------------------------------------- */

static char *e4m3_gradients(struct executor *executor, enum toy_kind kind, bool quantised,
                            enum deck_recompute recompute, int64_t *bytes)
{
    static const struct precision one_linear = {
        .kinds = {[PRECISION_EIGHT] = {.quantized = true}}, .eight = {1, {{1, 1}}}, .linears = {[LINEAR_UP] = true}};
    struct toy_options options = toy_options(executor);
    options.settings = toy_settings(kind);
    options.recompute = recompute;
    struct toy toy;
    if (quantised)
        options.settings.precision = one_linear;
    toy_create(&toy, &options);
    struct schedule schedule = schedule_create(MICRO_BATCHES, 1, false);
    engine_gradients(&toy.engine, &schedule, batches);
    char *gradients = toy_gradients(&toy, bytes);
    schedule_destroy(&schedule);
    toy_destroy(&toy);
    return gradients;
}

static double float_distance(const char *a, const char *b, int64_t bytes)
{
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < bytes / (int64_t)sizeof(float); i++) {
        float x = ((const float *)a)[i], y = ((const float *)b)[i];
        difference += ((double)x - y) * ((double)x - y);
        norm += (double)y * y;
    }
    return sqrt(difference / norm);
}

static void test_operands(struct executor *cpu, struct executor *reference, enum toy_kind kind)
{
    int64_t bytes, others;
    char *plain = e4m3_gradients(cpu, kind, false, DECK_RECOMPUTE_NONE, &bytes);
    char *own = e4m3_gradients(cpu, kind, true, DECK_RECOMPUTE_NONE, &others);
    char *dropped = e4m3_gradients(cpu, kind, true, DECK_RECOMPUTE_GATE_UP, &others);
    char *oracle = e4m3_gradients(reference, kind, true, DECK_RECOMPUTE_NONE, &others);
    double to_oracle = float_distance(own, oracle, bytes), to_plain = float_distance(own, plain, bytes);
    printf("operands: e4m3 against its oracle %.2e, against fp32 %.2e\n", to_oracle, to_plain);
    /* An element that lies within fp32's rounding (2^-23 relative) of the middle between two e4m3 values may round the
     * other way: one in 2^19 by chance, and then by 2^-4 of itself. e4m3 itself moves gradients by percents. */
    CHECK(to_oracle < 1e-3);
    CHECK(to_plain > 5e-3);
    CHECK(memcmp(own, dropped, (size_t)bytes) == 0);
    free(plain);
    free(own);
    free(dropped);
    free(oracle);
}

/* -- Recipes: every parameter has a gradient ---------------------------------------------------------------------- */

static bool has_gradient(const struct toy *toy, struct unit *unit, const struct parameter *p)
{
    const struct store_shard shard = toy->engine.store->class->shard(toy->engine.store, unit, p->storage);
    for (int64_t i = 0; i < p->part.rows * p->part.cols; i++)
        if (tensor_get(&shard.gradient, 0, p->offset + i) != 0)
            return true;
    return false;
}

/* An operand that its op quantizes has no value from which a bias's gradient could be summed later. */
static void test_gradients(struct executor *cpu, enum toy_kind kind, int recipe)
{
    struct toy_options options = options_of(cpu, kind, recipe);
    options.compute = DTYPE_BF16;
    struct toy toy;
    toy_create(&toy, &options);
    struct schedule schedule = schedule_create(MICRO_BATCHES, 1, false);
    engine_gradients(&toy.engine, &schedule, batches);
    for (int u = 0; u < toy.model.unit_count; u++)
        for (int i = 0; i < toy.model.units[u].parameter_count; i++) {
            const struct parameter *p = &toy.model.units[u].parameters[i];
            if (!CHECK(has_gradient(&toy, &toy.model.units[u], p)))
                fprintf(stderr, "    recipe %d: %s has no gradient\n", recipe, p->name);
        }
    schedule_destroy(&schedule);
    toy_destroy(&toy);
}

int main(void)
{
    batches_make();
    struct executor *cpu = cpu_executor_create(2), *reference = reference_executor_create();
    for (enum toy_kind kind = TOY_LLAMA; kind < TOY_KINDS; kind++)
        for (int recipe = DECK_RECIPE_NONE; recipe <= DECK_RECIPE_NVFP4; recipe++)
            test_gradients(cpu, kind, recipe);
    test_operands(cpu, reference, TOY_LLAMA);
    test_operands(cpu, reference, TOY_ESM2);
    cpu->class->destroy(cpu);
    reference->class->destroy(reference);
    return check_end();
}
