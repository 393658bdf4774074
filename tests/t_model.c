/* Parameter counts of all presets, initial values of all families, rotary frequencies, learning rates and recompute
 * policies have the recipes' values. */
#include "check.h"
#include "deck/fields.h"

#include "base/error.h"
#include "base/memory.h"
#include "model/model.h"
#include "train/learning_rate.h"
#include "setup/model.h"
#include "setup/recompute.h"

#include <stdlib.h>

static const struct model_preset *preset_at(int index)
{
    for (int f = 0; families[f] != NULL; f++)
        for (const struct model_preset *p = families[f]->presets; p->name != NULL; p++)
            if (index-- == 0)
                return p;
    return NULL;
}

/* Every preset: the published count, the formula and the sum over declared parameters agree. */
static void test_presets(void)
{
    int presets = 0;
    for (const struct model_preset *p; (p = preset_at(presets)) != NULL; presets++) {
        struct deck deck;
        deck_defaults(&deck);
        snprintf(deck.model.preset, sizeof deck.model.preset, "%s", p->name);
        struct model_settings settings;
        CHECK(model_settings_from_deck(&settings, &deck, 0) == ERROR_NONE);
        if (!CHECK(model_parameter_count(&settings) == p->parameters))
            fprintf(stderr, "    %s: %lld, published %lld\n", p->name, (long long)model_parameter_count(&settings),
                    (long long)p->parameters);
        struct model model;
        model_create(&model, &settings, 16, 16);
        int64_t declared = 0;
        for (int u = 0; u < model.unit_count; u++)
            for (int i = 0; i < model.units[u].parameter_count; i++)
                declared += model.units[u].parameters[i].rows * model.units[u].parameters[i].cols;
        CHECK(declared == p->parameters);
        model_destroy(&model);
    }
    CHECK(presets >= 22);
}

/* A preset with what the deck changes, and mistakes. */
static void test_settings(void)
{
    struct deck deck;
    struct model_settings s;
    deck_defaults(&deck);
    strcpy(deck.model.preset, "llama32_1b");
    deck.model.layers = 2;
    deck.model.hidden = 384;
    deck.model.ffn = 1536;
    deck.model.heads = deck.model.kv_heads = 6;
    CHECK(model_settings_from_deck(&s, &deck, 0) == ERROR_NONE);
    CHECK(model_parameter_count(&s) == 53970816 && s.head_dim == 64 && s.tied && s.rope.factor == 32);
    deck.model.spike_no_more = deck.model.scaled_init = true;
    CHECK(model_settings_from_deck(&s, &deck, 0) == ERROR_NONE);
    CHECK(!s.tied && s.embedding_std == 1 && !s.decay_embedding);
    CHECK_NEAR(s.output_std, 0.02 / 2, 1e-12, 0);
    CHECK(s.init_std == 0.02 && s.decay_matrices && !s.decay_vectors);

    const struct {
        int64_t layers, hidden, ffn, heads, kv_heads;
        const char *preset, *says;
    } wrong[] = {{0, 64, 64, 4, 4, "", "model.layers"},
                 {2, 64, 64, 4, 3, "", "model.kv_heads"},
                 {2, 66, 64, 4, 4, "", "model.head_dim"},
                 {2, 60, 64, 4, 4, "", "model.head_dim"},
                 {2, 64, 64, 4, 4, "llama", "llama32_1b"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        deck_defaults(&deck);
        strcpy(deck.model.preset, wrong[i].preset);
        deck.model.layers = wrong[i].layers;
        deck.model.hidden = wrong[i].hidden;
        deck.model.ffn = wrong[i].ffn;
        deck.model.heads = wrong[i].heads;
        deck.model.kv_heads = wrong[i].kv_heads;
        CHECK(model_settings_from_deck(&s, &deck, 256) == ERROR_USER);
        CHECK(strstr(error_message(), wrong[i].says) != NULL);
        error_clear();
    }
    deck_defaults(&deck);
    deck.model.layers = 1;
    deck.model.hidden = deck.model.ffn = 64;
    deck.model.heads = 4;
    deck.model.norm_eps = 1e-50;
    CHECK(model_settings_from_deck(&s, &deck, 256) == ERROR_USER);
    CHECK(strstr(error_message(), "key model.norm_eps = 1e-50: must be from 1e-35 to 1") != NULL);
    error_clear();
    deck.model.norm_eps = 0;
    CHECK(model_settings_from_deck(&s, &deck, 256) == ERROR_NONE && s.vocabulary == 256 && s.kv_heads == 4);
    deck.model.vocabulary = 100;
    CHECK(model_settings_from_deck(&s, &deck, 256) == ERROR_USER);
    error_clear();
}

/* The policy of each of 6 layers as its number, by a deck's section `memory`; or the message. */
static void check_recompute(const char *memory, const char *expected)
{
    struct deck deck;
    struct recompute recompute;
    char text[256], got[8] = "";
    snprintf(text, sizeof text, "memory = { %s };", memory);
    CHECK(deck_read_text(&deck, text, "T", NULL, 0) == ERROR_NONE);
    int code = recompute_from_deck(&recompute, &deck, 6);
    for (int layer = 0; layer < 6 && code == ERROR_NONE; layer++)
        got[layer] = (char)('0' + recompute_of(&recompute, layer));
    CHECK(code == (expected[0] == 'k' ? ERROR_USER : ERROR_NONE));
    CHECK_STRING(code == ERROR_NONE ? got : error_message(), expected);
    error_clear();
}

/* The objective is the family's unless the deck says otherwise; token dropout and the token that a head reads follow.
 */
static void test_objective(void)
{
    static const struct {
        int family, objective;
        bool causal, drops;
    } cases[] = {{DECK_FAMILY_FIRST, DECK_OBJECTIVE_FAMILY, true, false},
                 {DECK_FAMILY_FIRST, DECK_OBJECTIVE_MASKED, false, false},
                 {-1, DECK_OBJECTIVE_FAMILY, false, true},
                 {-1, DECK_OBJECTIVE_CAUSAL, true, false},
                 {-1, DECK_OBJECTIVE_MASKED, false, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct deck deck;
        struct model_settings s;
        deck_defaults(&deck);
        deck.model.family = cases[i].family >= 0 ? cases[i].family : family_choice(&family_esm2);
        deck.model.objective = cases[i].objective;
        deck.model.layers = 1;
        deck.model.hidden = deck.model.ffn = 32;
        deck.model.heads = 4;
        CHECK(model_causal_from_deck(&deck) == cases[i].causal && model_drops_tokens(&deck) == cases[i].drops);
        CHECK(model_settings_from_deck(&s, &deck, 33) == ERROR_NONE);
        CHECK(model_causal(&s) == cases[i].causal && s.token_dropout == cases[i].drops);
        deck.model.head = DECK_HEAD_SEQUENCE;
        CHECK(model_task_from_deck(&deck).pooling == (cases[i].causal ? DECK_POOLING_LAST : DECK_POOLING_FIRST));
        CHECK(model_padding(&s) == s.family->padding && model_zero_row(&s) == s.family->zero_row);
        s.pad.given = true;
        s.pad.id = 7;
        CHECK(model_padding(&s) == (s.family->padding < 0 ? -1 : 7));
    }
}

static void test_recompute(void)
{
    check_recompute("", "333333");
    check_recompute("recompute = \"none\";", "000000");
    check_recompute("recompute_layers = \"full:1-2,5,none:6\";", "773370");
    check_recompute("recompute = \"fit\";", "333333");
    check_recompute("recompute = \"fit\"; fitted_layers = \"qkv:1-4,gate_up:5-6\";", "555544");
    check_recompute("recompute_layers = \" attention : 3 , 4-4,activation:1 , only_norms:6\";", "236631");
    static const char *const unreadable[] = {"1",        "full",    "full:",   "fill:1",  "full:1,", ",",
                                             "full:2-1", "full:x",  "fit:1",   ":1",      "full 1",  "FULL:1",
                                             "full:-1",  "full::1", "qkv:1;2", "full:1 2"};
    for (size_t i = 0; i < sizeof unreadable / sizeof unreadable[0]; i++) {
        char memory[128], message[256];
        snprintf(memory, sizeof memory, "recompute_layers = \"%s\";", unreadable[i]);
        snprintf(
            message, sizeof message,
            "key memory.recompute_layers = \"%s\": must be policies of memory.recompute with their layers, counted "
            "from 1, such as \"full:1-8,qkv:9-12,20\"; \"\" for none",
            unreadable[i]);
        check_recompute(memory, message);
    }
    check_recompute("recompute_layers = \"full:5-7\";",
                    "key memory.recompute_layers = \"full:5-7\": layers are 1 to 6, by model.layers");
    check_recompute("recompute_layers = \"full:0\";",
                    "key memory.recompute_layers = \"full:0\": layers are 1 to 6, by model.layers");
    check_recompute("recompute_layers = \"full:1-3,qkv:2\";",
                    "key memory.recompute_layers = \"full:1-3,qkv:2\": layer 2 is named twice");
    check_recompute("recompute = \"fit\"; fitted_layers = \"full:1-5\";",
                    "key memory.fitted_layers = \"full:1-5\": must name all 6 layers, as a run writes it, or be \"\"");
    check_recompute("recompute = \"fit\"; recompute_layers = \"full:1-6\";",
                    "key memory.recompute_layers = \"full:1-6\": memory.recompute = \"fit\" chooses a policy for every "
                    "layer; to use "
                    "this list, set memory.recompute to a policy");
    check_recompute("offload_layers = \"1-2,6\"; recompute_layers = \"full:2\";", "373333");
    check_recompute("offload_layers = \"2-7\";",
                    "key memory.offload_layers = \"2-7\": layers are 1 to 6, by model.layers");
    check_recompute("offload_layers = \"2,1-3\";", "key memory.offload_layers = \"2,1-3\": layer 2 is named twice");
    check_recompute("offload_layers = \"full:1\";",
                    "key memory.offload_layers = \"full:1\": must be layers and ranges of layers, counted from 1 and "
                    "separated by commas, such as \"1-8,20\"; \"\" for none");
    char list[64];
    recompute_print(list, sizeof list, DECK_RECOMPUTE_QKV, 2, DECK_RECOMPUTE_GATE_UP, 6);
    CHECK_STRING(list, "qkv:1-2,gate_up:3-6");
    recompute_print(list, sizeof list, DECK_RECOMPUTE_FULL, 1, DECK_RECOMPUTE_ATTENTION, 2);
    CHECK_STRING(list, "full:1,attention:2");
    recompute_print(list, sizeof list, DECK_RECOMPUTE_QKV, 6, DECK_RECOMPUTE_GATE_UP, 6);
    CHECK_STRING(list, "qkv:1-6");
    recompute_print(list, sizeof list, DECK_RECOMPUTE_QKV, 0, DECK_RECOMPUTE_GATE_UP, 6);
    CHECK_STRING(list, "gate_up:1-6");
    recompute_print(list, sizeof list, DECK_RECOMPUTE_NONE, 6, DECK_RECOMPUTE_NONE, 6);
    CHECK_STRING(list, "none:1-6");

    /* more ranges of a policy than there is room for */
    struct deck deck;
    struct recompute recompute;
    deck_defaults(&deck);
    strcpy(deck.memory.recompute_layers, "full:1");
    for (int i = 1; i <= LAYER_RANGES; i++)
        snprintf(deck.memory.recompute_layers + strlen(deck.memory.recompute_layers), 8, ",%d", 2 * i + 1);
    CHECK(recompute_from_deck(&recompute, &deck, 99) == ERROR_USER);
    CHECK(strstr(error_message(), "more than 32 ranges of layers; name fewer") != NULL);
    error_clear();
    *strrchr(deck.memory.recompute_layers, ',') = '\0';
    CHECK(recompute_from_deck(&recompute, &deck, 99) == ERROR_NONE);
    CHECK(recompute_of(&recompute, 62) == DECK_RECOMPUTE_FULL && recompute_of(&recompute, 63) == DECK_RECOMPUTE_NORMS);
}

static double *initial_values(const struct parameter *p)
{
    double *values = memory_allocate(p->rows * p->cols * (int64_t)sizeof *values);
    parameter_initial_values(p, 42, 0, p->rows * p->cols, values);
    return values;
}

/* Means and deviations of initial weights by the recipes' rules: 4 layers, hidden 64 (opengenome2 test_train). */
static void measure(const struct model *model, const char *suffix, double *mean, double *deviation)
{
    double sum = 0, squares = 0, count = 0;
    for (int u = 0; u < model->unit_count; u++) {
        for (int i = 0; i < model->units[u].parameter_count; i++) {
            const struct parameter *p = &model->units[u].parameters[i];
            size_t length = strlen(p->name), tail = strlen(suffix);
            if (length < tail || strcmp(p->name + length - tail, suffix) != 0)
                continue;
            double *values = initial_values(p);
            for (int64_t e = 0; e < p->rows * p->cols; e++) {
                sum += values[e];
                squares += values[e] * values[e];
                count++;
            }
            memory_free(values);
        }
    }
    *mean = sum / count;
    *deviation = sqrt(squares / count - *mean * *mean);
}

static void test_init(void)
{
    for (int special = 0; special <= 1; special++) {
        struct deck deck;
        struct model_settings s;
        deck_defaults(&deck);
        deck.model.layers = 4;
        deck.model.hidden = 64;
        deck.model.ffn = 128;
        deck.model.heads = 4;
        deck.model.spike_no_more = deck.model.scaled_init = special;
        CHECK(model_settings_from_deck(&s, &deck, 256) == ERROR_NONE);
        struct model model;
        model_create(&model, &s, 16, 16);
        const struct {
            const char *suffix;
            double plain, special;
        } expected[] = {{"q_proj.weight", 0.02, 0.02},
                        {"gate_proj.weight", 0.02, 0.02},
                        {"o_proj.weight", 0.02, 0.0070710678},
                        {"down_proj.weight", 0.02, 0.0070710678},
                        {"lm_head.weight", 0.02, 0.02},
                        {"embed_tokens.weight", 0.02, 1.0},
                        {"layernorm.weight", 0, 0}};
        for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
            double mean, deviation, wanted = special ? expected[i].special : expected[i].plain;
            measure(&model, expected[i].suffix, &mean, &deviation);
            CHECK_NEAR(deviation, wanted, 0.03, 1e-12); /* at least 16384 elements: 5 sigma are 2.8 % */
            CHECK_NEAR(mean, wanted == 0 ? 1 : 0, 0, 5 * wanted / 128 + 1e-12);
        }
        model_destroy(&model);
    }
}

/* Initial values of a protein model's parameters, each by itself: matrices are normal (ESM-2) or uniform (AMPLIFY), the
 * <pad> row of ESM-2 is zeros, norms start at 1 and biases at 0. */
static void check_protein_init(const struct parameter *p, const struct family *family)
{
    double sum = 0, squares = 0, largest = 0, count = 0, pad = 0, *values = initial_values(p), part[7];
    parameter_initial_values(p, 42, p->cols - 3, 7, part); /* of two rows, if there are two */
    CHECK(memcmp(part, values + p->cols - 3, sizeof *part * (p->rows > 1 ? 7 : 3)) == 0);
    float *floats = memory_allocate((p->rows * p->cols - 1) * (int64_t)sizeof *floats);
    parameter_initial_floats(p, 42, 1, p->rows * p->cols - 1, floats);
    for (int64_t e = 1; e < p->rows * p->cols; e++)
        CHECK(floats[e - 1] == (float)values[e]);
    memory_free(floats);
    for (int64_t e = 0; e < p->rows * p->cols; e++) {
        double value = values[e];
        if (strstr(p->name, "word_embeddings") != NULL && e / p->cols == 1) {
            pad += fabs(value);
            continue;
        }
        sum += value;
        squares += value * value;
        largest = fmax(largest, fabs(value));
        count++;
    }
    memory_free(values);
    double mean = sum / count, variance = squares / count - mean * mean, bound = 0.02;
    if (p->rows > 1 && family->uniform) {
        CHECK(largest <= bound && largest > 0.995 * bound);
        CHECK_NEAR(variance, bound * bound / 3, 5 * sqrt(0.8 / count),
                   0); /* 5 sigma: x^2 has deviation 0.89 of its mean */
        CHECK_NEAR(mean, 0, 0, 5 * bound / sqrt(3 * count));
    } else if (p->rows > 1) {
        CHECK(largest > 3 * bound);
        CHECK_NEAR(variance, bound * bound, 5 * sqrt(2 / count), 0);
        CHECK_NEAR(mean, 0, 0, 5 * bound / sqrt(count));
        CHECK(pad == 0);
    } else {
        size_t length = strlen(p->name);
        bool bias = length > 4 && strcmp(p->name + length - 4, "bias") == 0;
        CHECK(largest == (bias ? 0 : 1) && sum == largest * count);
    }
}

static void test_protein_init(void)
{
    const char *const presets[] = {"esm2_8m", "amplify_120m"};
    for (int i = 0; i < 2; i++) {
        struct deck deck;
        struct model_settings s;
        deck_defaults(&deck);
        strcpy(deck.model.preset, presets[i]);
        deck.model.layers = 1;
        CHECK(model_settings_from_deck(&s, &deck, 0) == ERROR_NONE);
        struct model model;
        model_create(&model, &s, 16, 16);
        for (int u = 0; u < model.unit_count; u++)
            for (int k = 0; k < model.units[u].parameter_count; k++)
                check_protein_init(&model.units[u].parameters[k], s.family);
        model_destroy(&model);
    }
}

/* Frequencies of Llama 3.2 1B (specification of the recipes, 1.1). */
static void test_rope(void)
{
    const struct rope_settings rope = {.theta = 500000, .factor = 32, .low = 1, .high = 4, .original = 8192};
    const struct {
        int i;
        double frequency;
    } golden[] = {{0, 1},
                  {1, 0.66360124},
                  {8, 0.037606031},
                  {12, 0.0072926647},
                  {13, 0.0048394213},
                  {14, 0.003211446},
                  {15, 0.0012905479},
                  {16, 4.295568e-4},
                  {17, 9.7082878e-5},
                  {18, 1.9461638e-5},
                  {31, 9.4183067e-8}};
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++)
        CHECK_NEAR(rope_frequency(&rope, 64, golden[i].i), golden[i].frequency, 1e-6, 0);
    /* 1, 0.1, ... as torch rounds them; the last fp16 is below its normal numbers */
    static const double fp16[] = {
        1, 0.0999755859375, 0.01000213623046875, 0.0010004043579101562, 0.00010001659393310547, 1.0013580322265625e-05};
    static const double bf16[] = {
        1, 0.10009765625, 0.010009765625, 0.00099945068359375, 0.00010013580322265625, 1.0013580322265625e-05};
    for (int i = 0; i < 6; i++) {
        CHECK(rope_frequency(&(struct rope_settings){.theta = 1e6, .rounding = DECK_ROUNDING_FP16}, 12, i) == fp16[i]);
        CHECK(rope_frequency(&(struct rope_settings){.theta = 1e6, .rounding = DECK_ROUNDING_BF16}, 12, i) == bf16[i]);
    }
}

static double rate_decoupled_at(const struct deck *deck, int64_t update)
{
    const struct learning_rate_settings settings = setup_learning_rate(deck);
    return learning_rate_decoupled_at(&settings, update);
}

static double rate_at(const struct deck *deck, int64_t update)
{
    const struct learning_rate_settings settings = setup_learning_rate(deck);
    return learning_rate_at(&settings, update);
}

static struct deck schedule_deck(int kind, int rule, double lr, int64_t warmup, int64_t decay, double ratio)
{
    struct deck deck;
    deck_defaults(&deck);
    deck.schedule.kind = kind;
    deck.schedule.rule = rule;
    deck.optimizer.lr = lr;
    deck.schedule.warmup = warmup;
    deck.schedule.decay = decay;
    deck.schedule.min_ratio = ratio;
    deck.train.steps = warmup + decay;
    return deck;
}

struct rate_golden {
    int64_t update;
    double rate;
};

static void check_rates(const struct deck *deck, const struct rate_golden *golden, size_t count)
{
    struct deck other = *deck;
    other.schedule.rule = deck->schedule.rule == DECK_RULE_MEGATRON ? DECK_RULE_RECIPE : DECK_RULE_MEGATRON;
    for (size_t i = 0; i < count; i++) {
        CHECK_NEAR(rate_at(deck, golden[i].update), golden[i].rate, 1e-6, 0);
        /* the other rule is another rate, but on plateaus */
        if (golden[i].update + 1 < deck->schedule.warmup + deck->schedule.decay)
            CHECK(fabs(rate_at(&other, golden[i].update) - golden[i].rate) > 1e-6 * golden[i].rate);
    }
}

static void test_learning_rate(void)
{
    /* lingua 1B: the recipe's logged figures, at the scheduler steps that they belong to */
    struct deck lingua = schedule_deck(DECK_SCHEDULE_COSINE, DECK_RULE_RECIPE, 3e-3, 5000, 55000, 1e-6);
    const struct rate_golden cosine[] = {
        {0, 0}, {1, 6e-7}, {3878, 2.3268e-3}, {16369, 2.6946743e-3}, {31386, 1.5953843e-3}, {56762, 2.5585943e-5}};
    check_rates(&lingua, cosine, sizeof cosine / sizeof cosine[0]);
    struct deck megatron = schedule_deck(DECK_SCHEDULE_COSINE, DECK_RULE_MEGATRON, 3e-3, 5000, 55000, 1e-6);
    const struct rate_golden shifted[] = {{0, 6e-7}, {1, 1.2e-6}, {4999, 3e-3}, {3877, 2.3268e-3}};
    check_rates(&megatron, shifted, sizeof shifted / sizeof shifted[0]);
    /* at s = w both rules are still within the peak's flat top, so the exact values are compared */
    CHECK(rate_at(&lingua, 5000) == 3e-3 && rate_at(&megatron, 5000) < 3e-3);

    struct deck og2 = schedule_deck(DECK_SCHEDULE_COSINE, DECK_RULE_RECIPE, 3e-5, 2500, 179814, 0.02);
    CHECK_NEAR(rate_at(&og2, 1), 1.2e-8, 1e-9, 0);
    CHECK_NEAR(rate_at(&og2, 2500), 3e-5, 1e-12, 0);
    CHECK_NEAR(rate_at(&og2, 92407), 1.53e-5, 1e-4, 0);
    CHECK_NEAR(rate_at(&og2, 182313), 6.0e-7, 1e-6, 0);
    CHECK_NEAR(rate_at(&og2, 500000), 6.0e-7, 1e-12, 0);

    /* ESM-2: decay ends at int(0.9 * 500000) */
    struct deck esm = schedule_deck(DECK_SCHEDULE_LINEAR, DECK_RULE_RECIPE, 4e-4, 2000, 448000, 0.1);
    const struct rate_golden linear[] = {{1000, 2e-4}, {2000, 4e-4}, {226000, 2.2e-4}, {450000, 4e-5}, {490000, 4e-5}};
    check_rates(&esm, linear, 1);
    for (size_t i = 0; i < sizeof linear / sizeof linear[0]; i++)
        CHECK_NEAR(rate_at(&esm, linear[i].update), linear[i].rate, 1e-12, 0);
    CHECK(rate_at(&esm, 0) == 0);
    /* warm-up, stable, decay */
    static const struct {
        int64_t update;
        double linear, cosine;
    } held[] = {{5, 0.5, 0.5}, {10, 1, 1}, {29, 1, 1}, {30, 1, 1}, {35, 0.55, 0.55}, {40, 0.1, 0.1}, {60, 0.1, 0.1}};
    struct deck wsd;
    deck_defaults(&wsd);
    wsd.optimizer.lr = 1;
    wsd.schedule.warmup = wsd.schedule.decay = 10;
    wsd.schedule.hold = 20;
    wsd.schedule.min_ratio = 0.1;
    for (size_t i = 0; i < sizeof held / sizeof held[0]; i++) {
        wsd.schedule.kind = DECK_SCHEDULE_LINEAR;
        CHECK_NEAR(rate_at(&wsd, held[i].update), held[i].linear, 1e-12, 0);
        wsd.schedule.kind = DECK_SCHEDULE_COSINE;
        CHECK_NEAR(rate_at(&wsd, held[i].update), held[i].cosine, 1e-12, 0);
    }
    wsd.train.steps = 50;
    wsd.schedule.decay = 0; /* the rest */
    CHECK_NEAR(rate_at(&wsd, 40), 0.55, 1e-12, 0);

    /* NeMo: step 49 of its log has 7.496e-06; at the end of the warm-up the fall begins */
    struct deck nemo = schedule_deck(DECK_SCHEDULE_COSINE, DECK_RULE_NEMO, 3e-4, 2000, 1166320, 0.1);
    CHECK_NEAR(rate_at(&nemo, 49), 7.496e-6, 1e-4, 0);
    const struct rate_golden warming[] = {{0, 3e-4 / 2001}, {49, 3e-4 * 50 / 2001}, {1999, 3e-4 * 2000 / 2001}};
    check_rates(&nemo, warming, 2);
    for (size_t i = 0; i < sizeof warming / sizeof warming[0]; i++)
        CHECK_NEAR(rate_at(&nemo, warming[i].update), warming[i].rate, 1e-12, 0);
    CHECK(rate_at(&nemo, 2000) == 3e-4);

    /* Megatron's example counts in samples, of which a step has 128. Its warm-up of 3,906,252 ends within a step, and
     * embedding and head go from 5e-4 to 4.5e-5 when all else goes from 1.5e-4 to 1e-5. */
    struct deck samples =
        schedule_deck(DECK_SCHEDULE_COSINE, DECK_RULE_MEGATRON, 1.5e-4, 3906252, 1945312496, 1.0 / 15);
    samples.schedule.unit = DECK_COUNT_SAMPLES;
    samples.train.global_batch = 128;
    samples.optimizer.decoupled_lr = 5e-4;
    samples.schedule.decoupled_min_ratio = 0.09;
    CHECK_NEAR(rate_at(&samples, 0), 1.5e-4 * 128 / 3906252, 1e-12, 0);
    CHECK_NEAR(rate_at(&samples, 30516), 1.5e-4 * 30517 * 128 / 3906252, 1e-12, 0);
    CHECK(rate_at(&samples, 30517) < 1.5e-4 && rate_at(&samples, 30517) > 1.4999e-4);
    CHECK_NEAR(rate_at(&samples, 7629136), 8e-5, 1e-4, 0); /* half of the fall is done */
    CHECK_NEAR(rate_at(&samples, 15300000), 1e-5, 1e-12, 0);
    CHECK_NEAR(rate_decoupled_at(&samples, 0), 5e-4 * 128 / 3906252, 1e-12, 0);
    CHECK_NEAR(rate_decoupled_at(&samples, 7629136), 2.725e-4, 1e-4, 0);
    CHECK_NEAR(rate_decoupled_at(&samples, 15300000), 4.5e-5, 1e-12, 0);
    samples.schedule.decay = 0; /* the rest of the run's steps */
    samples.train.steps = 15258789;
    CHECK_NEAR(rate_at(&samples, 30516), 1.5e-4 * 30517 * 128 / 3906252, 1e-12, 0);
    CHECK_NEAR(rate_at(&samples, 15258788), 1e-5, 1e-6, 0);

    struct deck constant = schedule_deck(DECK_SCHEDULE_CONSTANT, DECK_RULE_RECIPE, 1e-3, 0, 0, 0.1);
    CHECK(rate_at(&constant, 0) == 1e-3 && rate_at(&constant, 1000000) == 1e-3);
}

int main(void)
{
    test_presets();
    test_settings();
    test_objective();
    test_recompute();
    test_init();
    test_protein_init();
    test_rope();
    test_learning_rate();
    return check_end();
}
