/* In masked training the head computes only the rows of labelled tokens: tables of rows against plain searches, the
 * capacity against the binomial distribution, and for toys the losses and gradients of all rows, with few labels and
 * with more than the capacity; replayed steps give the same bits. Injected faults: labels of other tokens, a gradient
 * that is not spread, rows left out. */
#include "check.h"

#include "base/memory.h"
#include "base/random.h"
#include "cpu/cpu.h"
#include "data/batch.h"
#include "data/labelled_rows.h"
#include "ref/late.h"
#include "ref/toy.h"
#include "ref/wrapper.h"

#include <stdlib.h>
#include <string.h>

/* -- Capacity ---------------------------------------------------------------------------------------------------- */

/* Returns the probability that more than `most` of `tokens` tokens have a label. */
static double tail(int64_t tokens, double probability, int64_t most)
{
    double sum = 0;
    for (int64_t k = most + 1; k <= tokens; k++)
        sum += exp(lgamma((double)tokens + 1) - lgamma((double)k + 1) - lgamma((double)(tokens - k) + 1) +
                   (double)k * log(probability) + (double)(tokens - k) * log1p(-probability));
    return sum;
}

static void test_capacity(void)
{
    enum { SIZES = 5, PROBABILITIES = 3 };
    static const int64_t tokens[SIZES] = {100, 1000, 8192, 32768, 65536};
    static const double probabilities[PROBABILITIES] = {0.02, 0.15, 0.4};
    for (int t = 0; t < SIZES; t++)
        for (int p = 0; p < PROBABILITIES; p++) {
            const int64_t capacity = labelled_rows_capacity(tokens[t], probabilities[p]);
            CHECK(capacity <= tokens[t] && (capacity % 16 == 0 || capacity == tokens[t]));
            CHECK(tail(tokens[t], probabilities[p], capacity) < 2e-7);
            CHECK(capacity < 32 || tail(tokens[t], probabilities[p], capacity - 16) > 1e-14);
        }
    CHECK(labelled_rows_capacity(32768, 0.15) == 5312); /* 4915.2 + 6 sqrt(4177.92) = 5303.02 */
}

/* -- Tables ------------------------------------------------------------------------------------------------------ */

enum { TOKENS = 600 };

/* Draws labels: each token of part p has one with probability shares[p]. */
static void draw_labels(int32_t *labels, int parts, const double *shares, uint64_t key)
{
    const struct random_key random = {key, RANDOM_TEST, 0};
    for (int64_t t = 0; t < TOKENS; t++) {
        const bool labelled = random_uniform(&random, (uint64_t)t) < shares[t / (TOKENS / parts)];
        labels[t] = labelled ? (int32_t)(random_bits(&random, (uint64_t)t) % 30) : BATCH_IGNORED;
    }
}

static void check_tables(const int32_t *labels, int parts, int part, int64_t wanted)
{
    static int32_t rows[TOKENS], places[TOKENS], compact[TOKENS];
    const struct labelled_rows tables = {rows, places, compact, NULL};
    const int64_t own = TOKENS / parts,
                  n = labelled_rows_select(&tables, labels, TOKENS, parts, part, labelled_rows_capacity(own, 0.15));
    const int32_t *here = labels + part * own;
    int64_t wrong = n != wanted, count = 0;
    for (int64_t t = 0; t < own; t++) {
        if (here[t] >= 0)
            wrong += rows[count] != t || places[t] != count || compact[part * n + count] != here[t];
        else
            wrong += places[t] != n;
        count += here[t] >= 0;
    }
    for (int64_t i = count; i < n; i++)
        wrong += rows[i] != 0 || compact[part * n + i] != BATCH_IGNORED;
    for (int p = 0; p < parts; p++) /* the other parts' labels follow each other as well */
        for (int64_t t = 0, i = 0; t < own; t++)
            if (labels[p * own + t] >= 0)
                wrong += compact[p * n + i++] != labels[p * own + t];
    CHECK(wrong == 0);
}

static void test_tables(void)
{
    static int32_t labels[TOKENS];
    for (int parts = 1; parts <= 4; parts++)
        for (int part = 0; part < parts; part++) {
            const int64_t own = TOKENS / parts;
            double shares[4] = {0.15, 0.1, 0.15, 0};
            draw_labels(labels, parts, shares, (uint64_t)parts);
            check_tables(labels, parts, part, labelled_rows_capacity(own, 0.15));
            shares[parts - 1] = 0.9; /* one part with too many labels gives all parts all rows */
            draw_labels(labels, parts, shares, (uint64_t)parts);
            check_tables(labels, parts, part, own);
            draw_labels(labels, parts, (const double[4]){0}, 0);
            check_tables(labels, parts, part, labelled_rows_capacity(own, 0.15));
        }
}

/* -- Heads ------------------------------------------------------------------------------------------------------- */

enum fault { RIGHT, OTHER_LABELS, NOT_SPREAD, ROWS_LEFT_OUT };

/* Watches the head, and injects a fault. */
struct head_watch {
    enum fault fault;
    const struct toy *toy;
    int64_t rows; /* rows whose losses were computed since it was set to 0 */
};

static void watch_head(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    struct head_watch *w = wrapper->self;
    const struct batch_tensors *batch = w->toy->engine.execution.batch;
    struct xent_both_args both;
    struct embedding_forward_args gather;
    if (op == OP_XENT_BOTH) {
        both = *(const struct xent_both_args *)args;
        w->rows += both.logits.rows;
        if (w->fault == OTHER_LABELS)
            both.labels = tensor_columns(&batch->labels, 0, both.labels.cols);
        args = &both;
    } else if (op == OP_EMBEDDING_FORWARD && w->fault != RIGHT) {
        gather = *(const struct embedding_forward_args *)args;
        if (w->fault == NOT_SPREAD && gather.tokens.data == batch->labelled.places.data)
            gather.tokens.data = batch->tokens.data;
        if (w->fault == ROWS_LEFT_OUT && gather.tokens.data == batch->labelled.rows.data)
            gather.origin = 20;
        args = &gather;
    }
    wrapper_pass(wrapper, stream, op, args);
}

/* Every label of every eighth token stays; with `full` all of them. */
static void make_batch(struct batch *batch, const struct toy_options *options, bool full)
{
    toy_batch(batch, options->rows, options->row_tokens, 3);
    batch->valid = 0;
    for (int64_t t = 0; t < options->rows * options->row_tokens; t++) {
        if (!full && t % 8 != 0)
            batch->labels[t] = BATCH_IGNORED;
        batch->valid += batch->labels[t] >= 0;
    }
}

struct outcome {
    double loss, evaluated, norm;
    int64_t rows, count;
    float *gradients; /* [count] */
};

static struct outcome train(struct executor *cpu, struct toy_options options, bool full, enum fault fault)
{
    struct outcome o;
    struct wrapper wrapper;
    struct toy toy;
    struct head_watch watch = {.fault = fault, .toy = &toy};
    struct batch batch;
    toy_create(&toy, &options);
    make_batch(&batch, &options, full);
    o.evaluated = engine_evaluate(&toy.engine, &batch, 1).loss_sum;
    wrapper_create(&wrapper, cpu, watch_head, &watch);
    for (int s = 0; s < STREAM_COUNT; s++)
        toy.engine.streams[s].executor = &wrapper.executor;
    struct schedule schedule = schedule_create(1, 1, options.split_backward);
    const struct engine_result result = engine_step(&toy.engine, &schedule, &batch, 1e-3);
    schedule_destroy(&schedule);
    CHECK(fault == OTHER_LABELS || result.labels == (double)batch.valid);
    o.loss = result.loss_sum;
    o.norm = result.grad_norm;
    o.rows = watch.rows;
    o.gradients = (float *)toy_gradients(&toy, &o.count);
    o.count /= (int64_t)sizeof *o.gradients;
    batch_destroy(&batch);
    toy_destroy(&toy);
    return o;
}

/* Returns the distance of two gradients as a share of their length. */
static double apart(const struct outcome *a, const struct outcome *b)
{
    double squares = 0, all = 0;
    CHECK(a->count == b->count);
    for (int64_t i = 0; i < a->count; i++) {
        const double difference = (double)a->gradients[i] - b->gradients[i];
        squares += difference * difference;
        all += (double)b->gradients[i] * b->gradients[i];
    }
    return sqrt(squares / all);
}

static void compare(struct executor *cpu, struct toy_options options, bool full, enum fault fault, double bound)
{
    const int64_t tokens = options.rows * options.row_tokens;
    const int64_t passes = options.split_backward ? 2 : 1;
    struct outcome whole = train(cpu, options, full, RIGHT);
    options.settings.label_probability = 0.15;
    struct outcome labelled = train(cpu, options, full, fault);
    const double distance = apart(&labelled, &whole);
    if (getenv("T_DISTANCES") != NULL)
        fprintf(stderr, "%s, %s, fault %d: loss %.1e, evaluated %.1e, gradients %.1e of %.1e\n",
                options.settings.family->name, full ? "all labels" : "few labels", (int)fault,
                fabs(labelled.loss / whole.loss - 1), fabs(labelled.evaluated / whole.evaluated - 1), distance, bound);
    CHECK(whole.rows == passes * tokens);
    CHECK(labelled.rows == passes * (full ? tokens : labelled_rows_capacity(tokens, 0.15)));
    const bool equal = distance <= bound && fabs(labelled.loss / whole.loss - 1) <= bound &&
                       fabs(labelled.evaluated / whole.evaluated - 1) <= bound;
    CHECK(equal == (fault == RIGHT));
    free(whole.gradients);
    free(labelled.gradients);
}

static void test_heads(struct executor *cpu)
{
    struct toy_options options = toy_options(cpu);
    options.row_tokens = 160;
    for (int i = 0; i < 4; i++) {
        options.settings = toy_settings(i % 2 == 0 ? TOY_ESM2 : TOY_AMPLIFY);
        options.head_tokens = i < 2 ? 0 : 50; /* 80 rows in two slices */
        options.split_backward = i == 2;
        compare(cpu, options, false, RIGHT, 2e-6);
        compare(cpu, options, true, RIGHT, 2e-6);
    }
    options.split_backward = false;
    for (enum fault fault = OTHER_LABELS; fault <= ROWS_LEFT_OUT; fault++)
        compare(cpu, options, false, fault, 1e-3);
    options.compute = DTYPE_BF16;
    compare(cpu, options, false, RIGHT, 1e-4);
    options.head_tokens = 0;
    for (int i = 0; i < 2; i++) { /* scales that do not depend on other rows, but for powers of two */
        options.settings = toy_settings(TOY_ESM2);
        options.settings.precision = toy_precision(i == 0 ? DECK_RECIPE_DELAYED : DECK_RECIPE_BLOCK);
        options.settings.precision.head = true;
        compare(cpu, options, false, RIGHT, 1e-4);
    }
}

/* -- Replays ----------------------------------------------------------------------------------------------------- */

/* Steps whose labels are few, but too many in each third one. Returns the state after them. */
static char *train_steps(struct executor *cpu, bool replays, int64_t *bytes)
{
    enum { STEPS = 9 };
    struct executor *late = late_executor_create(cpu);
    struct toy_options options = toy_options(late);
    struct toy toy;
    options.row_tokens = 160;
    options.settings = toy_settings(TOY_ESM2);
    options.settings.label_probability = 0.15;
    options.replays = replays;
    toy_create(&toy, &options);
    struct schedule schedule = schedule_create(1, 1, false);
    for (int s = 0; s < STEPS; s++) {
        struct batch batch;
        make_batch(&batch, &options, s % 3 == 2);
        engine_step(&toy.engine, &schedule, &batch, 1e-3);
        batch_destroy(&batch);
    }
    CHECK((late_replays(late) > STEPS) == replays); /* forwards and backwards */
    char *state = toy_state(&toy, bytes);
    schedule_destroy(&schedule);
    toy_destroy(&toy);
    late->class->destroy(late);
    return state;
}

/* Captured parts of a step are replayed only for the number of rows that they were captured with. */
static void test_replays(struct executor *cpu)
{
    int64_t bytes[2];
    char *eager = train_steps(cpu, false, &bytes[0]), *replayed = train_steps(cpu, true, &bytes[1]);
    CHECK(bytes[0] == bytes[1] && memcmp(eager, replayed, (size_t)bytes[0]) == 0);
    free(eager);
    free(replayed);
}

int main(void)
{
    test_capacity();
    test_tables();
    struct executor *cpu = cpu_executor_create(2);
    test_heads(cpu);
    test_replays(cpu);
    cpu->class->destroy(cpu);
    return check_end();
}
