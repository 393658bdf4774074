/* Gradients that use the memory of activations have the same bits as others, as have the weights after some steps.
 * Gradients stored as bf16 are the fp32 gradients rounded once, whether ops write bf16 or sums in fp32 are rounded, for
 * toys of every family and heads in one part and several. Trainings of both agree, and captured ones to the bit.
 * Injected faults: a missing vector, a tied or split head that products write, padding cleared in another type. */
#include "check.h"

#include "base/memory.h"
#include "cpu/cpu.h"
#include "plan/plan.h"
#include "plan/race.h"
#include "ref/late.h"
#include "ref/poison.h"
#include "ref/toy.h"

#include <math.h>
#include <stdlib.h>

enum { STEPS = 4, TOKENS = 48, ROWS = 2, PART = 20, FORMS = 3, BATCHES = 3 };

/* rounds: ops write the matrices' where they may. lends: activations lend their memory. */
struct form {
    struct sharding sharding;
    bool rounds, replays, lends;
    int recipe;
};

struct made {
    struct toy toy;
    struct poison poison;
};

static void make(struct made *made, struct executor *executor, enum toy_kind kind, int64_t head_tokens,
                 struct form form)
{
    struct toy_options options = toy_options(executor);
    options.settings = toy_settings(kind);
    options.settings.vocabulary = 41; /* so that there is padding behind matrices */
    options.settings.rounds_gradients = form.rounds;
    options.compute = DTYPE_BF16;
    options.sharding = form.sharding;
    options.head_tokens = head_tokens;
    options.replays = form.replays;
    options.lends = form.lends;
    if (form.recipe != DECK_RECIPE_NONE)
        options.settings.precision = toy_precision(form.recipe);
    toy_create(&made->toy, &options);
    poison_store(&made->poison, &made->toy.engine);
}

/* What the gradients were before does not matter, of the padding between them neither. */
static void spoil(struct made *made)
{
    struct weight_store *store = made->toy.engine.store;
    for (int u = 0; u < made->toy.model.unit_count; u++)
        for (int s = 0; s < STORAGE_COUNT; s++) {
            const struct store_shard shard =
                store->class->shard(store, &made->toy.model.units[u], (enum storage_class)s);
            for (int64_t i = 0; i < shard.gradient.cols; i++)
                ((uint16_t *)shard.gradient.data)[i] = f32_to_bf16(NAN);
        }
}

static void differentiate(struct made *made)
{
    struct schedule schedule = schedule_create(1, 1, false);
    struct batch batch;
    toy_batch(&batch, ROWS, TOKENS, 3);
    engine_gradients(&made->toy.engine, &schedule, &batch);
    batch_destroy(&batch);
    schedule_destroy(&schedule);
}

struct run_outcome {
    double losses[STEPS], norms[STEPS];
    char *state; /* freed with free() */
    int64_t bytes;
};

static struct run_outcome train(struct made *made)
{
    struct run_outcome outcome;
    struct schedule schedule = schedule_create(1, 1, false);
    for (int s = 0; s < STEPS; s++) {
        struct batch batch;
        toy_batch(&batch, ROWS, TOKENS, (uint64_t)(10 + s));
        const struct engine_result result = engine_step(&made->toy.engine, &schedule, &batch, 1e-2);
        outcome.losses[s] = result.loss_sum / result.labels;
        outcome.norms[s] = result.grad_norm;
        batch_destroy(&batch);
    }
    schedule_destroy(&schedule);
    outcome.state = toy_state(&made->toy, &outcome.bytes);
    return outcome;
}

/* Is x that fp32 number as bf16? Ties: a product rounds them to even, `split` away from zero. */
static bool is_rounded(double x, double from)
{
    return x == (double)bf16_to_f32(f32_to_bf16((float)from)) || x == (double)bf16_to_f32(f32_high_alone((float)from));
}

/* Elements of `made` that are not those of `exact`, rounded; how many were compared. Of a tied table all that the head
 * adds is rounded before the embedding adds to it. */
static int64_t wrong_gradients(struct made *made, struct made *exact, int64_t *compared)
{
    int64_t wrong = 0;
    for (int u = made->toy.model.settings.tied; u < made->toy.model.unit_count; u++)
        for (int s = 0; s < STORAGE_COUNT; s++) {
            struct weight_store *store = made->toy.engine.store, *other = exact->toy.engine.store;
            const struct store_shard is = store->class->shard(store, &made->toy.model.units[u], (enum storage_class)s);
            const struct store_shard was =
                other->class->shard(other, &exact->toy.model.units[u], (enum storage_class)s);
            CHECK(is.gradient.cols == was.gradient.cols);
            for (int64_t i = 0; i < is.gradient.cols; i++)
                wrong += !is_rounded(tensor_get(&is.gradient, 0, i), tensor_get(&was.gradient, 0, i));
            CHECK(is.gradient.cols == 0 || (is.gradient.dtype == DTYPE_BF16 && was.gradient.dtype == DTYPE_F32));
            *compared += is.gradient.cols;
        }
    return wrong;
}

static void test_gradients(struct executor *cpu, enum toy_kind kind, int64_t head_tokens, struct form form)
{
    struct made made, exact;
    int64_t compared = 0;
    make(&exact, cpu, kind, head_tokens, (struct form){.rounds = false});
    make(&made, cpu, kind, head_tokens, form);
    differentiate(&exact);
    spoil(&made);
    differentiate(&made);
    const int64_t wrong = wrong_gradients(&made, &exact, &compared);
    if (!CHECK(wrong == 0 && compared > 10000))
        fprintf(stderr, "    model %d, head_tokens %d, rounds %d: %lld of %lld\n", (int)kind, (int)head_tokens,
                form.rounds, (long long)wrong, (long long)compared);
    toy_destroy(&made.toy);
    toy_destroy(&exact.toy);
}

/* Returns the gradients of a unit's storage class after a step of `count` micro-batches from `first` on; freed with
 * free(). */
static double *gradients_of(struct made *made, int first, int count, int u, enum storage_class storage,
                            int64_t *elements)
{
    struct schedule schedule = schedule_create(count, 1, false);
    struct batch some[BATCHES];
    for (int b = 0; b < count; b++)
        toy_batch(&some[b], ROWS, TOKENS, (uint64_t)(3 + first + b));
    engine_gradients(&made->toy.engine, &schedule, some);
    for (int b = 0; b < count; b++)
        batch_destroy(&some[b]);
    schedule_destroy(&schedule);
    struct weight_store *store = made->toy.engine.store;
    const struct store_shard shard = store->class->shard(store, &made->toy.model.units[u], storage);
    double *values = malloc((size_t)(shard.gradient.cols + 1) * sizeof *values);
    for (int64_t i = 0; i < shard.gradient.cols; i++)
        values[i] = tensor_get(&shard.gradient, 0, i);
    *elements = shard.gradient.cols;
    return values;
}

/* Each micro-batch adds its gradient to the rounded sum of those before it, and rounds once; where ops round matrices,
 * vectors are summed in fp32 and rounded at the end. */
static void test_several(struct executor *cpu, enum toy_kind kind, int64_t head_tokens, struct form form)
{
    struct made made, exact;
    int64_t compared = 0, wrong = 0, moved = 0;
    make(&exact, cpu, kind, head_tokens, (struct form){.rounds = false});
    make(&made, cpu, kind, head_tokens, form);
    for (int u = exact.toy.model.settings.tied; u < exact.toy.model.unit_count; u++)
        for (int s = 0; s < STORAGE_COUNT; s++) {
            const bool once = made.toy.model.units[u].rounds_gradients && s == STORAGE_VECTOR;
            int64_t count;
            double *before = gradients_of(&made, 0, 1, u, (enum storage_class)s, &count);
            double *sum = gradients_of(&exact, 0, 1, u, (enum storage_class)s, &count);
            for (int b = 1; b < BATCHES; b++) {
                spoil(&made);
                double *after = gradients_of(&made, 0, b + 1, u, (enum storage_class)s, &count);
                double *added = gradients_of(&exact, b, 1, u, (enum storage_class)s, &count);
                double noise = 0; /* of gradients that are zero but for rounding, as a key's bias has */
                for (int64_t i = 0; i < count; i++)
                    noise = fmax(noise, 1e-7 * fabs(added[i]));
                for (int64_t i = 0; i < count; i++) {
                    sum[i] += added[i];
                    const double wanted = once ? sum[i] : before[i] + added[i], size = fabs(before[i]) + fabs(added[i]);
                    int exponent; /* a step of bf16 is 2^(exponent - 8) */
                    frexp(wanted, &exponent);
                    /* sums of fp32 numbers in another order may differ */
                    wrong += !(fabs(after[i] - wanted) <= ldexp(0.5, exponent - 8) + 1e-6 * size + noise);
                    moved += after[i] != before[i];
                }
                compared += count;
                free(before);
                free(added);
                before = after;
            }
            free(before);
            free(sum);
        }
    if (!CHECK(wrong == 0 && compared > 20000 && moved > compared / 2))
        fprintf(stderr, "    model %d, head_tokens %d, rounds %d: %lld of %lld\n", (int)kind, (int)head_tokens,
                form.rounds, (long long)wrong, (long long)compared);
    toy_destroy(&made.toy);
    toy_destroy(&exact.toy);
}

/* Summed in fp32 first, written as bf16, and that replayed. */
static void test_trainings(struct executor *cpu, enum toy_kind kind, int64_t head_tokens, struct sharding sharding)
{
    struct executor *late = late_executor_create(cpu);
    const struct form forms[FORMS] = {{.sharding = sharding},
                                      {.sharding = sharding, .rounds = true},
                                      {.sharding = sharding, .rounds = true, .replays = true}};
    struct made made[FORMS];
    struct run_outcome of[FORMS];
    for (int i = 0; i < FORMS; i++) {
        make(&made[i], forms[i].replays ? late : cpu, kind, head_tokens, forms[i]);
        of[i] = train(&made[i]);
    }
    CHECK(of[2].bytes == of[1].bytes && memcmp(of[2].state, of[1].state, (size_t)of[1].bytes) == 0);
    CHECK(check_apart(of[1].losses, of[0].losses, STEPS) <= 5e-3);
    CHECK(check_apart(of[1].norms, of[0].norms, STEPS) <= 5e-2);
    CHECK(late_replays(late) > 0);
    printf("model %d: losses %.1e, norms %.1e\n", (int)kind, check_apart(of[1].losses, of[0].losses, STEPS),
           check_apart(of[1].norms, of[0].norms, STEPS));
    /* what is written where it stays needs no room elsewhere */
    const struct budget *kept = &made[0].toy.engine.budget, *written = &made[1].toy.engine.budget;
    CHECK(written->bytes[BUDGET_EXCHANGE] < kept->bytes[BUDGET_EXCHANGE]);
    for (int i = 0; i < FORMS; i++) {
        toy_destroy(&made[i].toy);
        free(of[i].state);
    }
    late->class->destroy(late);
}

/* Returns whether a step has races. */
static bool races(const struct toy_options *options)
{
    struct executor *plan = plan_executor_create(NULL);
    struct toy_options planned = *options;
    planned.executor = plan;
    struct toy toy;
    toy_create(&toy, &planned);
    struct schedule schedule = schedule_create(1, 1, false);
    struct batch batch;
    toy_batch(&batch, ROWS, TOKENS, 3);
    for (int i = 0; i < 2; i++)
        engine_step(&toy.engine, &schedule, &batch, 1e-2);
    const bool found = race_check(plan_executor_log(plan), -1, NULL, 0) != 0;
    batch_destroy(&batch);
    schedule_destroy(&schedule);
    toy_destroy(&toy);
    plan->class->destroy(plan);
    return found;
}

/* Gradients in memory of their own, in that of activations, and those replayed. */
static void test_lent(struct executor *cpu, enum toy_kind kind, int recipe, struct sharding sharding)
{
    struct executor *late = late_executor_create(cpu);
    const bool rounds = sharding_rounds(&sharding);
    const struct form forms[FORMS] = {{sharding, rounds, false, false, recipe},
                                      {sharding, rounds, false, true, recipe},
                                      {sharding, rounds, true, true, recipe}};
    struct made made[FORMS];
    struct run_outcome of[FORMS];
    for (int i = 0; i < FORMS; i++) {
        make(&made[i], forms[i].replays ? late : cpu, kind, 0, forms[i]);
        of[i] = train(&made[i]);
        CHECK(of[i].bytes == of[0].bytes && memcmp(of[i].state, of[0].state, (size_t)of[0].bytes) == 0);
    }
    CHECK(late_replays(late) > 0);
    /* of three layers the first two, and the embedding unless a head uses it too */
    const struct model *model = &made[0].toy.model;
    int64_t lent = 0;
    for (int u = model->settings.tied; u < 3; u++)
        lent += unit_elements(&model->units[u]) * (rounds ? 2 : 4);
    const int64_t *own = made[0].toy.engine.budget.bytes, *less = made[1].toy.engine.budget.bytes;
    CHECK(own[BUDGET_GRADIENTS] - less[BUDGET_GRADIENTS] == lent);
    CHECK(own[BUDGET_ACTIVATIONS] == less[BUDGET_ACTIVATIONS] && own[BUDGET_EXCHANGE] == less[BUDGET_EXCHANGE]);
    for (int i = 0; i < FORMS; i++) {
        toy_destroy(&made[i].toy);
        free(of[i].state);
    }
    late->class->destroy(late);
}

/* A tied table has two contributions, and a head in parts adds up its own. */
static void test_units(struct executor *cpu)
{
    for (enum toy_kind kind = TOY_LLAMA; kind < TOY_KINDS; kind++)
        for (int parts = 0; parts < 2; parts++) {
            struct made made;
            make(&made, cpu, kind, parts ? PART : 0, (struct form){.sharding.bf16_gradients = true, .rounds = true});
            const struct model *model = &made.toy.model;
            for (int u = 0; u < model->unit_count; u++) {
                const struct unit *unit = &model->units[u];
                const bool head = u + 1 == model->unit_count, tied = model->settings.tied && (u == 0 || head);
                CHECK(unit->rounds_gradients == !(tied || (head && parts)));
            }
            toy_destroy(&made.toy);
        }
}

int main(void)
{
    struct executor *cpu = cpu_executor_create(1);
    const struct sharding bf16 = {.bf16_gradients = true}, no_masters = {.no_masters = true};
    for (enum toy_kind kind = TOY_LLAMA; kind < TOY_KINDS; kind++) {
        for (int i = 0; i < 4; i++)
            test_gradients(cpu, kind, i % 2 ? PART : 0, (struct form){.sharding = bf16, .rounds = i >= 2});
        test_gradients(cpu, kind, 0, (struct form){.sharding = no_masters, .rounds = true});
        test_several(cpu, kind, kind % 2 ? PART : 0, (struct form){.sharding = bf16, .rounds = true});
        test_several(cpu, kind, kind % 2 ? 0 : PART, (struct form){.sharding = bf16});
        test_trainings(cpu, kind, kind % 2 ? PART : 0, bf16);
        test_trainings(cpu, kind, kind % 2 ? 0 : PART, no_masters);
    }
    for (int recipe = 0; recipe < 3; recipe++)
        for (enum toy_kind kind = TOY_LLAMA; kind < TOY_KINDS; kind++) {
            const int recipes[3] = {DECK_RECIPE_NONE, DECK_RECIPE_DELAYED, DECK_RECIPE_BLOCK};
            test_lent(cpu, kind, recipes[recipe], recipe == 1 ? bf16 : (struct sharding){0});
        }
    struct toy_options lends = toy_options(cpu);
    lends.lends = true;
    CHECK(!races(&lends));
    lends.compute = DTYPE_BF16;
    lends.sharding = bf16;
    lends.settings.rounds_gradients = true;
    CHECK(!races(&lends));
    test_units(cpu);
    cpu->class->destroy(cpu);
    return check_end();
}
