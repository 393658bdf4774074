/* What the program says before it runs: FLOPs, and the forecast of a deck against the engine that it becomes. */
#include "check.h"

#include "base/error.h"
#include "cpu/cpu.h"
#include "model/flops.h"
#include "plan/plan.h"
#include "ref/toy.h"

#include <string.h>

/* -- FLOPs ------------------------------------------------------------------------------------------------------- */

static struct model_settings preset(const char *name)
{
    struct deck deck;
    struct model_settings settings;
    deck_defaults(&deck);
    snprintf(deck.model.preset, sizeof deck.model.preset, "%s", name);
    CHECK(model_settings_from_deck(&settings, &deck, 0) == ERROR_NONE);
    return settings;
}

/* Figures of the recipes' specification: recipes 8, and the appendix on parallelism (four digits). */
static void test_published_flops(void)
{
    struct model_settings og2 = preset("og2_7b"), llama = preset("llama3_8b");
    CHECK_NEAR(flops_per_token(&og2, 8192, FLOPS_OPENGENOME2) * 384 * 8192, 1.6215e17, 5e-5, 0);
    CHECK_NEAR(flops_per_token(&og2, 8192, FLOPS_CAUSAL), 4.833e10, 2e-4, 0);
    CHECK_NEAR(flops_per_token(&llama, 8192, FLOPS_CAUSAL), 5.147e10, 2e-4, 0);
    CHECK_NEAR(flops_per_token(&llama, 8192, FLOPS_FULL), 5.79e10, 1e-3, 0);
    CHECK_STRING(flops_name(FLOPS_OPENGENOME2), "opengenome2");
    struct deck deck;
    deck_defaults(&deck);
    deck.data.row_tokens = 16384;
    deck.data.window = 0;
    CHECK(flops_segment(&deck) == 16384);
    deck.data.window = 8192;
    CHECK(flops_segment(&deck) == 8192);
}

/* The engine's own step, op by op. Attention's backward makes the scores again: five products for forward's two. */
static void test_step_flops(bool tied)
{
    enum { MICRO_BATCHES = 3 };
    struct executor *cpu = cpu_executor_create(1), *plan = plan_executor_create(cpu);
    struct toy_options options = toy_options(plan);
    options.settings.tied = tied;
    options.settings.head_dim = 16; /* heads wider than the residual stream */
    options.max_segments = 1;
    options.head_tokens = 20;
    struct toy toy;
    toy_create(&toy, &options);
    struct batch batches[MICRO_BATCHES];
    for (int m = 0; m < MICRO_BATCHES; m++)
        batch_create(&batches[m], options.rows, options.row_tokens, options.max_segments);
    struct schedule schedule = schedule_create(MICRO_BATCHES, 1, false);
    plan_executor_clear(plan);
    engine_step(&toy.engine, &schedule, batches, 1e-2);

    const struct plan_log *log = plan_executor_log(plan);
    double by_op[OP_COUNT] = {0}, all = 0, length = (double)options.row_tokens;
    double tokens = (double)(MICRO_BATCHES * options.rows * options.row_tokens);
    for (int64_t e = 0; e < log->count; e++)
        if (log->entries[e].kind == PLAN_LAUNCH)
            by_op[log->entries[e].op] += (double)op_flops(log->entries[e].op, plan_log_args(log, &log->entries[e]));
    for (int op = 0; op < OP_COUNT; op++)
        all += by_op[op];
    double products = by_op[OP_GEMM], attention = 3 * by_op[OP_ATTENTION_FORWARD]; /* causal: counted as half of S^2 */
    CHECK(products > 0 && attention > 0);
    CHECK(all == (double)plan_log_cost(plan_log_all(log)).flops);
    CHECK(2 * by_op[OP_ATTENTION_BACKWARD] == 5 * by_op[OP_ATTENTION_FORWARD]);
    CHECK_NEAR(flops_per_token(&options.settings, options.row_tokens, FLOPS_FULL) * tokens, products + 2 * attention,
               1e-12, 0);
    CHECK_NEAR(flops_per_token(&options.settings, options.row_tokens, FLOPS_CAUSAL) * tokens,
               products + attention * (length + 1) / length, 1e-12, 0);
    for (int m = 0; m < MICRO_BATCHES; m++)
        batch_destroy(&batches[m]);
    schedule_destroy(&schedule);
    toy_destroy(&toy);
    plan->class->destroy(plan);
    cpu->class->destroy(cpu);
}

int main(void)
{
    test_published_flops();
    test_step_flops(false);
    test_step_flops(true);
    return check_end();
}
