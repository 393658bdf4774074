/* Generation with a cache of keys and values against the evaluation of the whole prefix each time: the same logits and
 * the same greedy choice, for several prompts and for chunks of every size, on the CPU executor and on the oracle. Then
 * faults planted at the door, each of which must be noticed. And sampling. */
#include "check.h"

#include "base/memory.h"
#include "base/random.h"
#include "cpu/cpu.h"
#include "infer/sample.h"
#include "infer/text_stream.h"
#include "model/lm_head.h"
#include "ref/reference.h"
#include "ref/toy.h"
#include "ref/wrapper.h"
#include "step/initialise.h"

#include <stdlib.h>

enum { POSITIONS = 64, PROMPTS = 4, LONGEST = 23, VOCABULARY = 40, LARGEST_VOCABULARY = 1001, GUARD = 64 };

/* -- Planted faults ---------------------------------------------------------------------------------------------- */

enum fault { NONE, OFFSET_FORGOTTEN, OFFSET_LARGER, STALE_ROW, ROW_TOO_LATE, KEYS_CUT, FAULTS };

struct planter {
    enum fault fault;
    int scatters; /* into the cache */
};

static void plant(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    struct planter *planter = wrapper->self;
    static int32_t number, places[POSITIONS];
    if (op == OP_SCATTER) {
        struct scatter_args a = *(const struct scatter_args *)args;
        planter->scatters++;
        if (planter->fault == STALE_ROW && planter->scatters == 5) /* the second call's second block */
            return;
        for (int64_t t = 0; t < a.rows.cols; t++)
            places[t] = ((const int32_t *)a.rows.data)[t] + (planter->fault == ROW_TOO_LATE);
        a.rows.data = places;
        wrapper_pass(wrapper, stream, op, &a);
    } else if (op == OP_ATTENTION_FORWARD) {
        struct attention_forward_args a = *(const struct attention_forward_args *)args;
        number = *(const int32_t *)a.segments.q_offset.data;
        if (planter->fault == OFFSET_FORGOTTEN) {
            number = 0;
            a.segments.q_offset.data = &number;
        } else if (planter->fault == OFFSET_LARGER) {
            number++;
            a.segments.q_offset.data = &number;
        } else if (planter->fault == KEYS_CUT) {
            number = *(const int32_t *)a.segments.kv_length.data - 1;
            a.segments.kv_length.data = &number;
        }
        wrapper_pass(wrapper, stream, op, &a);
    } else {
        wrapper_pass(wrapper, stream, op, args);
    }
}

/* -- Engines ----------------------------------------------------------------------------------------------------- */

struct pair {
    struct model whole_model, cached_model;
    struct engine whole, cached; /* evaluates prefixes; holds a cache */
    struct comm *self;
    struct group *group;
    struct wrapper wrapper;
    struct planter planter;
};

/* chunk: tokens that the caching engine takes in one call. */
static void pair_create(struct pair *p, struct executor *executor, const struct model_settings *settings,
                        enum dtype compute, int64_t chunk, enum fault fault)
{
    p->planter = (struct planter){fault, 0};
    wrapper_create(&p->wrapper, executor, plant, &p->planter);
    p->self = comm_self();
    p->group = comm_group_create(p->self, NULL, "data");
    struct engine_settings of = {.memory = {.use = MEMORY_EVALUATE,
                                            .compute = compute,
                                            .statistic = DTYPE_F32,
                                            .slots = {1},
                                            .rows = 1,
                                            .row_tokens = POSITIONS,
                                            .max_segments = 1}};
    model_create(&p->whole_model, settings, POSITIONS, POSITIONS);
    const struct groups groups = groups_replicated(p->group);
    engine_create(&p->whole, executor, &p->whole_model, &groups, &of);
    of.memory.use = MEMORY_GENERATE;
    of.memory.row_tokens = chunk;
    of.positions = POSITIONS;
    model_create(&p->cached_model, settings, chunk, 1);
    engine_create(&p->cached, &p->wrapper.executor, &p->cached_model, &groups, &of);
    engine_initialise(&p->whole, 7);
    engine_initialise(&p->cached, 7);
}

static void pair_destroy(struct pair *p)
{
    engine_destroy(&p->whole);
    engine_destroy(&p->cached);
    model_destroy(&p->whole_model);
    model_destroy(&p->cached_model);
    comm_group_destroy(p->group);
    comm_destroy(p->self);
}

/* The next chunk of a sequence of `count` tokens, and the logits of the last one that the engine then has. */
static void extend(struct engine *e, const int32_t *tokens, int64_t count, int64_t chunk, double *logits)
{
    const int64_t before = engine_length(e, 0), left = count - before;
    const struct engine_piece piece = {0, tokens + before, left < chunk ? left : chunk, true};
    const struct tensor found = engine_extend(e, &piece, 1);
    for (int64_t v = 0; v < found.cols; v++)
        logits[v] = tensor_get(&found, 0, v);
}

/* The logits of the last of count tokens, without any cache. */
static void recompute(struct engine *e, const int32_t *tokens, int64_t count, double *logits)
{
    struct batch batch;
    static double losses[POSITIONS];
    batch_create(&batch, 1, count, 1);
    for (int64_t t = 0; t < count; t++) {
        batch.tokens[t] = tokens[t];
        batch.positions[t] = (int32_t)t;
    }
    batch.segment_length[0] = (int32_t)count;
    engine_score(e, &batch, losses);
    batch_destroy(&batch);
    struct tensor all = lm_head_logits(&e->context, &e->model->units[e->model->unit_count - 1], count);
    for (int64_t v = 0; v < e->model->settings.vocabulary; v++)
        logits[v] = tensor_get(&all, count - 1, v);
}

static double distance(const double *a, const double *b, int64_t vocabulary)
{
    double difference = 0, norm = 0;
    for (int64_t v = 0; v < vocabulary; v++) {
        difference += (a[v] - b[v]) * (a[v] - b[v]);
        norm += b[v] * b[v];
    }
    return sqrt(difference / norm);
}

struct outcome {
    double worst;  /* relative L2 distance of logits */
    int different; /* greedy choices */
};

/* Prompts of 1, 8, 15 and 22 random tokens, each continued greedily to LONGEST + its length. */
static struct outcome compare(struct pair *p, int64_t chunk)
{
    struct outcome o = {0, 0};
    for (int prompt = 0; prompt < PROMPTS; prompt++) {
        struct random_key random = {3, RANDOM_TEST, (uint64_t)prompt};
        int32_t tokens[POSITIONS];
        int64_t count = 1 + 7 * prompt, end = count + LONGEST;
        for (int64_t t = 0; t < count; t++)
            tokens[t] = (int32_t)(random_bits(&random, (uint64_t)t) % VOCABULARY);
        engine_truncate(&p->cached, 0, 0);
        while (count < end) {
            double with[VOCABULARY], without[VOCABULARY];
            while (engine_length(&p->cached, 0) < count)
                extend(&p->cached, tokens, count, chunk, with);
            recompute(&p->whole, tokens, count, without);
            double d = distance(with, without, VOCABULARY);
            if (!(d <= o.worst))
                o.worst = d;
            struct sampling greedy = {0};
            int32_t choice = sample_token(&greedy, without, VOCABULARY, 0, count);
            o.different += sample_token(&greedy, with, VOCABULARY, 0, count) != choice;
            tokens[count++] = choice;
        }
    }
    return o;
}

static struct outcome run(struct executor *executor, enum dtype compute, bool tied, int64_t chunk, enum fault fault)
{
    struct pair p;
    struct model_settings settings = toy_settings(tied ? TOY_LLAMA_TIED : TOY_LLAMA);
    pair_create(&p, executor, &settings, compute, chunk, fault);
    struct outcome o = compare(&p, chunk);
    CHECK(p.planter.scatters > 0);
    pair_destroy(&p);
    return o;
}

static void test_cache(struct executor *cpu, struct executor *reference)
{
    static const char *const names[FAULTS] = {"none",        "offset 0",          "offset one larger",
                                              "a stale row", "rows one too late", "last key cut off"};
    const double bound = 1e-5; /* fp32, as the golden logits; the two ways sum in other orders */
    for (int64_t chunk = 1; chunk <= 32; chunk = chunk < 4 ? chunk + 1 : 2 * chunk)
        for (int tied = 0; tied <= 1; tied++) {
            struct outcome o = run(cpu, DTYPE_F32, tied, chunk, NONE);
            printf("chunks of %lld: %.2e\n", (long long)chunk, o.worst);
            CHECK(o.worst <= bound && o.different == 0);
        }
    struct outcome oracle = run(reference, DTYPE_F32, false, 7, NONE), bf16 = run(cpu, DTYPE_BF16, false, 7, NONE);
    printf("oracle %.2e, bf16 %.2e\n", oracle.worst, bf16.worst);
    CHECK(oracle.worst <= bound && oracle.different == 0);
    CHECK(bf16.worst <= 2e-2);
    for (int fault = OFFSET_FORGOTTEN; fault < FAULTS; fault++) {
        struct outcome o = run(cpu, DTYPE_F32, false, 5, (enum fault)fault);
        printf("    %-18s %.2e, %d other choices\n", names[fault], o.worst, o.different);
        CHECK(!(o.worst <= 10 * bound));
    }
}

/* The caching engine on the CPU against the oracle's whole evaluation. */
static void test_executors(struct executor *cpu, struct executor *reference)
{
    struct pair own, other;
    struct model_settings settings = toy_settings(TOY_LLAMA);
    pair_create(&own, cpu, &settings, DTYPE_F32, 9, NONE);
    pair_create(&other, reference, &settings, DTYPE_F32, 9, NONE);
    int32_t tokens[31];
    double with[VOCABULARY], without[VOCABULARY];
    for (int t = 0; t < 31; t++)
        tokens[t] = (t * 7 + t * t) % VOCABULARY;
    while (engine_length(&own.cached, 0) < 31)
        extend(&own.cached, tokens, 31, 9, with);
    recompute(&other.whole, tokens, 31, without);
    CHECK(distance(with, without, VOCABULARY) <= 1e-5);
    pair_destroy(&own);
    pair_destroy(&other);
}

/* Logits of any vocabulary, those that are no multiple of what rows of logits are padded to among them, and nothing
 * behind them. */
static void test_vocabularies(struct executor *cpu)
{
    static const int64_t vocabularies[] = {27, 33, 63, 64, 65, 100, LARGEST_VOCABULARY};
    static double logits[LARGEST_VOCABULARY + GUARD];
    for (size_t i = 0; i < sizeof vocabularies / sizeof *vocabularies; i++) {
        struct pair p;
        const int64_t vocabulary = vocabularies[i];
        const int32_t tokens[] = {1, 5, (int32_t)vocabulary - 1};
        double without[LARGEST_VOCABULARY];
        struct model_settings settings = toy_settings(TOY_LLAMA);
        settings.vocabulary = vocabulary;
        pair_create(&p, cpu, &settings, DTYPE_F32, 3, NONE);
        for (int64_t v = 0; v < LARGEST_VOCABULARY + GUARD; v++)
            logits[v] = -12345;
        extend(&p.cached, tokens, 3, 3, logits);
        recompute(&p.whole, tokens, 3, without);
        CHECK(distance(logits, without, vocabulary) <= 1e-5);
        int64_t untouched = 0;
        for (int64_t v = vocabulary; v < LARGEST_VOCABULARY + GUARD; v++)
            untouched += logits[v] == -12345;
        CHECK(untouched == LARGEST_VOCABULARY + GUARD - vocabulary);
        pair_destroy(&p);
    }
}

/* An engine for inference holds weights, and neither gradients nor moments. */
static void test_memory(struct executor *cpu)
{
    struct pair p;
    struct model_settings settings = toy_settings(TOY_LLAMA);
    pair_create(&p, cpu, &settings, DTYPE_F32, 8, NONE);
    CHECK(p.whole.budget.bytes[BUDGET_WEIGHTS] > 0);
    CHECK(p.whole.budget.bytes[BUDGET_GRADIENTS] == 0 && p.whole.budget.bytes[BUDGET_OPTIMIZER] == 0);
    CHECK(p.whole.budget.bytes[BUDGET_ACTIVATIONS] == 0);
    const struct model_settings *s = &p.cached_model.settings;
    CHECK(p.cached.budget.bytes[BUDGET_GRADIENTS] == 0 && p.cached.budget.bytes[BUDGET_OPTIMIZER] == 0);
    CHECK(p.cached.budget.bytes[BUDGET_ACTIVATIONS] == s->layers * POSITIONS * 2 * s->kv_heads * s->head_dim * 4);
    pair_destroy(&p);
}

/* -- Sampling ---------------------------------------------------------------------------------------------------- */

enum { DRAWS = 20000 };

static void test_sampling(void)
{
    /* probabilities 0.5, 0.25, 0.125, 0.125 of ids 2, 0, 3, 1 */
    const double logits[4] = {log(0.25), log(0.125), log(0.5), log(0.125)};
    const struct {
        struct sampling sampling;
        double expected[4];
    } cases[] = {
        {{.temperature = 1, .seed = 1}, {0.25, 0.125, 0.5, 0.125}},
        {{.temperature = 0.5, .seed = 2}, {4.0 / 22, 1.0 / 22, 16.0 / 22, 1.0 / 22}},
        {{.temperature = 1, .top_k = 2, .seed = 3}, {1.0 / 3, 0, 2.0 / 3, 0}},
        {{.temperature = 1, .top_k = 3, .seed = 4}, {0.25 / 0.875, 0.125 / 0.875, 0.5 / 0.875, 0}},
        {{.temperature = 1, .top_p = 0.6, .seed = 5}, {1.0 / 3, 0, 2.0 / 3, 0}},
        {{.temperature = 1, .top_p = 0.4, .seed = 6}, {0, 0, 1, 0}},
        {{.temperature = 0, .seed = 7}, {0, 0, 1, 0}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        int seen[4] = {0}, again = 0;
        for (int64_t i = 0; i < DRAWS; i++) {
            int32_t token = sample_token(&cases[c].sampling, logits, 4, 0, i);
            again += token == sample_token(&cases[c].sampling, logits, 4, 0, i);
            seen[token]++;
        }
        CHECK(again == DRAWS);
        for (int v = 0; v < 4; v++) {
            double p = cases[c].expected[v];
            CHECK_NEAR(seen[v] / (double)DRAWS, p, 0, 5 * sqrt(p * (1 - p) / DRAWS));
        }
    }
    const double equal[3] = {1, 1, 0};
    CHECK(sample_token(&(struct sampling){0}, equal, 3, 0, 0) == 0); /* the lowest id of equals */
    const double broken[2] = {NAN, NAN};
    CHECK(sample_token(&(struct sampling){.temperature = 1}, broken, 2, 0, 0) == -1);
    CHECK(sample_token(&(struct sampling){0}, broken, 2, 0, 0) == -1);
}

/* What is printed of bytes that come one by one, two by two, ...: the same text, and after each piece whole
 * characters. */
static void test_stream(void)
{
    static const struct {
        const char *bytes, *printed;
    } cases[] = {{"plain\n\ttext", "plain\n\ttext"},
                 {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
                 {"a\x1b[2Jb\x7f", "a?[2Jb?"},
                 {"\xff\xc3(\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd(\xef\xbf\xbd"},
                 {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* a surrogate */
                 {"\xe0\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* too long a form */
                 {"\xf0\x9f\xc3\xa9", "\xef\xbf\xbd\xc3\xa9"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int64_t piece = 1; piece <= 4; piece++) {
            const int64_t bytes = (int64_t)strlen(cases[i].bytes);
            char *printed;
            size_t count;
            struct text_stream stream = {.out = open_memstream(&printed, &count)};
            for (int64_t at = 0; at < bytes; at += piece) {
                text_stream_put(&stream, cases[i].bytes + at, bytes - at < piece ? bytes - at : piece);
                CHECK(strncmp(printed, cases[i].printed, count) == 0);
                CHECK(((unsigned char)cases[i].printed[count] & 0xc0) != 0x80); /* no character is cut */
            }
            text_stream_end(&stream);
            fclose(stream.out);
            CHECK_STRING(printed, cases[i].printed);
            free(printed);
        }
}

int main(void)
{
    test_stream();
    struct executor *cpu = cpu_executor_create(2), *reference = reference_executor_create();
    test_cache(cpu, reference);
    test_executors(cpu, reference);
    test_vocabularies(cpu);
    test_memory(cpu);
    test_sampling();
    reference->class->destroy(reference);
    cpu->class->destroy(cpu);
    return check_end();
}
