/* The engine runs a unit that is far larger than any of the program's models, of 40 parameters and 300 tensors, under
 * each recompute policy: it keeps what the policy says, and the gradients are right. */
#include "check.h"

#include "cpu/cpu.h"
#include "model/block.h"
#include "ref/toy.h"

enum { WIDE_WEIGHTS = 40, WIDE_LINKS = 149, WIDE_WIDTH = 128, WIDE_STATE = UNIT_FIRST_OWN, WIDE_GRADIENT = 151 };

/* state[k] = state[k - 1] + weight[k % 40], from zero. */
static void wide_forward(struct execution *e, struct unit *unit, struct tensor input)
{
    (void)input;
    for (int k = 0; k < WIDE_LINKS; k++) {
        if (!execution_wants(e, WIDE_STATE + k))
            continue;
        struct tensor state = unit_tensor(e, unit, WIDE_STATE + k);
        if (k == 0)
            LAUNCH(e->stream, FILL, fill, .x = state, .value = 0);
        else
            LAUNCH(e->stream, COPY, copy, .from = unit_tensor(e, unit, WIDE_STATE + k - 1), .to = state);
        LAUNCH(e->stream, ADD, add, .from = unit_weight(e, unit, k % WIDE_WEIGHTS), .to = state);
    }
}

/* gradient[k] = gradient[k + 1] + state[k], from zero: so backward reads every state; a weight's is the sum of its k.
 */
static void wide_backward(struct execution *e, struct unit *unit, struct tensor input, struct tensor output_gradient)
{
    (void)input, (void)output_gradient;
    for (int k = WIDE_LINKS - 1; k >= 0; k--) {
        struct tensor gradient = unit_tensor(e, unit, WIDE_GRADIENT + k);
        LAUNCH(e->stream, COPY, copy, .from = unit_tensor(e, unit, WIDE_STATE + k), .to = gradient);
        if (k + 1 < WIDE_LINKS)
            LAUNCH(e->stream, ADD, add, .from = unit_tensor(e, unit, WIDE_GRADIENT + k + 1), .to = gradient);
        struct tensor sum = unit_gradient(e, unit, k % WIDE_WEIGHTS);
        if (k + WIDE_WEIGHTS >= WIDE_LINKS && !unit_accumulates(unit, k % WIDE_WEIGHTS))
            LAUNCH(e->stream, COPY, copy, .from = gradient, .to = sum);
        else
            LAUNCH(e->stream, ADD, add, .from = gradient, .to = sum);
    }
}

static void test_wide_unit(struct executor *cpu, enum deck_recompute policy)
{
    static const struct unit_class class = {.name = "wide", .forward = wide_forward, .backward = wide_backward};
    static float weights[WIDE_WEIGHTS][WIDE_WIDTH], gradients[WIDE_WEIGHTS][WIDE_WIDTH];
    struct model_settings settings = toy_settings(TOY_LLAMA);
    struct unit unit = {.class = &class, .settings = &settings, .name = "wide", .tokens = 1};
    settings.recompute.others = policy;
    struct model model = {
        .settings = settings, .tokens = 1, .unit_count = 1, .units = &unit, .chunk_count = 1, .chunks = {{0, 1}}};
    for (int w = 0; w < WIDE_WEIGHTS; w++) {
        unit_declare_weight(&unit, w, 1, WIDE_WIDTH, STORAGE_VECTOR);
        unit_declare_parameter(&unit, w, WIDE_WIDTH, unit_constant(0), "w%d", w);
        CHECK(unit.parameters[w].offset == w * WIDE_WIDTH);
        for (int i = 0; i < WIDE_WIDTH; i++)
            weights[w][i] = (float)(w + 1) / (float)(i + 3);
    }
    for (int k = 0; k < WIDE_LINKS; k++) {
        unit_declare_tensor(&unit, WIDE_STATE + k, "state", 1, WIDE_WIDTH, ROLE_VALUE);
        unit_declare_tensor(&unit, WIDE_GRADIENT + k, "gradient", 1, WIDE_WIDTH, ROLE_VALUE);
    }
    CHECK(unit.parameter_count == WIDE_WEIGHTS && unit.tensor_count == 300);

    struct budget budget;
    struct engine_memory memory;
    struct stream stream = {cpu, STREAM_COMPUTE, NULL};
    struct batch_tensors batch = {.tokens = tensor_vector(NULL, DTYPE_I32, 1)};
    struct execution_owner owner = {.memory = &memory};
    const struct execution_services services = {.address = memory_address};
    struct execution execution = {.services = &services,
                                  .owner = &owner,
                                  .stream = &stream,
                                  .batch = &batch,
                                  .compute = DTYPE_F32,
                                  .statistic = DTYPE_F32};
    const struct memory_settings of = {
        .compute = DTYPE_F32, .statistic = DTYPE_F32, .slots = {1}, .rows = 1, .row_tokens = 1};
    budget_create(&budget, cpu);
    memory_create(&memory, &model, &of, &execution, &budget);
    /* all states are read again; what a block's policy names is not kept */
    const struct id_set dropped = block_dropped_by(&unit, policy);
    int64_t kept = 0;
    for (int k = 0; k < WIDE_LINKS; k++)
        kept += !id_set_has(&dropped, WIDE_STATE + k);
    CHECK(memory.chunks[0].slot_bytes == kept * WIDE_WIDTH * 4);
    CHECK(memory.transient_bytes <= (WIDE_LINKS - kept + 2) * WIDE_WIDTH * 4);

    unit.weight_base[STORAGE_VECTOR] = weights;
    unit.gradient_base[STORAGE_VECTOR] = gradients;
    unit.gradient_fresh = true;
    execution.pass = PASS_FORWARD;
    memory_forward_unit(&execution, &unit);
    execution.pass = PASS_BACKWARD;
    execution.gradients = GRADIENT_BOTH;
    memory_backward_unit(&execution, &unit);

    int64_t wrong = 0;
    for (int i = 0; i < WIDE_WIDTH; i++) {
        float state[WIDE_LINKS], gradient = 0, sums[WIDE_WEIGHTS] = {0};
        for (int k = 0; k < WIDE_LINKS; k++)
            state[k] = (k > 0 ? state[k - 1] : 0) + weights[k % WIDE_WEIGHTS][i];
        for (int k = WIDE_LINKS - 1; k >= 0; k--)
            sums[k % WIDE_WEIGHTS] += gradient += state[k];
        for (int w = 0; w < WIDE_WEIGHTS; w++)
            wrong += sums[w] != gradients[w][i];
    }
    CHECK(wrong == 0);
    memory_destroy(&memory);
    budget_destroy(&budget);
    unit_destroy(&unit);
}

int main(void)
{
    struct executor *cpu = cpu_executor_create(2);
    for (int policy = DECK_RECOMPUTE_NONE; policy <= DECK_RECOMPUTE_FULL; policy++)
        test_wide_unit(cpu, (enum deck_recompute)policy);
    cpu->class->destroy(cpu);
    return check_end();
}
