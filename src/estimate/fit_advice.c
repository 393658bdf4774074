#include "estimate/fit_advice.h"
#include "deck/fields.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/memory.h"
#include "model/attention.h"
#include "estimate/estimate.h"
#include "setup/layout.h"
#include "setup/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- Keys and their values --------------------------------------------------------------------------------------- */

enum fit_key {
    FIT_QUANTIZED_WEIGHTS,
    FIT_SHARD,
    FIT_RECOMPUTE,
    FIT_MICRO_BATCH,
    FIT_CONTEXT,
    FIT_HEAD_TOKENS,
    FIT_COMPUTE,
    FIT_KEYS
};
enum { MAX_LEVELS = 40, MAX_HEAD_SLICES = 1024 };

/* The values of each key to try: the deck's own, then values that need less and less memory. */
struct levels {
    int64_t values[FIT_KEYS][MAX_LEVELS];
    int count[FIT_KEYS];
};

static void add_level(struct levels *levels, enum fit_key key, int64_t value)
{
    levels->values[key][levels->count[key]++] = value;
}

/* Adds the numbers of context ranks that rows and heads can be divided among. */
static void add_contexts(struct levels *levels, const struct setup *setup)
{
    const struct deck *deck = setup->deck;
    const int64_t ranks = setup->ranks;
    struct deck *other = deck_copy(deck);
    add_level(levels, FIT_CONTEXT, deck->parallel.context);
    for (int64_t context = deck->parallel.context + 1; context <= ranks; context++) {
        if (ranks % context != 0) /* settings_check_sizes would refuse it too, but is slower */
            continue;
        other->parallel.context = context;
        struct model_settings cut = setup->model;
        cut.context = layout_context_parallel(other, model_kv_heads(&cut));
        if (settings_check_sizes(other, ranks) == ERROR_NONE && attention_check(&cut) == ERROR_NONE &&
            levels->count[FIT_CONTEXT] < MAX_LEVELS)
            add_level(levels, FIT_CONTEXT, context);
        error_clear();
    }
    memory_free(other);
}

static struct levels levels_of(const struct setup *setup)
{
    const struct deck *deck = setup->deck;
    const int64_t ranks = setup->ranks;
    struct levels levels = {.count = {0}};
    add_level(&levels, FIT_QUANTIZED_WEIGHTS, deck->precision.weight_copies);
    if (deck->precision.recipe != DECK_RECIPE_NONE && deck->precision.weight_copies == DECK_WEIGHT_COPIES_KEPT)
        add_level(&levels, FIT_QUANTIZED_WEIGHTS, DECK_WEIGHT_COPIES_MADE);
    add_level(&levels, FIT_SHARD, deck->parallel.shard);
    for (int shard = deck->parallel.shard + 1; shard <= layout_most_shared(deck, ranks); shard++)
        add_level(&levels, FIT_SHARD, shard);
    add_level(&levels, FIT_RECOMPUTE, deck->memory.recompute);
    for (int policy = deck->memory.recompute + 1; policy <= DECK_RECOMPUTE_FULL; policy++)
        add_level(&levels, FIT_RECOMPUTE, policy);
    struct deck *other = deck_copy(deck);
    for (int64_t rows = deck->train.micro_batch; rows > 0; rows /= 2) {
        other->train.micro_batch = rows;
        if (settings_check_sizes(other, ranks) == ERROR_NONE)
            add_level(&levels, FIT_MICRO_BATCH, rows);
        error_clear();
    }
    memory_free(other);
    add_contexts(&levels, setup);
    add_level(&levels, FIT_HEAD_TOKENS, setup->head_tokens); /* then a quarter each time, rounded to multiples of 16 */
    int64_t least = setup->tokens / MAX_HEAD_SLICES;
    least = least > FIT_LEAST_SLICE ? least : FIT_LEAST_SLICE;
    for (int64_t tokens = setup->head_tokens / 64 * 16; tokens >= least; tokens = tokens / 64 * 16)
        add_level(&levels, FIT_HEAD_TOKENS, tokens);
    add_level(&levels, FIT_COMPUTE, deck->precision.compute);
    if (deck->precision.compute != DECK_COMPUTE_BF16)
        add_level(&levels, FIT_COMPUTE, DECK_COMPUTE_BF16);
    return levels;
}

/* Sets the keys to values of `levels`. level[key] is an index; 0 is the deck's own value. */
static void set_levels(struct deck *other, const struct deck *deck, const struct levels *levels,
                       const int level[FIT_KEYS])
{
    *other = *deck;
    other->precision.weight_copies = (int)levels->values[FIT_QUANTIZED_WEIGHTS][level[FIT_QUANTIZED_WEIGHTS]];
    other->parallel.shard = (int)levels->values[FIT_SHARD][level[FIT_SHARD]];
    other->memory.recompute = (int)levels->values[FIT_RECOMPUTE][level[FIT_RECOMPUTE]];
    if (level[FIT_RECOMPUTE] > 0) /* the policy is for all layers */
        other->memory.recompute_layers[0] = '\0';
    other->train.micro_batch = levels->values[FIT_MICRO_BATCH][level[FIT_MICRO_BATCH]];
    other->parallel.context = levels->values[FIT_CONTEXT][level[FIT_CONTEXT]];
    other->memory.head_tokens = levels->values[FIT_HEAD_TOKENS][level[FIT_HEAD_TOKENS]];
    other->precision.compute = (int)levels->values[FIT_COMPUTE][level[FIT_COMPUTE]];
}

/* Prints the changed keys: "memory.recompute = "full" and train.micro_batch = 1". */
static void describe(char *out, size_t bytes, const struct deck *deck, const struct deck *other,
                     const int level[FIT_KEYS])
{
    static const char *const names[FIT_KEYS] = {"precision.weight_copies", "parallel.shard",   "memory.recompute",
                                                "train.micro_batch",       "parallel.context", "memory.head_tokens",
                                                "precision.compute"};
    const char *changed[FIT_KEYS + 1];
    int count = 0;
    for (int key = 0; key < FIT_KEYS; key++)
        if (level[key] > 0)
            changed[count++] = names[key];
    if (strcmp(deck->memory.recompute_layers, other->memory.recompute_layers) != 0)
        changed[count++] = "memory.recompute_layers";
    char *text = deck_keys_text(other, changed, count, " and ");
    snprintf(out, bytes, "%s", text);
    free(text);
}

/* -- Search ------------------------------------------------------------------------------------------------------ */

struct search {
    const struct deck *deck;
    struct executor *target;
    struct levels levels;
    struct setup other;                /* the setup planned last */
    int64_t memory[BUDGET_CATEGORIES]; /* memory of this setup */
    int64_t least;                     /* smallest need of all planned setups, 0 = none yet */
    int64_t least_state;               /* weights, gradients and moments of the setup with this need */
    int least_level[FIT_KEYS];
};

int64_t fit_state(const int64_t *memory)
{
    return memory[BUDGET_WEIGHTS] + memory[BUDGET_GRADIENTS] + memory[BUDGET_OPTIMIZER];
}

static int64_t plan_level(struct search *s, const int level[FIT_KEYS])
{
    set_levels(s->other.deck, s->deck, &s->levels, level);
    if (settings_check_sizes(s->other.deck, s->other.ranks) !=
        ERROR_NONE) { /* keys that may each be changed, but not together */
        error_clear();
        return INT64_MAX;
    }
    setup_update(&s->other);
    int64_t need = estimate_memory(s->memory, &s->other, s->target);
    if (s->least == 0 || need < s->least) {
        s->least = need;
        s->least_state = fit_state(s->memory);
        memcpy(s->least_level, level, sizeof s->least_level);
    }
    return need;
}

/* Moves to the next combination of levels of the keys in `mask`, each at least 1; the cheapest key changes fastest.
 * Returns false after the last one. */
static bool next_level(const struct levels *levels, unsigned mask, int level[FIT_KEYS])
{
    for (int key = 0; key < FIT_KEYS; key++) {
        if ((mask >> key & 1) == 0)
            continue;
        if (++level[key] < levels->count[key])
            return true;
        level[key] = 1;
    }
    return false;
}

/* Returns whether some combination of the keys of `mask` can need at most `limit`. More recomputation or sharding can
 * need more memory (recomputed tensors, buffers), so their levels are all tried; the other keys need least at their
 * last level. */
static bool may_fit(struct search *s, unsigned mask, int64_t limit)
{
    int level[FIT_KEYS];
    for (int key = 0; key < FIT_KEYS; key++)
        level[key] = mask >> key & 1 ? s->levels.count[key] - 1 : 0;
    const int shards = level[FIT_SHARD];
    do {
        for (level[FIT_SHARD] = shards; level[FIT_SHARD] >= (shards > 0); level[FIT_SHARD]--)
            if (plan_level(s, level) <= limit)
                return true;
    } while (level[FIT_RECOMPUTE]-- > 1);
    return false;
}

/* Searches all combinations that change exactly the keys of `mask` for one that needs at most `limit`. */
static bool search_keys(struct search *s, unsigned mask, int64_t limit, int level[FIT_KEYS], int64_t *need)
{
    for (int key = 0; key < FIT_KEYS; key++) {
        level[key] = mask >> key & 1;
        if (level[key] >= s->levels.count[key])
            return false; /* the key has no other value */
    }
    if (!may_fit(s, mask, limit))
        return false;
    do {
        *need = plan_level(s, level);
        if (*need <= limit)
            return true;
    } while (next_level(&s->levels, mask, level));
    return false;
}

static int bits_of(unsigned mask)
{
    int count = 0;
    for (; mask != 0; mask >>= 1)
        count += (int)(mask & 1);
    return count;
}

static void advise(char *out, int64_t limit, struct search *s)
{
    int level[FIT_KEYS] = {0};
    int64_t need = 0;
    char keys[FIT_TEXT / 2], size[BYTES_TEXT], state_size[BYTES_TEXT];
    const char *shares = s->deck->parallel.shard_size > 0 ? "parallel.shard_size" : "parallel.shard";
    level[FIT_QUANTIZED_WEIGHTS] = s->levels.count[FIT_QUANTIZED_WEIGHTS] - 1;
    level[FIT_SHARD] = s->levels.count[FIT_SHARD] - 1;
    plan_level(s, level);
    const int64_t state = fit_state(s->memory); /* no setting reduces it further */
    if (state > limit) {
        snprintf(out, FIT_TEXT,
                 "no setting helps: weights, gradients and moments alone take %s on every rank; use a smaller model, "
                 "or more ranks to shard it (%s)",
                 bytes_text(state_size, (double)state), shares);
        return;
    }
    for (int keys_changed = 1; keys_changed <= FIT_KEYS; keys_changed++) {
        for (unsigned mask = 1; mask < 1u << FIT_KEYS; mask++) {
            if (bits_of(mask) != keys_changed || !search_keys(s, mask, limit, level, &need))
                continue;
            describe(keys, sizeof keys, s->deck, s->other.deck, level);
            snprintf(out, FIT_TEXT, "with %s it needs %s", keys, bytes_text(size, (double)need));
            return;
        }
    }
    set_levels(s->other.deck, s->deck, &s->levels, s->least_level);
    describe(keys, sizeof keys, s->deck, s->other.deck, s->least_level);
    snprintf(out, FIT_TEXT,
             "no setting fits: the least is %s%s%s, of which weights, gradients and moments take %s on every rank; use "
             "a smaller model, or more ranks to shard it (%s)",
             bytes_text(size, (double)s->least), keys[0] != '\0' ? " with " : "", keys,
             bytes_text(state_size, (double)s->least_state), shares);
}

void fit_advise(char *out, int64_t limit, const struct setup *setup, struct executor *target)
{
    struct search search = {.deck = setup->deck, .target = target, .levels = levels_of(setup)};
    setup_copy(&search.other, setup);
    advise(out, limit, &search);
    setup_destroy(&search.other);
}
