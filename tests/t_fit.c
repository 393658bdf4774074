/* memory.recompute = "fit" and memory.head_tokens = 0 choose settings that fit 60 sizes of memory, to the byte, with
 * the layers to offload and the host memory that they need. Where a deck does not fit, the advice is checked:
 * recompute, shard, or split rows. */
#include "check.h"

#include "base/bytes.h"
#include "base/error.h"
#include "cpu/cpu.h"
#include "architecture/flops.h"
#include "ref/toy.h"
#include "estimate/fit.h"
#include "estimate/fit_choice.h"
#include "estimate/estimate.h"
#include "setup/settings.h"
#include "setup/model.h"
#include "setup/recompute.h"

#include <string.h>

/* A complete setup of a deck, to be destroyed. */
static struct setup setup_of(const struct deck *deck, int64_t ranks, struct executor *executor)
{
    struct setup setup;
    if (!CHECK(setup_create(&setup, deck, ranks) == ERROR_NONE && setup_complete(&setup, 0, executor) == ERROR_NONE))
        error_fatal("%s", error_message());
    return setup;
}

/* What a deck needs, also by category. */
static int64_t memory_of(int64_t *memory, const struct deck *deck, int64_t ranks, struct executor *executor)
{
    struct setup setup = setup_of(deck, ranks, executor);
    const int64_t need = estimate_memory(memory, &setup, executor);
    setup_destroy(&setup);
    return need;
}

static int check(struct memory_fit *fit, const struct deck *deck, int64_t need, int64_t ranks,
                 struct executor *executor)
{
    struct setup setup = setup_of(deck, ranks, executor);
    int code = fit_check(fit, &setup, need, 1, executor);
    setup_destroy(&setup);
    return code;
}

static int check_training(const struct deck *deck, int64_t sharing, struct executor *executor)
{
    struct setup setup = setup_of(deck, 1, executor);
    int code = fit_check_training(&setup, sharing, executor);
    setup_destroy(&setup);
    return code;
}

static void choose(struct deck *deck, int64_t limit, int64_t host, struct executor *executor)
{
    struct setup setup = setup_of(deck, 1, executor);
    fit_choose(&setup, limit, host, executor);
    setup_keep_choices(&setup, deck);
    setup_destroy(&setup);
}

/* The advice is planned again: it fits, the same with its cheapest key one step back does not. */
static void test_advice(void)
{
    struct deck deck = toy_deck();
    struct executor *cpu = cpu_executor_create(1);
    struct model_settings model;
    CHECK(model_settings_from_deck(&model, &deck, 0) == ERROR_NONE);
    int64_t memory[BUDGET_CATEGORIES], own = memory_of(memory, &deck, 1, cpu);
    const double gibi = 1 << 30;
    struct memory_fit fit;
    deck.device.memory = (double)own / gibi;
    CHECK(check(&fit, &deck, own, 1, cpu) == ERROR_NONE && fit.limit == own);
    CHECK(fit_refuse(&fit) == ERROR_NONE && fit.advice[0] == '\0');
    CHECK(check_training(&deck, 1, cpu) == ERROR_NONE);

    deck.device.memory = (double)(own - 1) / gibi; /* a byte short: the weakest change will do */
    CHECK(check(&fit, &deck, own, 1, cpu) == ERROR_NONE);
    CHECK(strstr(fit.advice, "with memory.recompute = \"gate_up\" it needs") != NULL);
    CHECK(check_training(&deck, 1, cpu) == ERROR_USER);
    CHECK(strstr(error_message(), "key device.memory: a rank needs") != NULL);
    error_clear();

    /* what only one row at a time reaches, and what needs two keys */
    struct deck other = deck;
    other.memory.recompute = DECK_RECOMPUTE_FULL;
    int64_t full = memory_of(memory, &other, 1, cpu);
    other = deck;
    other.train.micro_batch = 1;
    int64_t row = memory_of(memory, &other, 1, cpu);
    CHECK(row < full && full < own);
    deck.device.memory = (double)row / gibi;
    CHECK(check(&fit, &deck, own, 1, cpu) == ERROR_NONE);
    CHECK(strstr(fit.advice, "with train.micro_batch = 1 it needs") != NULL);
    deck.device.memory = (double)(row - 1) / gibi;
    CHECK(check(&fit, &deck, own, 1, cpu) == ERROR_NONE);
    CHECK(strstr(fit.advice, "with memory.recompute = ") != NULL &&
          strstr(fit.advice, "and train.micro_batch = 1 it") != NULL);

    int64_t state = memory[BUDGET_WEIGHTS] + memory[BUDGET_GRADIENTS] + memory[BUDGET_OPTIMIZER];
    deck.device.memory = (double)(state + 1) / gibi;
    CHECK(check(&fit, &deck, own, 1, cpu) == ERROR_NONE && strstr(fit.advice, "no setting fits") != NULL);
    deck.device.memory = (double)(state - 1) / gibi;
    CHECK(check(&fit, &deck, own, 1, cpu) == ERROR_NONE && strstr(fit.advice, "no setting helps") != NULL);
    deck.device.memory = 0;
    CHECK(check(&fit, &deck, own, 1, cpu) == ERROR_NONE && !fit.of_deck && fit.limit > 0);
    CHECK(check_training(&deck, 1, cpu) == ERROR_NONE);
    CHECK(check_training(&deck, INT64_MAX, cpu) == ERROR_USER); /* nothing is left for each */
    CHECK(strstr(error_message(), "this machine has 0.00 MiB free for each") != NULL);
    error_clear();
    cpu->class->destroy(cpu);
}

static int64_t much(struct executor *executor)
{
    (void)executor;
    return (int64_t)1 << 40;
}

static int64_t nothing(struct executor *executor)
{
    (void)executor;
    return 0;
}

/* With it the CPU's executor has memory of its own, as a GPU does. */
static const struct executor_device own_memory = {.available = much, .margin = nothing};

/* A deck of 5 layers with memory.recompute = "fit", of which a rank may use so much: what it needs then, or -1 where
 * it does not fit. cost: of what is chosen, more where more is made again. */
static int64_t choose_for(struct deck *deck, struct model_settings *model, int64_t limit, int64_t *cost,
                          struct executor *cpu)
{
    int64_t memory[BUDGET_CATEGORIES];
    deck->memory.recompute = DECK_RECOMPUTE_FIT;
    struct setup setup = setup_of(deck, 1, cpu);
    fit_choose(&setup, limit, 0, cpu);
    setup_keep_choices(&setup, deck);
    CHECK(model_settings_from_deck(model, deck, 0) == ERROR_NONE); /* the key says the same */
    CHECK(memcmp(&model->recompute, &setup.model.recompute, sizeof model->recompute) == 0);
    *cost = 0;
    for (int layer = 0; layer < model->layers; layer++)
        *cost += recompute_of(&model->recompute, layer);
    const int64_t need = estimate_memory(memory, &setup, cpu);
    setup_destroy(&setup);
    return need <= limit ? need : -1;
}

/* "fit" with more and more memory: what is chosen fits and gets milder, and one layer less does not fit. */
static void test_choice(void)
{
    struct deck deck = toy_deck();
    struct executor *cpu = cpu_executor_create(1);
    struct model_settings model;
    int64_t memory[BUDGET_CATEGORIES], cost, before = INT64_MAX, tables = 0;
    deck.model.layers = 5;
    deck.device.memory = 1; /* the limit is to be kept to the byte */
    deck.memory.recompute = DECK_RECOMPUTE_NONE;
    CHECK(model_settings_from_deck(&model, &deck, 0) == ERROR_NONE);
    const int64_t all = memory_of(memory, &deck, 1, cpu);
    deck.memory.recompute = DECK_RECOMPUTE_FULL;
    CHECK(model_settings_from_deck(&model, &deck, 0) == ERROR_NONE);
    const int64_t least = memory_of(memory, &deck, 1, cpu);
    CHECK(least < all);
    for (int64_t limit = least; limit < all + (all - least) / 60; limit += (all - least) / 60) {
        deck.memory.fitted_layers[0] = '\0';
        CHECK(choose_for(&deck, &model, limit, &cost, cpu) > 0);
        CHECK(cost <= before);
        tables += cost < before;
        before = cost;
        if (cost == 0)
            continue;
        enum deck_recompute most = recompute_of(&model.recompute, 0);
        int64_t count = 0;
        while (count < model.layers && recompute_of(&model.recompute, (int)count) == most)
            count++;
        enum deck_recompute milder = DECK_RECOMPUTE_NONE;
        while (recompute_next(milder, false) != most)
            milder = recompute_next(milder, false);
        CHECK(count == model.layers || recompute_of(&model.recompute, (int)count) == milder);
        recompute_print(deck.memory.fitted_layers, sizeof deck.memory.fitted_layers, most, count - 1, milder,
                        model.layers);
        CHECK(model_settings_from_deck(&model, &deck, 0) == ERROR_NONE);
        CHECK(memory_of(memory, &deck, 1, cpu) > limit);
    }
    CHECK(cost == 0 && tables > 20);
    CHECK_STRING(deck.memory.fitted_layers, "none:1-5");

    /* what has been chosen stays while it fits; where nothing does, as little as possible is kept */
    strcpy(deck.memory.fitted_layers, "qkv:1,none:2-5");
    CHECK(choose_for(&deck, &model, all, &cost, cpu) > 0);
    CHECK_STRING(deck.memory.fitted_layers, "qkv:1,none:2-5");
    CHECK(choose_for(&deck, &model, least, &cost, cpu) == least);
    CHECK_STRING(deck.memory.fitted_layers, "full:1-5");
    strcpy(deck.memory.fitted_layers, "");
    CHECK(choose_for(&deck, &model, least - 1, &cost, cpu) == -1);
    CHECK_STRING(deck.memory.fitted_layers, "full:1-5");

    /* a limit that is what the host or a device has free is not used up */
    deck.device.memory = 0;
    for (int left = 8; left <= 64; left += 56) {
        cpu->device = left == 64 ? &own_memory : NULL;
        deck.memory.fitted_layers[0] = '\0';
        const int64_t need = choose_for(&deck, &model, all, &cost, cpu);
        CHECK(need > 0 && need <= all - all / left && need > all - all / left - (all - least) / 5);
    }
    cpu->device = NULL;

    /* advice is for the layers as chosen */
    deck.device.memory = (double)(least - 1) / (1 << 30);
    struct memory_fit fit;
    CHECK(choose_for(&deck, &model, least - 1, &cost, cpu) == -1);
    CHECK(check(&fit, &deck, least, 1, cpu) == ERROR_NONE &&
          strstr(fit.advice, "with train.micro_batch = ") == fit.advice);
    deck.device.memory = (double)least / (1 << 30);
    deck.memory.recompute = DECK_RECOMPUTE_NORMS;
    strcpy(deck.memory.recompute_layers, "none:2-3");
    CHECK(check(&fit, &deck, all, 1, cpu) == ERROR_NONE);
    CHECK(strstr(fit.advice, "with memory.recompute = \"full\" and memory.recompute_layers = \"\" it needs") != NULL);
    cpu->class->destroy(cpu);
}

/* A byte short of what keeps all, few layers make again what costs least: with SwiGLU norm outputs, with GELU the
 * activation's. */
static void test_cheapest(void)
{
    static const struct {
        const struct family *family;
        const char *first;
    } cases[] = {{&family_llama, "only_norms:1"}, {&family_amplify, "only_norms:1"}, {&family_esm2, "activation:1"}};
    struct executor *cpu = cpu_executor_create(1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct deck deck = toy_deck();
        struct model_settings model;
        int64_t memory[BUDGET_CATEGORIES], cost;
        deck.model.family = family_choice(cases[i].family);
        deck.model.layers = 5;
        deck.device.memory = 1;
        deck.memory.recompute = DECK_RECOMPUTE_NONE;
        CHECK(model_settings_from_deck(&model, &deck, 0) == ERROR_NONE);
        const int64_t all = memory_of(memory, &deck, 1, cpu);
        CHECK(choose_for(&deck, &model, all - 1, &cost, cpu) > 0);
        CHECK(strstr(deck.memory.fitted_layers, cases[i].first) == deck.memory.fitted_layers);
        CHECK(strstr(deck.memory.fitted_layers, "none:") != NULL);
    }
    cpu->class->destroy(cpu);
}

/* What is offloaded counts in the host's memory, which is the device's where that has none of its own. */
static void test_offload(void)
{
    struct deck deck = toy_deck();
    struct executor *executor = cpu_executor_create(1);
    int64_t kept[BUDGET_CATEGORIES], away[BUDGET_CATEGORIES];
    const int64_t all = memory_of(kept, &deck, 1, executor);
    executor->device = &own_memory;
    CHECK(memory_of(kept, &deck, 1, executor) == all && kept[BUDGET_HOST] == 0);
    CHECK(check_training(&deck, INT64_MAX, executor) == ERROR_NONE);

    strcpy(deck.memory.offload_layers, "1-3");
    const int64_t on_gpu = memory_of(away, &deck, 1, executor);
    /* two buffers stay for three layers that are alike */
    CHECK(away[BUDGET_HOST] > 0 && all - on_gpu == away[BUDGET_HOST] / 3);
    CHECK(kept[BUDGET_ACTIVATIONS] - away[BUDGET_ACTIVATIONS] == all - on_gpu);
    CHECK(check_training(&deck, 1, executor) == ERROR_NONE);
    CHECK(check_training(&deck, INT64_MAX, executor) == ERROR_USER); /* the host has nothing left */
    CHECK(strstr(error_message(), "key memory.offload_layers = \"1-3\": needs ") == error_message());
    error_clear();
    struct setup setup = setup_of(&deck, 1, executor);
    CHECK(fit_check_host(&setup, 1000, 1000, executor) == ERROR_NONE);
    CHECK(fit_check_host(&setup, 1001, 1000, executor) == ERROR_USER);
    CHECK(fit_host(&setup, 1) > 0);
    setup_destroy(&setup);
    error_clear();
    struct deck large = deck; /* whose rows leave nothing of the host */
    large.train.global_batch = (int64_t)1 << 40;
    setup = setup_of(&large, 1, executor);
    CHECK(fit_host(&setup, 1) == 0);
    setup_destroy(&setup);
    CHECK(check_training(&large, 1, executor) == ERROR_USER);
    error_clear();
    executor->device = NULL;
    CHECK(memory_of(away, &deck, 1, executor) == on_gpu + away[BUDGET_HOST]);
    executor->class->destroy(executor);
}

/* What a rank needs with slices of so many tokens and a policy in all layers. */
static int64_t need_with(const struct deck *deck, int64_t tokens, int recompute, struct executor *cpu)
{
    struct deck other = *deck;
    int64_t memory[BUDGET_CATEGORIES];
    other.memory.head_tokens = tokens;
    other.memory.recompute = recompute;
    return memory_of(memory, &other, 1, cpu);
}

static int64_t slice_for(struct deck *deck, int64_t limit, struct executor *cpu)
{
    choose(deck, limit, 0, cpu);
    return deck->memory.fitted_head_tokens;
}

/* The head's slices with more and less memory: the largest that fit, or the least; with "fit", 256 tokens (of which 16
 * squared slices are the first to exceed 2 * 512 tokens * 512) come before layers that make less again. */
static void test_slices(void)
{
    enum { TOKENS = 512, BALANCED = 256, LEAST = 64 };
    struct executor *cpu = cpu_executor_create(1);
    struct deck deck = toy_deck();
    deck.model.hidden = 512;
    deck.model.vocabulary = 20000;
    deck.device.memory = 1; /* the limit is to be kept to the byte */
    deck.memory.head_tokens = 0;
    deck.memory.recompute = DECK_RECOMPUTE_NONE;
    for (int64_t tokens = LEAST; tokens <= TOKENS; tokens *= 2) {
        const int64_t need = need_with(&deck, tokens, DECK_RECOMPUTE_NONE, cpu);
        CHECK(tokens == LEAST || need > need_with(&deck, tokens / 2, DECK_RECOMPUTE_NONE, cpu));
        for (int less = 0; less < 2; less++) {
            deck.memory.fitted_head_tokens = 0;
            CHECK(slice_for(&deck, need - less, cpu) == (less && tokens > LEAST ? tokens / 2 : tokens));
        }
        CHECK(slice_for(&deck, need_with(&deck, TOKENS, DECK_RECOMPUTE_NONE, cpu), cpu) ==
              (tokens > LEAST ? tokens / 2 : LEAST));
    }

    deck.memory.recompute = DECK_RECOMPUTE_FIT;
    const int64_t full = need_with(&deck, BALANCED, DECK_RECOMPUTE_FULL, cpu);
    const int64_t none = need_with(&deck, BALANCED, DECK_RECOMPUTE_NONE, cpu);
    const int64_t all = need_with(&deck, TOKENS, DECK_RECOMPUTE_NONE, cpu);
    const struct {
        int64_t limit, tokens;
        const char *layers;
    } cases[] = {{full - 1, BALANCED / 2, "full:1-3"},
                 {full, BALANCED, "full:1-3"},
                 {none, BALANCED, "none:1-3"},
                 {all - 1, BALANCED, "none:1-3"},
                 {all, TOKENS, "none:1-3"}};
    CHECK(full < none && none < all - 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        deck.memory.fitted_head_tokens = 0;
        CHECK(slice_for(&deck, cases[i].limit, cpu) == cases[i].tokens);
        CHECK_STRING(deck.memory.fitted_layers, cases[i].layers);
    }
    CHECK(slice_for(&deck, full, cpu) == BALANCED); /* what was chosen does not fit any more */
    cpu->class->destroy(cpu);
}

/* As choose_for, with so much of the host's memory; what is offloaded must be `wanted`. Returns what is made again. */
static int64_t offload_for(struct deck *deck, int64_t limit, int64_t host, const char *wanted, struct executor *gpu)
{
    struct model_settings model;
    int64_t memory[BUDGET_CATEGORIES], cost = 0;
    deck->memory.fitted_layers[0] = deck->memory.fitted_offload[0] = '\0';
    choose(deck, limit, host, gpu);
    CHECK(model_settings_from_deck(&model, deck, 0) == ERROR_NONE);
    CHECK_STRING(deck->memory.fitted_offload, wanted);
    CHECK(memory_of(memory, deck, 1, gpu) <= limit && memory[BUDGET_HOST] <= host);
    for (int layer = 0; layer < model.layers; layer++)
        cost += recompute_of(&model.recompute, layer);
    return cost;
}

/* "fit" offloads where products would have to be made again otherwise: layers so far apart that a copy takes no longer
 * than what is computed beside it, as far as the host has room. */
static void test_offload_choice(void)
{
    struct deck deck = toy_deck();
    struct executor *executor = cpu_executor_create(1);
    struct model_settings model, blocks;
    int64_t memory[BUDGET_CATEGORIES];
    executor->device = &own_memory;
    deck.model.layers = 12;
    deck.device.memory = 1; /* limits are to be kept to the byte */

    /* a layer that keeps all but what norms and the activation make again, and the peak at which its copy takes as long
     * as two and a half forwards */
    strcpy(deck.memory.offload_layers, "1");
    CHECK(model_settings_from_deck(&model, &deck, 0) == ERROR_NONE);
    memory_of(memory, &deck, 1, executor);
    const int64_t layer = memory[BUDGET_HOST];
    blocks = model;
    blocks.vocabulary = 0;
    const double forward = flops_per_token(&blocks, 128, FLOPS_CAUSAL) / 3 / 12 * 4 * 128;
    const double peak = forward * 2.5 / ((double)layer / 50e9) / 0.6 / 1e12;
    deck.memory.offload_layers[0] = '\0';

    deck.memory.recompute = DECK_RECOMPUTE_GATE_UP;
    CHECK(model_settings_from_deck(&model, &deck, 0) == ERROR_NONE);
    const int64_t limit = memory_of(memory, &deck, 1, executor); /* two layers less than that of norms */
    deck.memory.recompute = DECK_RECOMPUTE_FIT;
    const int64_t plenty = (int64_t)1 << 40;
    deck.device.peak = peak;
    const int64_t without = offload_for(&deck, limit, 0, "", executor);
    CHECK(without > 12 * DECK_RECOMPUTE_NORMS && without <= 12 * DECK_RECOMPUTE_GATE_UP);
    deck.device.peak = peak / 2.5; /* the copy takes one forward */
    CHECK(offload_for(&deck, limit, plenty, "1-11", executor) < without);
    deck.device.peak = peak / 2.5 * 1.01;
    CHECK(offload_for(&deck, limit, plenty, "1,3,5,7,9", executor) < without);
    CHECK(offload_for(&deck, limit, 3 * layer - 1, "", executor) == without); /* two buffers hold two of them */
    deck.device.peak = peak * 2;                                              /* "1,6" */
    CHECK(offload_for(&deck, limit, plenty, "", executor) == without);
    deck.device.peak = peak / 2.5;
    const int64_t host = 5 * layer + layer / 2;
    CHECK(offload_for(&deck, limit, host + host / 7 + 1, "1-5", executor) < without); /* an eighth is left */
    deck.device.peak = 1e6;                                                           /* no forward is long enough */
    CHECK(offload_for(&deck, limit, plenty, "", executor) == without);

    /* not where only norms are made again, nor beside layers of the user's, nor on a device without memory of its own;
     * and what was chosen stays where it fits, on the host too */
    deck.device.peak = peak / 2.5;
    deck.memory.recompute = DECK_RECOMPUTE_NORMS;
    CHECK(model_settings_from_deck(&model, &deck, 0) == ERROR_NONE);
    const int64_t norms = memory_of(memory, &deck, 1, executor);
    deck.memory.recompute = DECK_RECOMPUTE_FIT;
    CHECK(offload_for(&deck, norms, plenty, "", executor) <= 12 * DECK_RECOMPUTE_NORMS);
    strcpy(deck.memory.offload_layers, "2");
    CHECK(offload_for(&deck, limit, plenty, "", executor) > 12 * DECK_RECOMPUTE_NORMS);
    deck.memory.offload_layers[0] = '\0';
    executor->device = NULL;
    offload_for(&deck, norms, plenty, "", executor);
    executor->device = &own_memory;
    offload_for(&deck, limit, plenty, "1-11", executor);
    const struct deck chosen = deck;
    choose(&deck, norms, plenty, executor);
    CHECK_STRING(deck.memory.fitted_offload, "1-11");
    CHECK_STRING(deck.memory.fitted_layers, chosen.memory.fitted_layers);
    choose(&deck, norms, 0, executor);
    CHECK_STRING(deck.memory.fitted_offload, "");

    /* which the user's own layers replace */
    deck = chosen;
    strcpy(deck.memory.offload_layers, "2");
    CHECK(recompute_from_deck(&model.recompute, &deck, 12) == ERROR_NONE);
    CHECK(!layer_list_has(&model.recompute.offloaded, 0) && layer_list_has(&model.recompute.offloaded, 1));
    choose(&deck, norms, plenty, executor);
    CHECK_STRING(deck.memory.fitted_offload, "");
    executor->device = NULL;
    executor->class->destroy(executor);
}

/* Several ranks share the state before anything is made again. */
static void test_advice_to_share(void)
{
    struct deck deck = toy_deck();
    struct executor *cpu = cpu_executor_create(1);
    struct memory_fit fit;
    const double gibi = 1 << 30;
    int64_t memory[BUDGET_CATEGORIES], need[1 + DECK_SHARD_FULL];
    for (int shard = DECK_SHARD_NONE; shard <= DECK_SHARD_FULL; shard++) {
        struct deck other = deck;
        other.parallel.shard = shard;
        need[shard] = memory_of(memory, &other, 4, cpu);
    }
    /* of these few layers the buffers are larger than what they save, which must not end the search */
    CHECK(need[DECK_SHARD_OPTIMIZER] < need[DECK_SHARD_NONE] && need[DECK_SHARD_FULL] > need[DECK_SHARD_OPTIMIZER]);
    deck.device.memory = (double)need[DECK_SHARD_OPTIMIZER] / gibi;
    CHECK(check(&fit, &deck, need[DECK_SHARD_NONE], 4, cpu) == ERROR_NONE);
    CHECK(strstr(fit.advice, "with parallel.shard = \"optimizer\" it needs") == fit.advice);
    CHECK(check(&fit, &deck, need[DECK_SHARD_NONE], 1, cpu) == ERROR_NONE);
    CHECK(strstr(fit.advice, "parallel.shard") == NULL); /* one rank alone */

    /* where nothing fits, the state told is that of the least */
    struct deck least = deck;
    char state[BYTES_TEXT], text[128];
    least.parallel.shard = DECK_SHARD_OPTIMIZER;
    least.precision.compute = DECK_COMPUTE_BF16;
    memory_of(memory, &least, 4, cpu);
    bytes_text(state, (double)(memory[BUDGET_WEIGHTS] + memory[BUDGET_GRADIENTS] + memory[BUDGET_OPTIMIZER]));
    snprintf(text, sizeof text, "of which weights, gradients and moments take %s on every rank", state);
    deck.device.memory = (double)need[DECK_SHARD_OPTIMIZER] / 5 / gibi;
    CHECK(check(&fit, &deck, need[DECK_SHARD_NONE], 4, cpu) == ERROR_NONE);
    if (!CHECK(strstr(fit.advice, "no setting fits") != NULL && strstr(fit.advice, "\"optimizer\"") != NULL &&
               strstr(fit.advice, text) != NULL))
        fprintf(stderr, "    %s\n    %s\n", fit.advice, text);
    cpu->class->destroy(cpu);
}

/* Long rows, of which one is all that a rank has already, are cut, in no more parts than it takes. */
static void test_advice_to_cut(void)
{
    struct deck deck = toy_deck();
    struct executor *cpu = cpu_executor_create(1);
    struct memory_fit fit;
    int64_t memory[BUDGET_CATEGORIES];
    deck.data.row_tokens = 2048;
    deck.train.micro_batch = 1;
    deck.memory.recompute = DECK_RECOMPUTE_FULL;
    deck.precision.compute = DECK_COMPUTE_BF16;
    for (int64_t context = 2; context <= 4; context *= 2) {
        char text[96], size[BYTES_TEXT];
        deck.parallel.context = context;
        const int64_t need = memory_of(memory, &deck, 4, cpu);
        deck.device.memory = (double)need / (1 << 30);
        deck.parallel.context = 1;
        const int64_t whole = memory_of(memory, &deck, 4, cpu);
        CHECK(whole > need);
        CHECK(check(&fit, &deck, whole, 4, cpu) == ERROR_NONE);
        snprintf(text, sizeof text, "with parallel.context = %lld it needs %s", (long long)context,
                 bytes_text(size, (double)need));
        if (!CHECK(strstr(fit.advice, text) == fit.advice))
            fprintf(stderr, "    %s\n", fit.advice);
        CHECK(check(&fit, &deck, whole, 1, cpu) == ERROR_NONE);
        CHECK(strstr(fit.advice, "parallel.context") == NULL); /* one rank alone */
    }
    cpu->class->destroy(cpu);
}

int main(void)
{
    test_advice();
    test_advice_to_share();
    test_advice_to_cut();
    test_choice();
    test_cheapest();
    test_slices();
    test_offload();
    test_offload_choice();
    return check_end();
}
