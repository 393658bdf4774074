/* An executor that runs everything late, and demands of captured work what CUDA demands (tests/ref/capture.h), gives
 * the bits of one that runs at once: training that runs ahead of the device, captured and replayed parts, offload,
 * delayed scaling and NVFP4, for toys of every family. Quantization errors that a step measures match a count by hand,
 * and measuring changes no bit. A step does not race with a snapshot taken before it. */
#include "check.h"

#include "cpu/cpu.h"
#include "ref/late.h"
#include "ref/toy.h"
#include "ref/wrapper.h"
#include "plan/plan.h"
#include "plan/race.h"
#include "state/snapshot.h"
#include "stores.h"
#include "report/history.h"
#include "train/run.h"
#include "setup/precision.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MICRO_BATCHES = 5, STEPS = 7, WAYS = 3 };

struct way {
    bool replays, ahead;
};

struct found {
    struct engine_result results[STEPS];
    double seconds[STEPS];
    char *state;
    int64_t bytes;
    int replays; /* that the flight recorder has at the end */
};

static int recorded_replays(void)
{
    char *text, *at;
    size_t bytes;
    int count = 0;
    FILE *file = open_memstream(&text, &bytes);
    launch_dump(file);
    fclose(file);
    for (at = text; (at = strstr(at, "replay ")) != NULL; at++)
        count++;
    free(text);
    return count;
}

static void destroy_batches(struct batch *batches)
{
    for (int m = 0; m < MICRO_BATCHES; m++) {
        memset(batches[m].tokens, 0x7f, (size_t)batch_bytes(&batches[m]));
        batch_destroy(&batches[m]);
    }
}

static void train(struct found *found, struct toy_options options, struct executor *executor, struct way way)
{
    struct toy toy;
    options.executor = executor;
    options.replays = way.replays;
    toy_create(&toy, &options);
    struct schedule schedule = schedule_create(MICRO_BATCHES, options.slots, options.split_backward);
    int taken = 0;
    for (int s = 0; s < STEPS; s++) {
        struct batch batches[MICRO_BATCHES];
        for (int m = 0; m < MICRO_BATCHES; m++) {
            toy_batch(&batches[m], options.rows, options.row_tokens, (uint64_t)(s * MICRO_BATCHES + m));
            batches[m].number = s * MICRO_BATCHES + m;
        }
        toy.engine.decoupled_rate = 3e-2 / (s + 2);
        engine_begin(&toy.engine, &schedule, batches, 1e-2 / (s + 1));
        destroy_batches(batches);
        if (!way.ahead)
            CHECK(engine_ready(&toy.engine) == (executor->class->event_passed == NULL));
        while (taken <= s - (way.ahead ? 1 : 0)) {
            found->results[taken] = engine_take(&toy.engine);
            found->seconds[taken++] = engine_seconds(&toy.engine);
        }
    }
    while (taken < STEPS) {
        found->results[taken] = engine_take(&toy.engine);
        found->seconds[taken++] = engine_seconds(&toy.engine);
    }
    CHECK(!engine_ready(&toy.engine));
    found->replays = recorded_replays();
    engine_synchronize(&toy.engine);
    found->state = toy_state(&toy, &found->bytes);
    schedule_destroy(&schedule);
    toy_destroy(&toy);
}

static void test(struct executor *cpu, enum toy_kind kind, int slots, bool split, int recipe)
{
    static const struct way ways[WAYS] = {{false, false}, {false, true}, {true, true}};
    struct toy_options options = toy_options(cpu);
    options.settings = toy_settings(kind);
    options.settings.precision = toy_precision(recipe);
    options.slots = slots;
    options.split_backward = split;
    options.recompute = DECK_RECOMPUTE_NORMS;
    options.settings.decoupled = slots == 2;
    struct found plain, other;
    train(&plain, options, cpu, ways[0]);
    if (!split) /* what layers keep is sent to the host and back, in recordings too */
        options.settings.recompute.offloaded = (struct layer_list){1, {{0, 2}}};
    for (int w = 0; w < WAYS; w++) {
        struct executor *late = late_executor_create(cpu);
        train(&other, options, late, ways[w]);
        CHECK(other.bytes == plain.bytes && memcmp(other.state, plain.state, (size_t)plain.bytes) == 0);
        CHECK(memcmp(other.results, plain.results, sizeof plain.results) == 0);
        /* a step takes the time of its launches, however far the host runs ahead */
        for (int s = 0; s < STEPS; s++)
            CHECK(other.seconds[s] == other.seconds[1] || s == 0);
        CHECK(other.seconds[1] > 100);
        /* all but the first of its kind */
        CHECK((late_replays(late) > STEPS * MICRO_BATCHES) == ways[w].replays);
        CHECK(ways[w].replays ? other.replays > MICRO_BATCHES : other.replays == 0);
        free(other.state);
        late->class->destroy(late);
    }
    for (int s = 1; s < STEPS; s++)
        CHECK(plain.results[s].loss_sum != plain.results[s - 1].loss_sum);
    free(plain.state);
}

/* -- Micro-batches of as many tokens and slots, in rows of another length or full ---------------------------------- */

/* Launches of attention: such as say that segments are shorter than they are, or full where they are not; such as say
 * that they are full. */
struct looked {
    int wrong, full;
};

static void look_at_segments(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    struct looked *looked = wrapper->self;
    const struct attention_segments *said = NULL;
    if (op == OP_ATTENTION_FORWARD)
        said = &((const struct attention_forward_args *)args)->segments;
    if (op == OP_ATTENTION_BACKWARD)
        said = &((const struct attention_backward_args *)args)->segments;
    for (int64_t s = 0; said != NULL && s < said->q_length.cols; s++) {
        const int32_t length = ((const int32_t *)said->q_length.data)[s];
        looked->wrong += length > said->longest || (said->full && length < said->longest);
    }
    looked->full += said != NULL && said->full;
    wrapper_pass(wrapper, stream, op, args);
}

/* One row that is one segment. */
static void join_rows(struct batch *batch)
{
    const int64_t tokens = batch->rows * batch->row_tokens, slots = batch->rows * batch->max_segments;
    memset(batch->segment_start, 0, (size_t)slots * sizeof *batch->segment_start);
    memset(batch->segment_length, 0, (size_t)slots * sizeof *batch->segment_length);
    batch->segment_length[0] = (int32_t)tokens;
    batch->rows = 1;
    batch->row_tokens = tokens;
    batch->max_segments = slots;
}

/* Rows of one slot each, with the row's first segment, or full. */
static void leave_one_slot(struct batch *batch, bool full)
{
    for (int64_t row = 0; row < batch->rows; row++) {
        const int32_t first = batch->segment_length[row * batch->max_segments];
        batch->segment_start[row] = (int32_t)(row * batch->row_tokens);
        batch->segment_length[row] = full ? (int32_t)batch->row_tokens : first;
    }
    batch->max_segments = 1;
    batch->full = full;
}

static void test_rows(struct executor *cpu)
{
    enum { ROUNDS = 4 };
    struct looked looked = {0};
    struct wrapper wrapper;
    wrapper_create(&wrapper, cpu, look_at_segments, &looked);
    struct executor *late = late_executor_create(&wrapper.executor);
    struct toy_options options = toy_options(late);
    struct toy toy;
    options.replays = true;
    toy_create(&toy, &options);
    struct schedule schedule = schedule_create(MICRO_BATCHES, 1, false);
    for (int s = 0; s < ROUNDS * 4; s++) {
        struct batch batches[MICRO_BATCHES];
        for (int m = 0; m < MICRO_BATCHES; m++) {
            const int kind = (s + m) % 4;
            toy_batch(&batches[m], options.rows, options.row_tokens, (uint64_t)m);
            if (kind == 0)
                join_rows(&batches[m]);
            else if (kind > 1)
                leave_one_slot(&batches[m], kind == 3);
        }
        engine_step(&toy.engine, &schedule, batches, 1e-3);
        destroy_batches(batches);
    }
    CHECK(late_replays(late) > ROUNDS * 4 * MICRO_BATCHES && looked.wrong == 0 && looked.full > 0);
    schedule_destroy(&schedule);
    toy_destroy(&toy);
    late->class->destroy(late);
}

/* -- What quantization loses, at some of the steps ---------------------------------------------------------------- */

enum { MEASURED = 5, TOY_LAYERS = 3, TOY_OPERANDS = (TOY_LAYERS + 1 /* the head */) * LINEAR_COUNT * OPERAND_COUNT };

/* The same, by hand: from what the launches that measure are given, in the order in which they are run. */
struct counted {
    const struct engine *engine;
    double by_hand[MEASURED][TOY_OPERANDS][STATISTICS];
    int steps; /* that have begun to measure */
};

/* Of copies with one scale for the tensor, in formats of 3 and 2 digits behind the first. */
static void count_operand(double sums[STATISTICS], const struct quantization_statistic_args *a)
{
    const bool e5m2 = a->rule.format == FORMAT_E5M2;
    const double scale = tensor_get(&a->scale, 0, 0), largest = e5m2 ? 57344 : 448;
    const int digits = e5m2 ? 2 : 3, least = e5m2 ? -14 : -6;
    int exponent;
    for (int64_t i = 0; i < tensor_count(&a->x); i++) {
        const double x = tensor_get(&a->x, i / a->x.cols, i % a->x.cols);
        const double value = fabs((double)(float)((float)x * (1.0f / (float)scale)));
        frexp(value, &exponent);
        const double step = ldexp(1, (exponent - 1 > least ? exponent - 1 : least) - digits);
        const double copy = fmin(rint(value / step) * step, largest) * scale;
        sums[STATISTIC_COUNT]++;
        sums[STATISTIC_UNDERFLOWS] += x != 0 && copy == 0;
        sums[STATISTIC_CLIPPED] += value > largest * (1 + ldexp(1, -20));
        sums[STATISTIC_ERROR] += (copy - fabs(x)) * (copy - fabs(x));
        sums[STATISTIC_SQUARES] += x * x;
        sums[STATISTIC_AMAX] = fmax(sums[STATISTIC_AMAX], fabs(x));
    }
    sums[STATISTIC_SCALES]++;
    sums[STATISTIC_POWERS] += frexp(scale, &exponent) == 0.5;
    sums[STATISTIC_SCALE] = fmax(sums[STATISTIC_SCALE], scale);
    sums[STATISTIC_INVERSE] = fmax(sums[STATISTIC_INVERSE], (double)(1.0f / (float)scale));
}

static void count_by_hand(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    struct counted *counted = wrapper->self;
    const double *errors = counted->engine->quantization_errors.data;
    if (op == OP_FILL && errors != NULL && ((const struct fill_args *)args)->x.data == errors)
        CHECK(counted->steps++ < MEASURED);
    if (op == OP_QUANTIZATION_STATISTIC) {
        const struct quantization_statistic_args *a = args;
        const int64_t operand = ((const double *)a->result.data - errors) / STATISTICS;
        if (CHECK(counted->steps > 0 && operand >= 0 && operand < TOY_OPERANDS))
            count_operand(counted->by_hand[counted->steps - 1][operand], a);
    }
    wrapper_pass(wrapper, stream, op, args);
}

static bool is_measured(int step)
{
    return step % 3 != 1; /* some right after another */
}

/* Layers 1 and 3 of 3 are measured. */
static struct precision measured_precision(bool measures)
{
    struct deck deck;
    struct precision precision;
    deck_defaults(&deck);
    deck.precision.recipe = DECK_RECIPE_DELAYED;
    deck.precision.history = 2;
    deck.statistics.every = measures;
    strcpy(deck.statistics.layers, "1,3");
    CHECK(precision_from_deck(&precision, &deck, TOY_LAYERS) == ERROR_NONE);
    return precision;
}

/* What the engine has found at the step that it took last, and what was counted. */
static void compare(const struct engine *engine, const struct counted *counted, int step)
{
    static double errors[TOY_OPERANDS][STATISTICS];
    const int of_layer = LINEAR_COUNT * OPERAND_COUNT;
    engine_quantization_errors(engine, errors[0]);
    for (int i = 0; i < TOY_OPERANDS; i++) {
        for (int k = 0; k < STATISTICS; k++) {
            const double by_hand = counted->by_hand[step][i][k];
            const bool rounded = k == STATISTIC_ERROR || k == STATISTIC_SQUARES; /* sums in another order */
            CHECK(fabs(errors[i][k] - by_hand) <= (rounded ? 1e-12 * by_hand : 0));
        }
        /* all operands of the layers that are named, and no others; scales that no step has made before are 1 */
        const bool named = i / of_layer == 0 || i / of_layer == 2;
        CHECK(errors[i][STATISTIC_SCALES] == (named ? MICRO_BATCHES : 0));
        CHECK((errors[i][STATISTIC_SCALE] == 1) == (named && step == 0));
    }
    /* rows of the queries', keys' and values' product, in the first layer: its inputs and its gradients */
    CHECK(errors[OPERAND_INPUT][STATISTIC_COUNT] == MICRO_BATCHES * 2 * 48 * 32);
    CHECK(errors[OPERAND_GRADIENT][STATISTIC_COUNT] > errors[OPERAND_INPUT][STATISTIC_COUNT]);
}

/* Trains, and compares what the engine has found at each step with what was counted by hand. */
static void train_measured(struct found *found, struct executor *cpu, struct way way, bool measures)
{
    static struct counted counted;
    struct wrapper wrapper;
    struct toy toy;
    wrapper_create(&wrapper, cpu, count_by_hand, &counted);
    struct executor *late = late_executor_create(&wrapper.executor);
    struct toy_options options = toy_options(late);
    options.settings = toy_settings(TOY_LLAMA);
    options.settings.precision = measured_precision(measures);
    options.recompute = DECK_RECOMPUTE_NORMS;
    options.replays = way.replays;
    counted = (struct counted){.engine = &toy.engine};
    toy_create(&toy, &options);
    CHECK(toy.engine.quantization_errors.rows == (measures ? TOY_OPERANDS : 0));
    struct schedule schedule = schedule_create(MICRO_BATCHES, 1, false);
    int taken = 0, compared = 0;
    for (int s = 0; s < STEPS; s++) {
        struct batch batches[MICRO_BATCHES];
        for (int m = 0; m < MICRO_BATCHES; m++)
            toy_batch(&batches[m], options.rows, options.row_tokens, (uint64_t)(s * MICRO_BATCHES + m));
        toy.engine.statistics = measures && is_measured(s);
        engine_begin(&toy.engine, &schedule, batches, 1e-2 / (s + 1));
        destroy_batches(batches);
        for (; taken < s + (way.ahead && s + 1 < STEPS ? 0 : 1); taken++) {
            found->results[taken] = engine_take(&toy.engine);
            if (measures && is_measured(taken))
                compare(&toy.engine, &counted, compared++);
        }
    }
    CHECK(compared == (measures ? MEASURED : 0) && counted.steps == compared);
    CHECK((late_replays(late) > STEPS * MICRO_BATCHES) == way.replays);
    engine_synchronize(&toy.engine);
    found->state = toy_state(&toy, &found->bytes);
    schedule_destroy(&schedule);
    toy_destroy(&toy);
    late->class->destroy(late);
}

static void test_losses(struct executor *cpu)
{
    static const struct way ways[WAYS] = {{false, false}, {false, true}, {true, true}};
    struct found plain, other;
    train_measured(&plain, cpu, ways[0], false);
    for (int w = 0; w < WAYS; w++) {
        train_measured(&other, cpu, ways[w], true);
        CHECK(other.bytes == plain.bytes && memcmp(other.state, plain.state, (size_t)plain.bytes) == 0);
        CHECK(memcmp(other.results, plain.results, sizeof plain.results) == 0);
        free(other.state);
    }
    free(plain.state);
}

/* -- Snapshots --------------------------------------------------------------------------------------------------- */

/* Races between the copies of a snapshot and the step that is begun behind it. */
static int64_t races_with_snapshot(struct executor *cpu, struct toy_options options, bool waits)
{
    struct executor *plan = plan_executor_create(cpu);
    struct schedule schedule = schedule_create(1, 1, false);
    struct snapshot snapshot;
    struct batch batch;
    struct toy toy;
    struct launch_race race;
    options.executor = plan;
    toy_create(&toy, &options);
    toy_batch(&batch, options.rows, options.row_tokens, 3);
    snapshot_create(&snapshot, &toy.engine);
    plan_executor_clear(plan);
    engine_step(&toy.engine, &schedule, &batch, 1e-3);
    snapshot_take(&snapshot);
    if (!waits)
        toy.engine.copied.serial = 0; /* the planted fault */
    engine_step(&toy.engine, &schedule, &batch, 1e-3);
    const int64_t races = race_check(plan_executor_log(plan), -1, &race, 1);
    snapshot_destroy(&snapshot);
    batch_destroy(&batch);
    schedule_destroy(&schedule);
    toy_destroy(&toy);
    plan->class->destroy(plan);
    return races;
}

/* The next update waits for the copies, and they for the update before. */
static void test_snapshot(struct executor *cpu)
{
    struct toy_options options = toy_options(cpu);
    for (int i = 0; i < 2; i++) {
        CHECK(races_with_snapshot(cpu, options, true) == 0);
        CHECK(races_with_snapshot(cpu, options, false) > 0);
        options.compute = DTYPE_BF16;
    }
}

/* -- Learning rates of embedding and head -------------------------------------------------------------------------- */

/* One step from the start. decoupled < 0: all learn at `rate`. */
static void one_step(struct toy *toy, struct executor *cpu, enum toy_kind kind, double rate, double decoupled)
{
    struct toy_options options = toy_options(cpu);
    struct schedule schedule = schedule_create(1, 1, false);
    struct batch batch;
    options.settings = toy_settings(kind);
    options.settings.decoupled = decoupled >= 0;
    toy_create(toy, &options);
    toy_batch(&batch, options.rows, options.row_tokens, 3);
    toy->engine.decoupled_rate = decoupled;
    engine_step(&toy->engine, &schedule, &batch, rate);
    batch_destroy(&batch);
    schedule_destroy(&schedule);
}

/* A weight as the optimizer has it. */
static const float *values(struct toy *toy, int unit, const struct weight *weight)
{
    struct weight_store *store = toy->engine.store;
    const struct store_shard shard = store->class->shard(store, &toy->model.units[unit], weight->storage);
    return (const float *)shard.weight.value.data + weight->offset;
}

/* Matrices of embedding and head move at the one rate, all else at the other. */
static void test_decoupled(struct executor *cpu, enum toy_kind kind)
{
    struct toy slow, fast, both;
    one_step(&slow, cpu, kind, 1e-3, -1);
    one_step(&fast, cpu, kind, 2e-3, -1);
    one_step(&both, cpu, kind, 1e-3, 2e-3);
    const int last = both.model.unit_count - 1;
    for (int u = 0; u <= last; u++)
        for (int w = 0; w < both.model.units[u].weight_count; w++) {
            const struct weight *weight = &both.model.units[u].weights[w];
            const bool ends = weight->storage == STORAGE_MATRIX && (u == 0 || u == last);
            const size_t bytes = (size_t)(weight->rows * weight->cols) * sizeof(float);
            if (weight->home != &both.model.units[u]) /* not declared, or another unit's */
                continue;
            const float *own = values(&both, u, weight);
            CHECK(memcmp(own, values(ends ? &fast : &slow, u, weight), bytes) == 0);
            CHECK(memcmp(own, values(ends ? &slow : &fast, u, weight), bytes) != 0);
        }
    toy_destroy(&slow);
    toy_destroy(&fast);
    toy_destroy(&both);
}

/* -- Rows of a run ------------------------------------------------------------------------------------------------ */

static struct executor *under;

static int make_executor(struct executor **executor, const struct device_request *request)
{
    under = cpu_executor_create(request->threads);
    *executor = late_executor_create(under);
    return ERROR_NONE;
}

/* The times of a run's rows are those of the device, though its host is a step ahead but for a few micro-batches: also
 * in the first row and the last, and around a checkpoint, for which the host waits. */
static void test_rows_of_run(void)
{
    enum { ROWS = 7 };
    char folder[500];
    char *overrides[] = {folder};
    struct run_history history;
    struct comm *self = comm_self();
    stores_begin();
    stores_write_periodic(stores_path("five.h5"));
    FILE *deck = fopen(stores_path("deck.cfg"), "w");
    fprintf(deck,
            "model = { layers = 2; hidden = 32; ffn = 64; heads = 2; };\n"
            "data = { train = \"%s\"; row_tokens = 64; window = 48; };\n"
            "train = { steps = %d; global_batch = 24; micro_batch = 1; };\n"
            "checkpoint = { every = 4; };\nlog = { every = 1; tensorboard = false; };\n"
            "device = { threads = 1; };\n",
            stores_path("five.h5"), ROWS);
    fclose(deck);
    snprintf(folder, sizeof folder, "output.folder=%s", stores_path("run"));
    CHECK(run_train(self, stores_path("deck.cfg"), NULL, overrides, 1, make_executor) == ERROR_NONE);
    CHECK(history_read(&history, stores_path("run/log.jsonl")) == ERROR_NONE && history.row_count == ROWS);
    for (int64_t i = 0; i < history.row_count; i++) {
        const struct history_row *row = &history.rows[i], *inner = &history.rows[1];
        const bool waited = i == 0 || i == 4; /* the host's time before the step counts too */
        CHECK(inner->numbers.seconds > 1000);
        if (!CHECK(row->numbers.seconds >= inner->numbers.seconds &&
                   row->numbers.seconds <= inner->numbers.seconds + (waited ? 100 : 0)))
            fprintf(stderr, "    step %lld: %g s, step 2: %g s\n", (long long)row->step, row->numbers.seconds,
                    inner->numbers.seconds);
    }
    history_destroy(&history);
    under->class->destroy(under);
    comm_destroy(self);
    stores_end();
}

int main(void)
{
    test_rows_of_run();
    struct executor *cpu = cpu_executor_create(2);
    test_rows(cpu);
    test_losses(cpu);
    test_snapshot(cpu);
    test_decoupled(cpu, TOY_LLAMA);
    test_decoupled(cpu, TOY_LLAMA_TIED);
    for (enum toy_kind kind = TOY_LLAMA; kind < TOY_KINDS; kind++) {
        test(cpu, kind, 1, false, DECK_RECIPE_NONE);
        test(cpu, kind, 2, kind == TOY_ESM2, DECK_RECIPE_NONE);
    }
    test(cpu, TOY_ESM2, 2, false, DECK_RECIPE_DELAYED);
    test(cpu, TOY_LLAMA, 1, false, DECK_RECIPE_NVFP4); /* whose random numbers a replay draws again */
    cpu->class->destroy(cpu);
    return check_end();
}
