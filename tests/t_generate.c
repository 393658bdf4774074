/* Generation with a cache of keys and values gives the logits and greedy choices of evaluating the whole prefix each
 * time, for calls of every size, on the CPU executor and the oracle; so do many sequences at once whose context moves
 * on. Sampling, alphabets and end tokens are checked, and injected faults are noticed. */
#include "check.h"

#include "base/memory.h"
#include "base/random.h"
#include "cpu/cpu.h"
#include "infer/alphabet.h"
#include "infer/decode.h"
#include "infer/sample.h"
#include "infer/text_stream.h"
#include "model/lm_head.h"
#include "ref/reference.h"
#include "ref/toy.h"
#include "ref/wrapper.h"
#include "state/initialise.h"

#include <stdlib.h>

enum {
    POSITIONS = 64,
    LEAST_ROWS = 16,
    PROMPTS = 4,
    LONGEST = 23,
    VOCABULARY = 40,
    LARGEST_VOCABULARY = 1001,
    GUARD = 64
};

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

/* call_tokens: tokens that the caching engine takes in one call; sequences: that it holds, with LEAST_ROWS of a call
 * where there are several. */
static void pair_create(struct pair *p, struct executor *executor, const struct model_settings *settings,
                        enum dtype compute, int64_t call_tokens, int64_t sequences, enum fault fault)
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
    const struct parallel_groups groups = groups_replicated(p->group);
    engine_create(&p->whole, executor, &p->whole_model, &groups, &of);
    of.memory.use = MEMORY_GENERATE;
    of.memory.row_tokens = call_tokens;
    of.memory.max_segments = of.sequences = sequences;
    of.positions = POSITIONS;
    of.least_rows = sequences > 1 ? LEAST_ROWS : 0;
    model_create(&p->cached_model, settings, call_tokens, sequences > 1 ? LEAST_ROWS : 1);
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

/* The next call of a sequence of `count` tokens, and the logits of the last one that the engine then has. */
static void extend(struct engine *e, const int32_t *tokens, int64_t count, int64_t call_tokens, double *logits)
{
    const int64_t before = engine_length(e, 0), left = count - before;
    const struct engine_piece piece = {0, tokens + before, left < call_tokens ? left : call_tokens, true};
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
    struct tensor all = lm_head_logits(&e->execution, model_head(e->model), count);
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

struct run_outcome {
    double worst;  /* relative L2 distance of logits */
    int different; /* greedy choices */
};

/* Prompts of 1, 8, 15 and 22 random tokens, each continued greedily to LONGEST + its length. */
static struct run_outcome compare(struct pair *p, int64_t call_tokens)
{
    struct run_outcome o = {0, 0};
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
                extend(&p->cached, tokens, count, call_tokens, with);
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

static struct run_outcome run(struct executor *executor, enum dtype compute, enum toy_kind kind, int64_t call_tokens,
                              enum fault fault)
{
    struct pair p;
    struct model_settings settings = toy_settings(kind);
    pair_create(&p, executor, &settings, compute, call_tokens, 1, fault);
    struct run_outcome o = compare(&p, call_tokens);
    CHECK(p.planter.scatters > 0);
    pair_destroy(&p);
    return o;
}

static void test_cache(struct executor *cpu, struct executor *reference)
{
    static const char *const names[FAULTS] = {"none",        "offset 0",          "offset one larger",
                                              "a stale row", "rows one too late", "last key cut off"};
    static const enum toy_kind kinds[3] = {TOY_LLAMA, TOY_LLAMA_TIED, TOY_MISTRAL /* a sliding window */};
    const double bound = 1e-5; /* fp32, as the golden logits; the two ways sum in other orders */
    for (int64_t call_tokens = 1; call_tokens <= 32; call_tokens = call_tokens < 4 ? call_tokens + 1 : 2 * call_tokens)
        for (int k = 0; k < 3; k++) {
            struct run_outcome o = run(cpu, DTYPE_F32, kinds[k], call_tokens, NONE);
            printf("calls of %lld: %.2e\n", (long long)call_tokens, o.worst);
            CHECK(o.worst <= bound && o.different == 0);
        }
    struct run_outcome oracle = run(reference, DTYPE_F32, TOY_LLAMA, 7, NONE);
    struct run_outcome bf16 = run(cpu, DTYPE_BF16, TOY_LLAMA, 7, NONE);
    printf("oracle %.2e, bf16 %.2e\n", oracle.worst, bf16.worst);
    CHECK(oracle.worst <= bound && oracle.different == 0);
    CHECK(bf16.worst <= 2e-2);
    for (int fault = OFFSET_FORGOTTEN; fault < FAULTS; fault++) {
        struct run_outcome o = run(cpu, DTYPE_F32, TOY_LLAMA, 5, (enum fault)fault);
        printf("    %-18s %.2e, %d other choices\n", names[fault], o.worst, o.different);
        CHECK(!(o.worst <= 10 * bound));
    }
}

/* The caching engine on the CPU against the oracle's whole evaluation. */
static void test_executors(struct executor *cpu, struct executor *reference)
{
    struct pair own, other;
    struct model_settings settings = toy_settings(TOY_LLAMA);
    pair_create(&own, cpu, &settings, DTYPE_F32, 9, 1, NONE);
    pair_create(&other, reference, &settings, DTYPE_F32, 9, 1, NONE);
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

/* -- Many sequences ---------------------------------------------------------------------------------------------- */

enum { SEQUENCES = 9, ADDED = 40, CONTEXT = 13, END = 5, OTHER_END = 14 /* tokens */, MOST = POSITIONS + ADDED };

/* What a sequence becomes by evaluating all that the model may see for each token again. `mistaken`: the context is
 * never moved on, moved one token too late, or the random numbers are those of another sequence. */
enum mistake { NO_MISTAKE, NEVER_MOVED, MOVED_LATE, OTHER_NUMBER, MISTAKES };

static void naive(struct engine *whole, const struct sampling *sampling, struct decode_sequence *s,
                  enum mistake mistaken)
{
    double logits[VOCABULARY];
    while (s->count < s->most) {
        const int64_t context = mistaken == NEVER_MOVED ? POSITIONS : mistaken == MOVED_LATE ? CONTEXT + 1 : CONTEXT;
        const int64_t first = decode_first(s->count, context);
        recompute(whole, s->tokens + first, s->count - first, logits);
        const int32_t token =
            sample_token(sampling, logits, VOCABULARY, s->number + (mistaken == OTHER_NUMBER), s->count);
        s->log_probability += sample_log_probability(logits, VOCABULARY, token);
        if (token == END || token == OTHER_END) {
            s->end = DECODE_END_TOKEN;
            return;
        }
        s->tokens[s->count++] = token;
    }
}

/* Prompts of 1, 6, 11, ... tokens. */
static void begin(struct decode_sequence *sequences, int32_t (*tokens)[MOST])
{
    for (int i = 0; i < SEQUENCES; i++) {
        const struct random_key random = {11, RANDOM_TEST, (uint64_t)i};
        const int64_t count = 1 + 5 * i;
        for (int64_t t = 0; t < count; t++)
            tokens[i][t] = (int32_t)(random_bits(&random, (uint64_t)t) % VOCABULARY);
        sequences[i] = (struct decode_sequence){
            .number = (uint64_t)i << 32, .tokens = tokens[i], .prompt = count, .count = count, .most = count + ADDED};
    }
}

static int different(const struct decode_sequence *a, const struct decode_sequence *b)
{
    int count = 0;
    for (int i = 0; i < SEQUENCES; i++)
        count += a[i].count != b[i].count || a[i].end != b[i].end ||
                 memcmp(a[i].tokens, b[i].tokens, (size_t)a[i].count * sizeof *a[i].tokens) != 0 ||
                 !(fabs(a[i].log_probability - b[i].log_probability) <= 1e-3);
    return count;
}

/* However many at once, and however few tokens a call takes: what the naive way gives. */
static void test_decode(struct executor *cpu)
{
    static int32_t tokens[2][SEQUENCES][MOST];
    struct decode_sequence wanted[SEQUENCES], found[SEQUENCES];
    const struct model_settings settings = toy_settings(TOY_LLAMA);
    const struct sampling sampling = {.temperature = 0.8, .top_p = 1, .seed = 4};
    const bool ends[VOCABULARY] = {[END] = true, [OTHER_END] = true};
    struct pair p;
    pair_create(&p, cpu, &settings, DTYPE_F32, 3 * LEAST_ROWS, SEQUENCES, NONE);
    struct decode_settings how = {
        .engine = &p.cached, .context = CONTEXT, .sampling = sampling, .ends = ends, .threads = 2};
    begin(wanted, tokens[0]);
    for (int i = 0; i < SEQUENCES; i++)
        naive(&p.whole, &sampling, &wanted[i], NO_MISTAKE);
    int ended = 0;
    for (int i = 0; i < SEQUENCES; i++)
        ended += wanted[i].end == DECODE_END_TOKEN;
    CHECK(ended > 0 && ended < SEQUENCES);
    const bool one[VOCABULARY] = {[END] = true};
    struct decode_rates unused = {0};
    how.sequences = how.call_tokens = SEQUENCES;
    how.ends = one;
    begin(found, tokens[1]);
    CHECK(decode(&how, found, SEQUENCES, &unused) && different(wanted, found) > 0);
    how.ends = ends;
    for (how.sequences = 1; how.sequences <= SEQUENCES; how.sequences += 2)
        for (how.call_tokens = SEQUENCES; how.call_tokens <= 3 * LEAST_ROWS; how.call_tokens += 13) {
            struct decode_rates rates = {0};
            begin(found, tokens[1]);
            CHECK(decode(&how, found, SEQUENCES, &rates));
            CHECK(different(wanted, found) == 0);
            CHECK(rates.added > 0 && rates.read > 0 && rates.steps <= rates.added);
        }
    for (int mistake = NEVER_MOVED; mistake < MISTAKES; mistake++) {
        begin(wanted, tokens[0]);
        for (int i = 0; i < SEQUENCES; i++)
            naive(&p.whole, &sampling, &wanted[i], (enum mistake)mistake);
        CHECK(different(wanted, found) > SEQUENCES / 2);
    }
    pair_destroy(&p);
    CHECK(decode_first(CONTEXT, CONTEXT) == 0 && decode_first(CONTEXT + 1, CONTEXT) == 6);
    CHECK(decode_first(CONTEXT + 6, CONTEXT) == 6 && decode_first(CONTEXT + 7, CONTEXT) == 12);
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
        pair_create(&p, cpu, &settings, DTYPE_F32, 3, 1, NONE);
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
    pair_create(&p, cpu, &settings, DTYPE_F32, 8, 1, NONE);
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
        {{.temperature = 1, .top_p = 0.51, .seed = 5}, {1.0 / 3, 0, 2.0 / 3, 0}},
        {{.temperature = 1, .top_p = 0.49, .seed = 6}, {0, 0, 1, 0}},
        {{.temperature = 1, .top_k = 3, .top_p = 0.58, .seed = 7}, {1.0 / 3, 0, 2.0 / 3, 0}}, /* of 0.875 */
        {{.temperature = 1, .top_k = 3, .top_p = 0.56, .seed = 8}, {0, 0, 1, 0}},
        {{.temperature = 0, .seed = 9}, {0, 0, 1, 0}},
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
    const double broken[][2] = {{NAN, NAN}, {1, NAN}, {1, INFINITY}, {1, -INFINITY}};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        CHECK(sample_token(&(struct sampling){.temperature = 1}, broken[i], 2, 0, 0) == -1);
        CHECK(sample_token(&(struct sampling){.allowed = (const bool[]){true, false}}, broken[i], 2, 0, 0) == -1);
    }
}

enum { PADDED = 64 /* ids of a model that has more than its tokenizer */ };

/* Tokens of an alphabet alone, of which the likeliest is taken where all others are likelier. */
static void test_alphabet(void)
{
    const struct tokenizer *tokenizer = tokenizer_find("esm2");
    const char *const refused[] = {"", "L\xc3\xa9", "l"};
    double logits[PADDED] = {0};
    bool *allowed;
    CHECK(tokenizer->vocabulary < PADDED && alphabet_allow(tokenizer, PADDED, "AG", &allowed) == ERROR_NONE);
    int count = 0;
    for (int32_t t = 0; t < PADDED; t++) {
        char buffer[TOKENIZER_TEXT];
        const char *text = t < tokenizer->vocabulary ? tokenizer_token(tokenizer, t, buffer) : "";
        count += allowed[t];
        CHECK(allowed[t] == (t == tokenizer->eos || strcmp(text, "A") == 0 || strcmp(text, "G") == 0));
        logits[t] = allowed[t] ? -t : t;
    }
    CHECK(count == 3);
    const struct sampling greedy = {.allowed = allowed}, drawn = {.temperature = 1, .allowed = allowed};
    const int32_t best = sample_token(&greedy, logits, PADDED, 0, 0);
    for (int32_t t = 0; t < best; t++)
        CHECK(!allowed[t]);
    for (int64_t i = 0; i < 100; i++)
        CHECK(allowed[sample_token(&drawn, logits, PADDED, 0, i)]);
    memory_free(allowed);
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        CHECK(alphabet_allow(tokenizer, PADDED, refused[i], &allowed) == ERROR_USER);
        error_clear();
        memory_free(allowed);
    }
    const double three[3] = {log(0.5), log(0.25), log(0.25)};
    CHECK_NEAR(sample_log_probability(three, 3, 1), log(0.25), 1e-12, 0);
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
    test_decode(cpu);
    test_sampling();
    test_alphabet();
    reference->class->destroy(reference);
    cpu->class->destroy(cpu);
    return check_end();
}
