/* A step whose gradient is not finite obeys train.on_divergence. "stop" ends the run with exit code 3 and leaves the
 * last checkpoint; "skip" changes no bit of weights and moments, and AdamW does not count the step; "rewind" resumes
 * from a checkpoint five times at most (t_rewind compares the results). Outliers of the gradient norm are counted, also
 * over restarts. */
#include "check.h"

#include "base/memory.h"
#include "cpu/cpu.h"
#include "ref/toy.h"
#include "ref/wrapper.h"
#include "state/gradient_norms.h"
#include "stores.h"
#include "report/history.h"
#include "train/run.h"
#include "report/verdict.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

static struct {
    struct wrapper wrapper;
    struct executor *cpu;
    int updates;     /* begun, counted by what ends the sum over all gradients */
    int first, last; /* updates whose gradients are spoilt */
    int large[2];    /* updates whose gradients are large */
    struct executor_class class;
    int64_t widest_head; /* that the device can do; 0: any */
} fault;

static void spoil(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    if (op == OP_SUM_SQUARES && fault.updates + 1 >= fault.first && fault.updates + 1 <= fault.last)
        ((float *)((const struct sum_squares_args *)args)->x.data)[0] = INFINITY;
    if (op == OP_SUM_SQUARES && (fault.updates + 1 == fault.large[0] || fault.updates + 1 == fault.large[1]))
        ((float *)((const struct sum_squares_args *)args)->x.data)[0] += 1e3f;
    if (op == OP_GRADIENT_SCALE)
        fault.updates++;
    wrapper_pass(wrapper, stream, op, args);
}

static int make_executor(struct executor **executor, const struct device_request *request)
{
    fault.cpu = cpu_executor_create(request->threads);
    fault.updates = 0;
    wrapper_create(&fault.wrapper, fault.cpu, spoil, NULL);
    fault.class = *fault.wrapper.executor.class;
    fault.class.widest_head = fault.widest_head;
    fault.wrapper.executor.class = &fault.class;
    *executor = &fault.wrapper.executor;
    return ERROR_NONE;
}

/* A run of 14 steps with a checkpoint each so many, whose updates first .. last are spoilt. */
static int train_saving(const char *name, const char *on_divergence, int every, int first, int last)
{
    char folder[500], rule[100], saves[100];
    char *overrides[] = {folder, rule, saves};
    snprintf(folder, sizeof folder, "output.folder=%s", stores_path(name));
    snprintf(rule, sizeof rule, "train.on_divergence=%s", on_divergence);
    snprintf(saves, sizeof saves, "checkpoint.every=%d", every);
    fault.first = first;
    fault.last = last;
    struct comm *self = comm_self();
    int code = run_train(self, stores_path("deck.cfg"), NULL, overrides, 3, make_executor);
    comm_destroy(self);
    fault.cpu->class->destroy(fault.cpu);
    return code;
}

static int train(const char *name, const char *on_divergence, int first, int last)
{
    return train_saving(name, on_divergence, 1, first, last);
}

static bool there(const char *name, const char *file)
{
    char path[500];
    snprintf(path, sizeof path, "%s/%s", stores_path(name), file);
    return access(path, F_OK) == 0;
}

/* -- What AdamW counts -------------------------------------------------------------------------------------------- */

/* AdamW in double, of one unit's matrices: it sees the gradients and the scale of an engine's steps, and counts those
 * that made an update. */
struct adamw {
    double *weight, *m, *v;
    int64_t count;
    int updates;
};

static struct store_shard shard_of(const struct toy *toy)
{
    return toy->engine.store->class->shard(toy->engine.store, &toy->model.units[1], STORAGE_MATRIX);
}

static void adamw_create(struct adamw *a, const struct toy *toy)
{
    const struct store_shard shard = shard_of(toy);
    *a = (struct adamw){.count = shard.weight.value.cols};
    a->weight = memory_allocate(a->count * (int64_t)sizeof(double));
    a->m = memory_allocate(a->count * (int64_t)sizeof(double));
    a->v = memory_allocate(a->count * (int64_t)sizeof(double));
    for (int64_t i = 0; i < a->count; i++)
        a->weight[i] = tensor_get(&shard.weight.value, 0, i);
}

static void adamw_step(struct adamw *a, const struct toy *toy, double rate)
{
    const struct optimizer_settings *s = &toy->engine.settings.optimizer;
    const struct store_shard shard = shard_of(toy);
    const double scale = tensor_get(&toy->engine.optimizer.scale, 0, 0);
    if (isnan(scale))
        return;
    a->updates++;
    for (int64_t i = 0; i < a->count; i++) {
        double g = tensor_get(&shard.gradient, 0, i) * scale;
        a->m[i] = s->beta1 * a->m[i] + (1 - s->beta1) * g;
        a->v[i] = s->beta2 * a->v[i] + (1 - s->beta2) * g * g;
        double m = a->m[i] / (1 - pow(s->beta1, a->updates)), v = a->v[i] / (1 - pow(s->beta2, a->updates));
        a->weight[i] -= rate * s->weight_decay * a->weight[i] + rate * m / (sqrt(v) + s->eps);
    }
}

/* The largest distance of the engine's weights from them. */
static double adamw_distance(const struct adamw *a, const struct toy *toy)
{
    const struct store_shard shard = shard_of(toy);
    double worst = 0;
    for (int64_t i = 0; i < a->count; i++)
        worst = fmax(worst, fabs(tensor_get(&shard.weight.value, 0, i) - a->weight[i]));
    return worst;
}

/* Six steps on as many batches, the third of which is spoilt, or left out. */
static void train_toy(struct toy *toy, bool spoilt)
{
    enum { STEPS = 6, THIRD = 2 };
    const double rate = 1e-2;
    struct schedule schedule = schedule_create(1, 1, false);
    struct adamw exact;
    adamw_create(&exact, toy);
    fault.first = fault.last = spoilt ? THIRD + 1 : 0;
    fault.updates = 0;
    for (int step = 0; step < STEPS; step++) {
        struct batch batch;
        if (step == THIRD && !spoilt)
            continue;
        toy_batch(&batch, 2, 48, (uint64_t)step + 1);
        struct engine_result result = engine_step(&toy->engine, &schedule, &batch, rate);
        CHECK(isfinite(result.grad_norm) == (step != THIRD));
        adamw_step(&exact, toy, rate);
        batch_destroy(&batch);
    }
    CHECK(engine_updates(&toy->engine) == STEPS - 1 && exact.updates == STEPS - 1);
    double distance = adamw_distance(&exact, toy);
    printf("after a step that was %s: %.2e from AdamW in double\n", spoilt ? "skipped" : "left out", distance);
    CHECK(distance <= 1e-6);
    memory_free(exact.weight);
    memory_free(exact.m);
    memory_free(exact.v);
    schedule_destroy(&schedule);
}

static void test_count(void)
{
    struct executor *executor, *again;
    struct toy spoilt, without;
    struct device_request request = {.threads = 1};
    make_executor(&executor, &request);
    again = cpu_executor_create(1);
    struct toy_options options = toy_options(executor);
    toy_create(&spoilt, &options);
    options.executor = again;
    toy_create(&without, &options);
    train_toy(&spoilt, true);
    train_toy(&without, false);
    int64_t bytes;
    struct store_shard a = shard_of(&spoilt), b = shard_of(&without);
    bytes = tensor_extent(&a.weight.value);
    CHECK(memcmp(a.weight.value.data, b.weight.value.data, (size_t)bytes) == 0);
    CHECK(memcmp(a.m.data, b.m.data, (size_t)bytes) == 0 && memcmp(a.v.data, b.v.data, (size_t)bytes) == 0);
    toy_destroy(&spoilt);
    toy_destroy(&without);
    fault.cpu->class->destroy(fault.cpu);
    again->class->destroy(again);
}

/* The run "skip" again from step 8 on: the count of updates is in the checkpoint. */
static void test_restart(void)
{
    char whole[32], after[32];
    stores_digest("skip", 14, whole);
    for (int step = 9; step <= 14; step++) {
        char path[500];
        snprintf(path, sizeof path, "%s/step_%08d.h5", stores_path("skip"), step);
        CHECK(unlink(path) == 0);
    }
    CHECK(train("skip", "skip", 0, 0) == 0);
    stores_digest("skip", 14, after);
    CHECK_STRING(after, whole);
}

/* -- Runs --------------------------------------------------------------------------------------------------------- */

/* What the log says of the run that diverged at step 6, and still says when it has gone on and finished. */
static void check_log(const char *name, const char *word)
{
    char path[500];
    struct run_history history;
    snprintf(path, sizeof path, "%s/log.jsonl", stores_path(name));
    CHECK(history_read(&history, path) == ERROR_NONE);
    struct run_verdict verdict = verdict_of(&history, false);
    CHECK_STRING(verdict.word, word);
    free(verdict.text);
    CHECK(history.last_count == 6);
    for (int64_t i = 0; i < history.last_count && i < 5; i++) {
        CHECK(history.last_steps[i].step == i + 1 && history.last_steps[i].numbers.loss > 0);
        CHECK(history.last_steps[i].numbers.loss == history.rows[i].numbers.loss &&
              isfinite(history.last_steps[i].numbers.grad_norm));
    }
    CHECK(history.last_steps[5].step == 6 && !isfinite(history.last_steps[5].numbers.grad_norm));
    int diverged = 0;
    for (int64_t i = 0; i < history.note_count; i++)
        if (strcmp(history.notes[i].event, "diverged") == 0) {
            CHECK(history.notes[i].step == 6 && strncmp(history.notes[i].text, "diverged: loss ", 15) == 0);
            diverged++;
        }
    CHECK(diverged == 1);
    history_destroy(&history);
}

/* Step 6 is bad, the last checkpoint is that of step 4: the log has each step once, and the return. */
static void test_rewind(void)
{
    char path[500];
    struct run_history history;
    CHECK(train_saving("rewind", "rewind", 4, 6, 6) == 0);
    CHECK(fault.updates == 14 + 2 + 1); /* step 7 was on its way */
    snprintf(path, sizeof path, "%s/log.jsonl", stores_path("rewind"));
    CHECK(history_read(&history, path) == ERROR_NONE);
    CHECK(history.row_count == 14);
    for (int64_t i = 0; i < history.row_count; i++)
        CHECK(history.rows[i].step == i + 1 && isfinite(history.rows[i].numbers.grad_norm));
    int returns = 0;
    for (int64_t i = 0; i < history.note_count; i++)
        if (strcmp(history.notes[i].event, "rewind") == 0) {
            CHECK(history.notes[i].step == 4 && strstr(history.notes[i].text, "past the data of steps 5 to 6") != NULL);
            CHECK(strstr(history.notes[i].text, "step 6: loss ") != NULL);
            returns++;
        }
    CHECK(returns == 1);
    history_destroy(&history);

    CHECK(train_saving("five", "rewind", 4, 5, 14) == 0); /* step 5, five times, and each time step 6 */
    CHECK(train_saving("six", "rewind", 4, 5, 15) == ERROR_DIVERGED);
    CHECK(there("six", "step_00000004.h5") && !there("six", "step_00000008.h5"));
    CHECK(train_saving("two", "rewind", 2, 5, 14) == 0);
    CHECK(train_saving("early", "rewind", 4, 3, 3) == ERROR_DIVERGED); /* no checkpoint yet */
    CHECK(!there("early", "step_00000004.h5"));
}

/* The rule by hand: 64 norms of 1 and 3 in turns have mean 2 and deviation sqrt(64 / 63), so 8.04 is the bound. */
static void test_norms(void)
{
    struct gradient_norms norms = {.count = 0}, again;
    double kept[GRADIENT_NORMS];
    gradient_norms_add(&norms, 1);
    gradient_norms_add(&norms, 1e6); /* too early to tell */
    CHECK(norms.outliers == 0);
    norms = (struct gradient_norms){.count = 0};
    for (int i = 0; i < 64; i++)
        gradient_norms_add(&norms, i % 2 == 0 ? 1 : 3);
    again = norms;
    gradient_norms_add(&again, 2 + 6 * sqrt(64.0 / 63) - 1e-9);
    CHECK(again.outliers == 0);
    gradient_norms_add(&norms, 2 + 6 * sqrt(64.0 / 63) + 1e-9);
    CHECK(norms.outliers == 1);
    gradient_norms_add(&norms, -1e6); /* none below */
    CHECK(norms.outliers == 1);
    for (int i = 0; i < 128; i++)
        gradient_norms_add(&norms, i % 2 == 0 ? 1 : 3);
    gradient_norms_add(&norms, 2 + 6 * sqrt(128.0 / 127) + 1e-9); /* those of before are forgotten */
    CHECK(norms.outliers == 2 && norms.count == 195);
    gradient_norms_set(&again, kept, gradient_norms_get(&norms, kept), norms.outliers);
    CHECK(kept[0] == 3 && kept[127] > 8 && again.count == 128);
    gradient_norms_add(&norms, 20);
    gradient_norms_add(&again, 20);
    CHECK(again.outliers == 3 && norms.outliers == 3);
}

/* 80 steps of which the 20th, too early, and the 70th have large gradients, and one diverges where that is not 0, in so
 * many programs: outliers as the log counts them at each step. */
static void check_outliers(const char *name, const char *const *ends, int programs, int diverges)
{
    char folder[500], path[500];
    fault.first = fault.last = diverges;
    for (int p = 0; p < programs; p++) {
        char steps[100];
        char *overrides[] = {folder, "checkpoint.every=33",     "schedule.kind=constant", "optimizer.lr=1e-5",
                             steps,  "train.on_divergence=skip"};
        snprintf(folder, sizeof folder, "output.folder=%s", stores_path(name));
        snprintf(steps, sizeof steps, "train.steps=%s", ends[p]);
        const int before = p == 0 ? 0 : atoi(ends[p - 1]);
        fault.large[0] = 20 - before;
        fault.large[1] = 70 - before;
        struct comm *self = comm_self();
        CHECK(run_train(self, stores_path("deck.cfg"), NULL, overrides, 6, make_executor) == 0);
        comm_destroy(self);
        fault.cpu->class->destroy(fault.cpu);
    }
    fault.large[0] = fault.large[1] = 0;
    struct run_history history;
    snprintf(path, sizeof path, "%s/log.jsonl", stores_path(name));
    CHECK(history_read(&history, path) == ERROR_NONE && history.row_count == 80);
    for (int64_t i = 0; i < history.row_count; i++)
        CHECK(history.rows[i].numbers.outliers == (i + 1 >= 70));
    history_destroy(&history);
}

static void test_outliers(void)
{
    static const char *const whole[] = {"80"}, *const parts[] = {"40", "68", "71", "80"};
    check_outliers("outliers", whole, 1, 0);
    check_outliers("parts", parts, 4, 0);
    check_outliers("without", whole, 1, 30); /* the norm of a skipped step is none */
}

static void write_deck(void)
{
    FILE *deck = fopen(stores_path("deck.cfg"), "w");
    fprintf(deck,
            "model = { layers = 1; hidden = 16; ffn = 32; heads = 2; };\n"
            "data = { train = \"%s\"; row_tokens = 32; };\n"
            "train = { steps = 14; global_batch = 4; micro_batch = 2; };\n"
            "checkpoint = { every = 1; keep = 20; };\nlog = { every = 1; tensorboard = false; };\n"
            "device = { threads = 1; };\n",
            stores_path("five.h5"));
    fclose(deck);
}

int main(void)
{
    char before[32], at[32], after[32], whole[32];
    stores_begin();
    stores_write_periodic(stores_path("five.h5"));
    write_deck();

    CHECK(train("whole", "stop", 0, 0) == 0);
    stores_digest("whole", 14, whole);
    CHECK(whole[0] != '\0');

    fault.widest_head = 6; /* the deck's have 8 */
    CHECK(train("wide", "stop", 0, 0) == ERROR_USER && !there("wide", "step_00000001.h5"));
    fault.widest_head = 0;

    CHECK(train("stop", "stop", 6, 6) == ERROR_DIVERGED);
    CHECK(there("stop", "step_00000005.h5") && !there("stop", "step_00000006.h5") && !there("stop", "final_model.h5"));
    check_log("stop", "diverged");
    CHECK(train("stop", "stop", 0, 0) == 0); /* the fault gone, the run goes on as if it had never been */
    stores_digest("stop", 14, after);
    CHECK_STRING(after, whole);
    check_log("stop", "finished");

    CHECK(train("skip", "skip", 6, 6) == 0);
    stores_digest("skip", 5, before);
    stores_digest("skip", 6, at);
    stores_digest("skip", 7, after);
    CHECK(before[0] != '\0');
    CHECK_STRING(at, before); /* no weight and no moment has changed */
    CHECK(strcmp(after, before) != 0);
    CHECK(there("skip", "final_model.h5"));
    test_restart();

    CHECK(train("nine", "skip", 3, 11) == 0); /* nine in a row */
    CHECK(train("ten", "skip", 3, 12) == ERROR_DIVERGED);
    CHECK(there("ten", "step_00000011.h5") && !there("ten", "step_00000012.h5"));
    test_rewind();
    test_norms();
    test_outliers();
    stores_end();
    test_count();
    return check_end();
}
