#include "train/fit.h"
#include "base/bytes.h"
#include "base/error.h"
#include "model/attention.h"
#include "model/flops.h"
#include "train/forecast.h"
#include "train/layout.h"
#include "train/rates.h"
#include "train/settings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- What may be changed ----------------------------------------------------------------------------------------- */

enum fit_key {
    FIT_WEIGHT_COPIES,
    FIT_SHARD,
    FIT_RECOMPUTE,
    FIT_MICRO_BATCH,
    FIT_CONTEXT,
    FIT_HEAD_TOKENS,
    FIT_COMPUTE,
    FIT_KEYS
};
enum { MAX_LEVELS = 40, LEAST_HEAD_TOKENS = 64, MAX_HEAD_CHUNKS = 1024 };

/* Values of each key from the deck's own on, each needing less than the one before. */
struct levels {
    int64_t values[FIT_KEYS][MAX_LEVELS];
    int count[FIT_KEYS];
};

static void add_level(struct levels *levels, enum fit_key key, int64_t value)
{
    levels->values[key][levels->count[key]++] = value;
}

/* The numbers of ranks that its rows and heads can be divided among. */
static void add_contexts(struct levels *levels, const struct deck *deck, const struct model_settings *model,
                         int64_t ranks)
{
    struct deck other = *deck;
    add_level(levels, FIT_CONTEXT, deck->parallel.context);
    for (int64_t context = deck->parallel.context + 1; context <= ranks; context++) {
        if (ranks % context != 0) /* as layout_check finds too, but slower */
            continue;
        other.parallel.context = context;
        struct model_settings cut = *model;
        cut.rows = layout_rows(&other, model_kv_heads(model));
        if (layout_check(&other, ranks) == ERROR_NONE && attention_check(&cut) == ERROR_NONE &&
            levels->count[FIT_CONTEXT] < MAX_LEVELS)
            add_level(levels, FIT_CONTEXT, context);
        error_clear();
    }
}

static struct levels levels_of(const struct deck *deck, const struct model_settings *model, int64_t ranks)
{
    struct levels levels = {.count = {0}};
    add_level(&levels, FIT_WEIGHT_COPIES, deck->precision.weight_copies);
    if (deck->precision.recipe != DECK_RECIPE_NONE && deck->precision.weight_copies == DECK_WEIGHT_COPIES_KEPT)
        add_level(&levels, FIT_WEIGHT_COPIES, DECK_WEIGHT_COPIES_MADE);
    add_level(&levels, FIT_SHARD, deck->parallel.shard);
    for (int shard = deck->parallel.shard + 1; shard <= layout_most_shared(deck, ranks); shard++)
        add_level(&levels, FIT_SHARD, shard);
    add_level(&levels, FIT_RECOMPUTE, deck->memory.recompute);
    for (int policy = deck->memory.recompute + 1; policy <= DECK_RECOMPUTE_FULL; policy++)
        add_level(&levels, FIT_RECOMPUTE, policy);
    for (int64_t rows = deck->train.micro_batch; rows > 0; rows /= 2) {
        struct deck other = *deck;
        other.train.micro_batch = rows;
        if (settings_check_sizes(&other, ranks) == ERROR_NONE)
            add_level(&levels, FIT_MICRO_BATCH, rows);
        error_clear();
    }
    add_contexts(&levels, deck, model, ranks);
    add_level(&levels, FIT_HEAD_TOKENS, settings_head_tokens(deck)); /* then quarters, as multiples of 16 */
    int64_t least = settings_tokens(deck) / MAX_HEAD_CHUNKS;
    least = least > LEAST_HEAD_TOKENS ? least : LEAST_HEAD_TOKENS;
    for (int64_t tokens = settings_head_tokens(deck) / 64 * 16; tokens >= least; tokens = tokens / 64 * 16)
        add_level(&levels, FIT_HEAD_TOKENS, tokens);
    add_level(&levels, FIT_COMPUTE, deck->precision.compute);
    if (deck->precision.compute != DECK_COMPUTE_BF16)
        add_level(&levels, FIT_COMPUTE, DECK_COMPUTE_BF16);
    return levels;
}

/* level[key] counts from the deck's own value, 0. */
static struct deck deck_at(const struct deck *deck, const struct levels *levels, const int level[FIT_KEYS])
{
    struct deck other = *deck;
    other.precision.weight_copies = (int)levels->values[FIT_WEIGHT_COPIES][level[FIT_WEIGHT_COPIES]];
    other.parallel.shard = (int)levels->values[FIT_SHARD][level[FIT_SHARD]];
    other.memory.recompute = (int)levels->values[FIT_RECOMPUTE][level[FIT_RECOMPUTE]];
    if (level[FIT_RECOMPUTE] > 0) /* of all layers */
        other.memory.recompute_layers[0] = '\0';
    other.train.micro_batch = levels->values[FIT_MICRO_BATCH][level[FIT_MICRO_BATCH]];
    other.parallel.context = levels->values[FIT_CONTEXT][level[FIT_CONTEXT]];
    other.memory.head_tokens = levels->values[FIT_HEAD_TOKENS][level[FIT_HEAD_TOKENS]];
    other.precision.compute = (int)levels->values[FIT_COMPUTE][level[FIT_COMPUTE]];
    return other;
}

/* "memory.recompute = "full" and train.micro_batch = 1" */
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

/* -- The search -------------------------------------------------------------------------------------------------- */

struct search {
    const struct deck *deck;
    const struct model_settings *model;
    int64_t ranks;
    struct executor *target;
    struct levels levels;
    struct deck other;                 /* planned last */
    int64_t memory[BUDGET_CATEGORIES]; /* that it needs */
    int64_t least;                     /* need of all planned so far, 0 = none yet */
    int64_t least_state;               /* of it weights, gradients and moments */
    int least_level[FIT_KEYS];
};

static int64_t state_of(const int64_t *memory)
{
    return memory[BUDGET_WEIGHTS] + memory[BUDGET_GRADIENTS] + memory[BUDGET_OPTIMIZER];
}

static int64_t plan_level(struct search *s, const int level[FIT_KEYS])
{
    s->other = deck_at(s->deck, &s->levels, level);
    struct model_settings model = *s->model;
    model.rows = layout_rows(&s->other, model_kv_heads(&model));
    if (precision_from_deck(&model.precision, &s->other, model.layers) != ERROR_NONE ||
        recompute_from_deck(&model.recompute, &s->other, model.layers) != ERROR_NONE)
        error_fatal("bug: %s", error_message());
    int64_t need = forecast_memory(s->memory, &s->other, &model, s->ranks, s->target);
    if (s->least == 0 || need < s->least) {
        s->least = need;
        s->least_state = state_of(s->memory);
        memcpy(s->least_level, level, sizeof s->least_level);
    }
    return need;
}

/* The next combination of levels of the keys in `mask`, each at least 1, the cheapest key fastest; false after the
 * last. */
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

/* Can any change of the keys of `mask` need at most `limit`? Recomputing more may need more, since what is made again
 * is in memory too, and so may sharing more, which takes buffers; the other keys are best at their ends. */
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

/* Looks among all changes of exactly the keys of `mask` for one that needs at most `limit`. */
static bool search_keys(struct search *s, unsigned mask, int64_t limit, int level[FIT_KEYS], int64_t *need)
{
    for (int key = 0; key < FIT_KEYS; key++) {
        level[key] = mask >> key & 1;
        if (level[key] >= s->levels.count[key])
            return false; /* nothing to change there */
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

static void advise(struct fit *fit, struct search *s)
{
    int level[FIT_KEYS] = {0};
    int64_t need = 0;
    char keys[FIT_TEXT / 2], size[BYTES_TEXT], state_size[BYTES_TEXT];
    const char *shares = s->deck->parallel.shard_size > 0 ? "parallel.shard_size" : "parallel.shard";
    level[FIT_WEIGHT_COPIES] = s->levels.count[FIT_WEIGHT_COPIES] - 1;
    level[FIT_SHARD] = s->levels.count[FIT_SHARD] - 1;
    plan_level(s, level);
    const int64_t state = state_of(s->memory); /* no setting makes it smaller */
    if (state > fit->limit) {
        snprintf(fit->advice, sizeof fit->advice,
                 "no setting helps: weights, gradients and moments alone are %s on every rank; take a smaller model, "
                 "or more ranks to share it (%s)",
                 bytes_text(state_size, (double)state), shares);
        return;
    }
    for (int keys_changed = 1; keys_changed <= FIT_KEYS; keys_changed++) {
        for (unsigned mask = 1; mask < 1u << FIT_KEYS; mask++) {
            if (bits_of(mask) != keys_changed || !search_keys(s, mask, fit->limit, level, &need))
                continue;
            describe(keys, sizeof keys, s->deck, &s->other, level);
            snprintf(fit->advice, sizeof fit->advice, "with %s it needs %s", keys, bytes_text(size, (double)need));
            return;
        }
    }
    struct deck least = deck_at(s->deck, &s->levels, s->least_level);
    describe(keys, sizeof keys, s->deck, &least, s->least_level);
    snprintf(fit->advice, sizeof fit->advice,
             "no setting fits: the least is %s%s%s, of which weights, gradients and moments are %s on every rank; take "
             "a smaller model, or more ranks to share it (%s)",
             bytes_text(size, (double)s->least), keys[0] != '\0' ? " with " : "", keys,
             bytes_text(state_size, (double)s->least_state), shares);
}

/* -- Limits ------------------------------------------------------------------------------------------------------ */

int64_t fit_available(void)
{
    FILE *file = fopen("/proc/meminfo", "r");
    char line[128];
    long long kibi = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "MemAvailable: %lld kB", &kibi) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return kibi * 1024;
}

int64_t fit_free(struct executor *target, int64_t sharing)
{
    return target->class->available != NULL ? target->class->available(target) : fit_available() / sharing;
}

int fit_limit(int64_t *limit, const struct deck *deck, int64_t sharing, struct executor *target)
{
    const double bytes = deck->device.memory * (1 << 30);
    *limit = bytes < 0x1p62 ? (int64_t)bytes : INT64_MAX;
    if (deck->device.memory > 0)
        return ERROR_NONE;
    *limit = fit_free(target, sharing);
    if (*limit == 0 && fit_available() == 0)
        return error_environment("/proc/meminfo does not say MemAvailable; set device.memory");
    return ERROR_NONE;
}

int64_t fit_room(const struct deck *deck, int64_t limit, const struct executor *target)
{
    return deck->device.memory > 0 ? limit : limit - limit / (target->class->available != NULL ? 64 : 8);
}

int fit_check(struct fit *fit, const struct deck *deck, const struct model_settings *model, int64_t need, int64_t ranks,
              int64_t sharing, struct executor *target)
{
    *fit = (struct fit){.need = need, .of_deck = deck->device.memory > 0};
    int code = fit_limit(&fit->limit, deck, sharing, target);
    if (code != ERROR_NONE)
        return code;
    if (fit->need <= fit->limit)
        return ERROR_NONE;
    struct search search = {
        .deck = deck, .model = model, .ranks = ranks, .target = target, .levels = levels_of(deck, model, ranks)};
    advise(fit, &search);
    return ERROR_NONE;
}

int fit_refuse(const struct fit *fit)
{
    char need[BYTES_TEXT], limit[BYTES_TEXT];
    if (fit->need <= fit->limit)
        return ERROR_NONE;
    bytes_text(need, (double)fit->need);
    bytes_text(limit, (double)fit->limit);
    if (fit->of_deck)
        return error_user("key device.memory: a rank needs %s and may use %s; %s", need, limit, fit->advice);
    return error_user("a rank needs %s, and this machine has %s free for each (to plan for another "
                      "machine, give a rank's GiB there as device.memory); %s",
                      need, limit, fit->advice);
}

int64_t fit_host(const struct deck *deck, int64_t ranks, int64_t sharing)
{
    const struct loader_settings loading = settings_of_loader(deck);
    const double room = (double)(fit_available() / sharing) - loader_bytes(&loading, ranks / settings_sharing(deck));
    return room > 0 ? (int64_t)room : 0;
}

int fit_check_host(const struct deck *deck, int64_t bytes, int64_t host, const struct executor *target)
{
    char need[BYTES_TEXT], limit[BYTES_TEXT];
    if (target->class->available == NULL || bytes <= host)
        return ERROR_NONE;
    return error_user(
        "key memory.offload_layers = \"%s\": takes %s of this machine's memory for each rank, which has %s "
        "free for each, beside the rows of two steps; name fewer layers",
        deck->memory.offload_layers, bytes_text(need, (double)bytes), bytes_text(limit, (double)host));
}

int fit_check_training(const struct deck *deck, const struct model_settings *model, int64_t ranks, int64_t sharing,
                       struct executor *target)
{
    struct fit fit;
    int64_t memory[BUDGET_CATEGORIES], need = forecast_memory(memory, deck, model, ranks, target);
    int code = fit_check(&fit, deck, model, need, ranks, sharing, target);
    if (code == ERROR_NONE)
        code = fit_refuse(&fit);
    if (code != ERROR_NONE)
        return code;
    return fit_check_host(deck, memory[BUDGET_HOST], fit_host(deck, ranks, sharing), target);
}

/* -- What layers make again ---------------------------------------------------------------------------------------- */

/* A table of what layers make again: `count` have the policy and the rest the one before it. */
struct table {
    int policy;
    int64_t count;
    bool fits;
};

struct choice {
    struct deck *deck;
    struct model_settings *model;
    int64_t ranks, limit, host;
    struct executor *target;
    bool offloads; /* layers too are chosen to be offloaded */
};

static int64_t plan_deck(struct choice *c, int64_t *memory)
{
    if (recompute_from_deck(&c->model->recompute, c->deck, c->model->layers) != ERROR_NONE)
        error_fatal("bug: %s", error_message());
    return forecast_memory(memory, c->deck, c->model, c->ranks, c->target);
}

static bool table_fits(struct choice *c)
{
    int64_t memory[BUDGET_CATEGORIES];
    const int64_t need = plan_deck(c, memory);
    return need <= c->limit && (c->deck->memory.fitted_offload[0] == '\0' || memory[BUDGET_HOST] <= c->host);
}

static void print_table(struct choice *c, int policy, int64_t count)
{
    recompute_print(c->deck->memory.fitted_layers, sizeof c->deck->memory.fitted_layers, (enum deck_recompute)policy,
                    count, c->model->layers);
}

/* Seconds of a layer's forward, of one micro-batch. */
static double forward_seconds(const struct choice *c, const struct rates *rates)
{
    const double size[RATE_SIZES] = {(double)settings_tokens(c->deck), (double)c->model->ffn, (double)c->model->hidden};
    struct model_settings blocks = *c->model;
    blocks.vocabulary = 0; /* without the head */
    return flops_per_token(&blocks, flops_segment(c->deck), FLOPS_CAUSAL) / 3 / (double)blocks.layers *
           (double)settings_tokens(c->deck) / rates_at(rates, RATE_PRODUCT, RATE_BF16, size);
}

/* Offloads as many layers with the policy as the host has room for, so far apart that each is copied while others
 * compute; the last ones stay, as nothing runs behind them. */
static void offload(struct choice *c, int policy)
{
    int64_t memory[BUDGET_CATEGORIES];
    struct rates rates;
    rates_default(&rates, c->deck); /* not a file's: all ranks and restarts choose alike */
    print_table(c, policy, c->model->layers);
    strcpy(c->deck->memory.fitted_offload, "1");
    plan_deck(c, memory);
    const int64_t bytes = memory[BUDGET_HOST];
    const double forwards = ceil(rates_seconds(&rates, RATE_HOST, 1, (double)bytes) / forward_seconds(c, &rates));
    const int64_t every = forwards > 1 ? (int64_t)fmin(forwards, (double)c->model->layers) : 1;
    int64_t count = (c->model->layers - 1) / every;
    if (every > 1 && count > LAYER_RANGES)
        count = LAYER_RANGES;
    if (bytes > 0 && count > c->host / bytes)
        count = c->host / bytes;
    recompute_print_offloaded(c->deck->memory.fitted_offload, sizeof c->deck->memory.fitted_offload,
                              bytes > 0 ? count : 0, every);
}

static bool policy_fits(struct choice *c, int policy, int64_t count)
{
    print_table(c, policy, count);
    return table_fits(c);
}

/* Nothing that layers make again makes weights, gradients and moments smaller. */
static bool state_fits(struct choice *c)
{
    int64_t memory[BUDGET_CATEGORIES];
    plan_deck(c, memory);
    return state_of(memory) <= c->limit;
}

/* The first policy that fits in all layers need not be in all: the more layers have it, the less they need. (None of
 * them need less than one: what is made again takes memory too.) */
static struct table choose_table(struct choice *c)
{
    struct table table = {DECK_RECOMPUTE_NONE, c->model->layers, false};
    for (int policy = state_fits(c) ? DECK_RECOMPUTE_NONE : DECK_RECOMPUTE_FULL;
         policy <= DECK_RECOMPUTE_FULL && !table.fits; policy++) {
        if (c->offloads)
            offload(c, policy > DECK_RECOMPUTE_NONE ? policy - 1 : policy); /* some layers may keep as much */
        table.policy = policy;
        table.fits = policy_fits(c, policy, table.count);
    }
    int64_t least = table.policy == DECK_RECOMPUTE_NONE || !table.fits ? table.count : 1;
    while (least < table.count) {
        const int64_t middle = (least + table.count) / 2;
        if (policy_fits(c, table.policy, middle))
            table.count = middle;
        else
            least = middle + 1;
    }
    table.fits = policy_fits(c, table.policy, table.count);
    return table;
}

static bool milder(const struct table *a, const struct table *b)
{
    return a->policy < b->policy || (a->policy == b->policy && a->count < b->count);
}

/* may: the program may choose layers to offload. */
static void choose(struct choice *c, bool may)
{
    c->deck->memory.fitted_offload[0] = '\0';
    const struct table without = choose_table(c);
    if (!may || (without.fits && without.policy <= DECK_RECOMPUTE_NORMS)) /* only products are worth copies */
        return;
    c->offloads = true;
    const struct table with = choose_table(c);
    if (with.fits && (!without.fits || milder(&with, &without)))
        return;
    c->deck->memory.fitted_offload[0] = '\0';
    policy_fits(c, without.policy, without.count);
}

/* -- The head's chunks --------------------------------------------------------------------------------------------- */

/* A power of two, the first from which on twice as many tokens would cost more memory than they are worth. With T
 * tokens, width H and vocabulary V, a step reads and writes 8 H V bytes of the head's f32 gradient in each of T / c
 * chunks. Chunks of 2 c tokens in place of c spare half of that and take 2 c V bytes more: 2 T H / c^2 bytes are not
 * moved for each byte taken. To make products again costs as much time as to move some 16 bytes for each byte saved. */
static int64_t balanced_chunk(const struct choice *c)
{
    enum { WORTH = 16 };
    const double tokens = (double)settings_tokens(c->deck), hidden = (double)c->model->hidden;
    int64_t chunk = LEAST_HEAD_TOKENS;
    while (2 * tokens * hidden > WORTH * (double)chunk * (double)chunk && chunk < settings_tokens(c->deck))
        chunk *= 2;
    return chunk;
}

/* Twice as large for as long as it fits and tokens are left, or half as large until it fits. */
static void resize_chunk(struct choice *c)
{
    int64_t *chunk = &c->deck->memory.fitted_head_tokens;
    while (*chunk > LEAST_HEAD_TOKENS && !table_fits(c))
        *chunk /= 2;
    while (*chunk < settings_tokens(c->deck) && table_fits(c))
        *chunk *= 2;
    while (*chunk > LEAST_HEAD_TOKENS && !table_fits(c))
        *chunk /= 2;
}

bool fit_chooses(const struct deck *deck)
{
    return deck->memory.recompute == DECK_RECOMPUTE_FIT || deck->memory.head_tokens == 0;
}

void fit_choose(struct deck *deck, struct model_settings *model, int64_t ranks, int64_t limit, int64_t host,
                struct executor *target)
{
    struct choice choice = {deck, model, ranks, fit_room(deck, limit, target), host - host / 8, target, false};
    const bool table = deck->memory.recompute == DECK_RECOMPUTE_FIT, chunk = deck->memory.head_tokens == 0;
    const bool may = target->class->available != NULL && deck->memory.offload_layers[0] == '\0' &&
                     deck->parallel.virtual == 1; /* as layout_check has it */
    if (table && !may)
        deck->memory.fitted_offload[0] = '\0'; /* of a run that might */
    const bool chosen = (!table || deck->memory.fitted_layers[0] != '\0') &&
                        (!chunk || deck->memory.fitted_head_tokens > 0) && table_fits(&choice);
    if (chosen)
        return;
    if (chunk)
        deck->memory.fitted_head_tokens = balanced_chunk(&choice);
    if (table)
        choose(&choice, may);
    if (chunk)
        resize_chunk(&choice);
}
