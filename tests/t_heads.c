/* Fine-tuning heads match Hugging Face transformers (tests/golden/make_heads.py): logits, loss and every gradient, on
 * the oracle in double and on the CPU executor in fp32, in padded rows and packed into one row, with every recompute
 * policy and with a split backward. Weights of classes give torch's weighted loss, and a class of weight 0 gives the
 * gradients of labels without it. Injected faults in launches (no tanh, another token, other targets, no bias
 * gradients, a gradient that is not spread) each break a bound.
 *
 * With "cuda", on a GPU. */
#include "check.h"

#include "base/error.h"
#include "base/memory.h"
#include "comm/comm.h"
#include "executors.h"
#include "loader/masking.h"
#include "model/task_head.h"
#include "ref/fetch.h"
#include "ref/golden.h"
#include "ref/reference.h"
#include "ref/toy.h"
#include "ref/wrapper.h"
#include "tokenizer/tokenizer.h"

#include <hdf5.h>

enum { ROWS = 4, LONGEST = 19 };

struct head_case {
    const char *name;
    enum deck_head head;
    enum deck_problem problem;
    enum deck_pooling pooling;
    int64_t labels;
};

static const struct head_case cases[] = {
    {"esm2_sequence", DECK_HEAD_SEQUENCE, DECK_PROBLEM_CLASSIFICATION, DECK_POOLING_FIRST, 3},
    {"esm2_regression", DECK_HEAD_SEQUENCE, DECK_PROBLEM_REGRESSION, DECK_POOLING_FIRST, 2},
    {"esm2_token", DECK_HEAD_TOKEN, DECK_PROBLEM_CLASSIFICATION, DECK_POOLING_AUTO, 4},
    {"esm2_mean", DECK_HEAD_SEQUENCE, DECK_PROBLEM_CLASSIFICATION, DECK_POOLING_MEAN, 3},
    {"llama_sequence", DECK_HEAD_SEQUENCE, DECK_PROBLEM_CLASSIFICATION, DECK_POOLING_LAST, 3},
    {"llama_regression", DECK_HEAD_SEQUENCE, DECK_PROBLEM_REGRESSION, DECK_POOLING_LAST, 1},
};
enum { CASES = sizeof cases / sizeof cases[0] };

/* Relative L2 of logits and gradients, relative loss. */
static const double single_bound = 1e-5, double_bound = 1e-6;

/* -- The files ---------------------------------------------------------------------------------------------------- */

/* The contents of a file. */
struct head_file {
    struct golden golden; /* its file and settings only */
    const struct head_case *of;
    int64_t lengths[ROWS];
    double *tokens, *labels, *logits, loss;
};

/* The sizes of esm2_tiny and llama_tiny (make_bridge.py). */
static struct model_settings settings_of(const struct head_case *of)
{
    const bool esm = strncmp(of->name, "esm2", 4) == 0;
    struct model_settings s = {.family = esm ? &family_esm2 : &family_llama,
                               .layers = 2,
                               .hidden = 32,
                               .ffn = esm ? 128 : 48,
                               .heads = 4,
                               .kv_heads = esm ? 4 : 2,
                               .head_dim = 8,
                               .vocabulary = esm ? 33 : 256,
                               .token_dropout = esm,
                               .norm_eps = 1e-5,
                               .rope = {.theta = 10000},
                               .task = {of->head, of->problem, of->pooling, of->labels}};
    if (!esm)
        s.rope = (struct rope_settings){.theta = 10000, .factor = 8, .low = 1, .high = 4, .original = 32};
    return s;
}

static void file_open(struct head_file *f, const struct head_case *of)
{
    const char *top = getenv("abs_top_srcdir");
    struct golden *g = &f->golden;
    *f = (struct head_file){.of = of};
    snprintf(g->path, sizeof g->path, "%s/tests/golden/heads_%s.h5", top ? top : ".", of->name);
    g->file = H5Fopen(g->path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (g->file < 0)
        error_fatal("%s: cannot be opened", g->path);
    g->settings = settings_of(of);
    const int64_t all = of->head == DECK_HEAD_TOKEN ? ROWS * LONGEST : ROWS;
    const int64_t numbers = of->problem == DECK_PROBLEM_REGRESSION ? of->labels : 1;
    double *mask = golden_read(g, "", "mask", ROWS * LONGEST), *loss = golden_read(g, "", "loss", 1);
    for (int64_t t = 0; t < ROWS * LONGEST; t++)
        f->lengths[t / LONGEST] += mask[t] > 0;
    f->tokens = golden_read(g, "", "tokens", ROWS * LONGEST);
    f->labels = golden_read(g, "", "labels", all * numbers);
    f->logits = golden_read(g, "", "logits", all * of->labels);
    f->loss = loss[0];
    free(mask);
    free(loss);
}

static void file_close(struct head_file *f)
{
    H5Fclose((hid_t)f->golden.file);
    free(f->tokens);
    free(f->labels);
    free(f->logits);
}

/* -- Batches ------------------------------------------------------------------------------------------------------ */

/* Labels the tokens of row r, which begin at token `at` of the batch, in segment slot `slot`. */
static void label_row(const struct head_file *f, struct batch *batch, int64_t r, int64_t at, int64_t slot)
{
    const struct head_case *of = f->of;
    const bool mean = of->pooling == DECK_POOLING_MEAN; /* all but <cls> and <eos> */
    const int64_t length = f->lengths[r], first = of->pooling == DECK_POOLING_LAST ? length - 1 : mean ? 1 : 0;
    const int64_t end = mean ? length - 1 : first + 1;
    for (int64_t t = 0; of->head == DECK_HEAD_TOKEN && t < length; t++)
        batch->labels[at + t] = (int32_t)f->labels[r * LONGEST + t];
    for (int64_t i = 0; i < batch->numbers; i++)
        batch->targets[slot * batch->numbers + i] = (float)f->labels[r * batch->numbers + i];
    for (int64_t t = first; of->head == DECK_HEAD_SEQUENCE && t < end; t++)
        batch->labels[at + t] = batch->numbers > 0 ? (int32_t)slot : (int32_t)f->labels[r];
}

/* Makes a batch of padded rows, or of one packed row. */
static void make_batch(const struct head_file *f, bool packed, struct batch *batch)
{
    int64_t at = 0;
    batch_create_targets(batch, packed ? 1 : ROWS, packed ? ROWS * LONGEST : LONGEST, packed ? ROWS : 1,
                         model_numbers(&f->golden.settings));
    batch_clear(batch, 1);
    for (int64_t r = 0; r < ROWS; r++) {
        at = packed ? at : r * LONGEST;
        batch->segment_start[r] = (int32_t)at;
        batch->segment_length[r] = (int32_t)f->lengths[r];
        for (int64_t t = 0; t < f->lengths[r]; t++) {
            batch->tokens[at + t] = (int32_t)f->tokens[r * LONGEST + t];
            batch->positions[at + t] = (int32_t)t;
        }
        if (f->golden.settings.token_dropout)
            masking_scale(tokenizer_find("esm2"), batch->tokens + at, f->lengths[r], batch->scale + at);
        label_row(f, batch, r, at, r);
        at += f->lengths[r];
    }
    for (int64_t t = 0; t < batch->rows * batch->row_tokens; t++)
        batch->valid += batch->labels[t] >= 0;
    if (f->of->head == DECK_HEAD_SEQUENCE)
        batch->valid = ROWS;
}

/* -- Faults -------------------------------------------------------------------------------------------------------- */

enum fault { RIGHT, NO_TANH, OTHER_TOKEN, OTHER_TARGETS, NO_BIAS_GRADIENT, NOT_SPREAD, FAULTS };
static const char *const fault_names[FAULTS] = {"none",          "tanh left out",          "another token pooled",
                                                "other targets", "bias gradient left out", "gradient not spread"};

struct planted {
    enum fault fault;
    const struct engine *engine;
};

static void mutate(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    const struct planted *planted = wrapper->self;
    const struct batch_tensors *batch = planted->engine->execution.batch;
    union {
        struct tanh_forward_args tanh;
        struct embedding_forward_args gather;
        struct mse_args mse;
        struct gemm_args gemm;
        struct gelu_backward_args largest;
    } a;
    CHECK(op_info(op)->args_bytes <= sizeof a);
    memcpy(&a, args, (size_t)op_info(op)->args_bytes);
    if (op == OP_TANH_FORWARD && planted->fault == NO_TANH) {
        wrapper_pass(wrapper, stream, OP_COPY, &(struct copy_args){.from = a.tanh.x, .to = a.tanh.y});
        return;
    }
    if (op == OP_EMBEDDING_FORWARD && planted->fault == OTHER_TOKEN &&
        a.gather.tokens.data == batch->labelled.rows.data)
        a.gather.weight.data = tensor_at(&a.gather.weight, 1, 0);
    if (op == OP_EMBEDDING_FORWARD && planted->fault == OTHER_TOKEN &&
        a.gather.tokens.data == batch->labelled.rows.data)
        a.gather.weight.rows--;
    if (op == OP_EMBEDDING_FORWARD && planted->fault == NOT_SPREAD &&
        a.gather.tokens.data == batch->labelled.places.data)
        a.gather.origin = 1;
    if (op == OP_MSE && planted->fault == OTHER_TARGETS)
        a.mse.targets = tensor_rows(&a.mse.targets, 1, a.mse.targets.rows - 1);
    if (op == OP_MSE && planted->fault == OTHER_TARGETS)
        a.mse.targets.stride = 0;
    if (op == OP_GEMM && planted->fault == NO_BIAS_GRADIENT)
        a.gemm.sum_a = (struct tensor){0};
    wrapper_pass(wrapper, stream, op, &a);
}

static bool applies(const struct head_file *f, enum fault fault)
{
    switch (fault) {
    case NO_TANH:
        return f->golden.settings.family->task[f->of->head].dense != NULL;
    case OTHER_TARGETS:
        return f->of->problem == DECK_PROBLEM_REGRESSION;
    case NO_BIAS_GRADIENT:
        return f->golden.settings.family->task[f->of->head].bias;
    case OTHER_TOKEN:
        return f->of->head == DECK_HEAD_SEQUENCE && f->of->pooling != DECK_POOLING_MEAN;
    default:
        return f->of->head == DECK_HEAD_SEQUENCE;
    }
}

/* -- One comparison ------------------------------------------------------------------------------------------------ */

struct outcome {
    double logits, loss, gradients;
    char worst[128];
};

/* Returns the distance of the logits of labelled rows, in order, from the file's. */
static double logits_distance(const struct head_file *f, struct engine *engine)
{
    const struct unit *head = model_head(engine->model);
    const struct tensor outputs = task_head_outputs(&engine->execution, head);
    const struct tensor labels = task_head_labels(&engine->execution, head);
    struct tensor got = fetch(&engine->streams[0], &outputs), of = fetch(&engine->streams[0], &labels);
    double *a = memory_allocate(got.rows * got.cols * (int64_t)sizeof *a),
           *b = memory_allocate(got.rows * got.cols * (int64_t)sizeof *b);
    int64_t count = 0, next = 0;
    for (int64_t t = 0; t < got.rows; t++) {
        if (reference_index(&of, t) < 0)
            continue;
        while (f->of->head == DECK_HEAD_TOKEN && f->labels[next] < 0)
            next++;
        for (int64_t j = 0; j < got.cols; j++, count++) {
            a[count] = reference_load(&got, t, j);
            b[count] = f->logits[next * got.cols + j];
        }
        next++;
    }
    const double distance = golden_distance(a, b, count);
    memory_free(a);
    memory_free(b);
    memory_free(got.data);
    memory_free(of.data);
    return distance;
}

static struct outcome run_case(const struct head_file *f, struct executor *inner, enum dtype dtype, bool packed,
                               enum deck_recompute recompute, bool split, enum fault fault)
{
    struct outcome o = {0};
    struct batch batch;
    struct wrapper mutant;
    struct engine engine = {0};
    struct planted planted = {fault, &engine};
    struct model model;
    struct model_settings settings = f->golden.settings;
    make_batch(f, packed, &batch);
    wrapper_create(&mutant, inner, mutate, &planted);
    settings.recompute.others = recompute;
    model_create(&model, &settings, batch.rows * batch.row_tokens, 16);
    struct comm *self = comm_self();
    struct group *group = comm_group_create(self, NULL, "data");
    const struct engine_settings engine_settings = {.memory = {.compute = dtype,
                                                               .statistic = dtype,
                                                               .slots = {1},
                                                               .split_backward = split,
                                                               .rows = batch.rows,
                                                               .row_tokens = batch.row_tokens,
                                                               .max_segments = batch.max_segments}};
    const struct parallel_groups groups = groups_replicated(group);
    engine_create(&engine, inner, &model, &groups, &engine_settings);
    golden_load(&f->golden, &engine);
    for (int s = 0; s < STREAM_COUNT; s++)
        engine.streams[s].executor = &mutant.executor;
    struct schedule schedule = schedule_create(1, 1, split);
    struct engine_result result = engine_evaluate(&engine, &batch, 1);
    CHECK(result.labels == (double)batch.valid);
    o.logits = logits_distance(f, &engine);
    o.loss = fabs(result.loss_sum / result.labels / f->loss - 1);
    result = engine_gradients(&engine, &schedule, &batch);
    CHECK(result.labels == (double)batch.valid);
    o.loss = fmax(o.loss, fabs(result.loss_sum / result.labels / f->loss - 1));
    o.gradients = golden_gradient_distance(&f->golden, &engine, result.labels, o.worst);
    schedule_destroy(&schedule);
    engine_destroy(&engine);
    model_destroy(&model);
    comm_group_destroy(group);
    comm_destroy(self);
    batch_destroy(&batch);
    return o;
}

static bool within(const struct outcome *o, double bound)
{
    return o->logits <= bound && o->loss <= bound && o->gradients <= bound;
}

static void compare(const struct head_file *f, const char *name, struct executor *executor, enum dtype dtype,
                    double bound)
{
    for (int packed = 0; packed < 2; packed++) {
        const struct outcome o = run_case(f, executor, dtype, packed, DECK_RECOMPUTE_NONE, packed, RIGHT);
        printf("%s %s, %s: logits %.2e, loss %.2e, gradients %.2e (%s)\n", f->of->name, name,
               packed ? "packed" : "padded", o.logits, o.loss, o.gradients, o.worst);
        CHECK(within(&o, bound));
    }
    const struct outcome full = run_case(f, executor, dtype, true, DECK_RECOMPUTE_FULL, false, RIGHT);
    CHECK(within(&full, bound));
}

static void test_faults(const struct head_file *f, struct executor *executor, int *found)
{
    for (enum fault fault = NO_TANH; fault < FAULTS; fault++) {
        if (!applies(f, fault))
            continue;
        const struct outcome o = run_case(f, executor, DTYPE_F32, true, DECK_RECOMPUTE_NONE, false, fault);
        printf("    %-22s logits %.2e, loss %.2e, gradients %.2e\n", fault_names[fault], o.logits, o.loss, o.gradients);
        CHECK(!within(&o, single_bound));
        found[fault]++;
    }
}

/* -- Weights of classes -------------------------------------------------------------------------------------------- */

/* Returns the gradients of a batch as floats, [*count], and its result. Labels of class `ignored` are dropped. */
static float *weighted_gradients(const struct head_file *f, struct executor *executor, const float *weights,
                                 int32_t ignored, struct engine_result *result, int64_t *count)
{
    struct toy toy;
    struct batch batch;
    struct toy_options options = toy_options(executor);
    make_batch(f, true, &batch);
    for (int64_t t = 0; t < batch.rows * batch.row_tokens; t++)
        batch.labels[t] = batch.labels[t] == ignored ? BATCH_IGNORED : batch.labels[t];
    options.settings = f->golden.settings;
    options.rows = batch.rows;
    options.row_tokens = batch.row_tokens;
    options.max_segments = batch.max_segments;
    options.class_weights = weights;
    toy_create(&toy, &options);
    golden_load(&f->golden, &toy.engine);
    struct schedule schedule = schedule_create(1, 1, false);
    *result = engine_gradients(&toy.engine, &schedule, &batch);
    int64_t bytes;
    float *gradients = (float *)toy_gradients(&toy, &bytes);
    *count = bytes / (int64_t)sizeof *gradients;
    schedule_destroy(&schedule);
    toy_destroy(&toy);
    batch_destroy(&batch);
    return gradients;
}

/* Returns torch's weighted cross-entropy, from the file's logits. */
static double weighted_loss(const struct head_file *f, const float *weights)
{
    const int64_t count = f->of->head == DECK_HEAD_TOKEN ? ROWS * LONGEST : ROWS, n = f->of->labels;
    double sum = 0, all = 0;
    for (int64_t t = 0; t < count; t++) {
        double exps = 0;
        if (f->labels[t] < 0)
            continue;
        for (int64_t j = 0; j < n; j++)
            exps += exp(f->logits[t * n + j]);
        const double weight = (double)weights[(int)f->labels[t]];
        sum += weight * (log(exps) - f->logits[t * n + (int)f->labels[t]]);
        all += weight;
    }
    return sum / all;
}

static void test_class_weights(const struct head_file *f, struct executor *executor)
{
    static const float weights[4] = {0.5F, 3, 1.25F, 2}, without[4] = {1, 0, 1, 1};
    struct engine_result weighted, zero, dropped;
    int64_t count, same;
    free(weighted_gradients(f, executor, weights, -1, &weighted, &count));
    CHECK_NEAR(weighted.loss_sum / weighted.labels, weighted_loss(f, weights), 1e-5, 0);
    CHECK(fabs(weighted.loss_sum / weighted.labels / f->loss - 1) > 1e-3);
    float *a = weighted_gradients(f, executor, without, -1, &zero, &count);
    float *b = weighted_gradients(f, executor, NULL, 1, &dropped, &same);
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < count; i++) {
        difference += pow((double)a[i] - (double)b[i], 2);
        norm += pow((double)b[i], 2);
    }
    CHECK(count == same && zero.labels == dropped.labels && zero.labels > 0);
    CHECK(sqrt(difference / norm) < 1e-6);
    free(a);
    free(b);
}

int main(int argc, char **argv)
{
    const bool cuda = argc > 1 && strcmp(argv[1], "cuda") == 0;
    struct executor *executor = executor_named(cuda ? "cuda" : "2"), *reference = reference_executor_create();
    int found[FAULTS] = {0};
    for (int c = 0; c < CASES; c++) {
        struct head_file file;
        file_open(&file, &cases[c]);
        if (!cuda)
            compare(&file, "oracle", reference, DTYPE_F64, double_bound);
        compare(&file, cuda ? "cuda" : "cpu", executor, DTYPE_F32, single_bound);
        test_faults(&file, executor, found);
        if (cases[c].problem == DECK_PROBLEM_CLASSIFICATION && !cuda)
            test_class_weights(&file, executor);
        file_close(&file);
    }
    for (enum fault fault = NO_TANH; fault < FAULTS; fault++)
        CHECK(found[fault] > 0);
    reference->class->destroy(reference);
    executor->class->destroy(executor);
    return check_end();
}
