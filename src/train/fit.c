#include "train/fit.h"
#include "base/bytes.h"
#include "base/error.h"
#include "train/forecast.h"
#include "train/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- What may be changed ----------------------------------------------------------------------------------------- */

enum fit_key { FIT_WEIGHT_COPIES, FIT_SHARD, FIT_RECOMPUTE, FIT_MICRO_BATCH, FIT_HEAD_TOKENS, FIT_COMPUTE, FIT_KEYS };
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

static struct levels levels_of(const struct deck *deck, int64_t ranks)
{
    struct levels levels = {.count = {0}};
    add_level(&levels, FIT_WEIGHT_COPIES, deck->precision.weight_copies);
    if (deck->precision.recipe != DECK_RECIPE_NONE && deck->precision.weight_copies == DECK_WEIGHT_COPIES_KEPT)
        add_level(&levels, FIT_WEIGHT_COPIES, DECK_WEIGHT_COPIES_MADE);
    for (int shard = deck->parallel.shard; shard <= (ranks > 1 ? DECK_SHARD_FULL : deck->parallel.shard); shard++)
        add_level(&levels, FIT_SHARD, shard);
    add_level(&levels, FIT_RECOMPUTE, deck->memory.recompute);
    for (int policy = deck->memory.recompute + 1; policy <= DECK_RECOMPUTE_FULL; policy++)
        add_level(&levels, FIT_RECOMPUTE, policy);
    for (int64_t rows = deck->train.micro_batch; rows > 0; rows /= 2)
        add_level(&levels, FIT_MICRO_BATCH, rows);
    add_level(&levels, FIT_HEAD_TOKENS, deck->memory.head_tokens); /* then quarters, as multiples of 16 */
    int64_t least = settings_tokens(deck) / MAX_HEAD_CHUNKS;
    least = least > LEAST_HEAD_TOKENS ? least : LEAST_HEAD_TOKENS;
    for (int64_t tokens = deck->memory.head_tokens / 64 * 16; tokens >= least; tokens = tokens / 64 * 16)
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
    other.memory.head_tokens = levels->values[FIT_HEAD_TOKENS][level[FIT_HEAD_TOKENS]];
    other.precision.compute = (int)levels->values[FIT_COMPUTE][level[FIT_COMPUTE]];
    return other;
}

/* "memory.recompute = "full" and train.micro_batch = 1" */
static void describe(char *out, size_t bytes, const struct deck *deck, const struct deck *other,
                     const int level[FIT_KEYS])
{
    static const char *const names[FIT_KEYS] = {"precision.weight_copies", "parallel.shard",     "memory.recompute",
                                                "train.micro_batch",       "memory.head_tokens", "precision.compute"};
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
    struct search search = {
        .deck = deck, .model = model, .ranks = ranks, .target = target, .levels = levels_of(deck, ranks)};
    if (fit->need > fit->limit)
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

/* What is offloaded from a device that has memory of its own. */
static int check_host(const struct deck *deck, int64_t bytes, int64_t sharing, const struct executor *target)
{
    const int64_t available = fit_available() / sharing;
    char need[BYTES_TEXT], limit[BYTES_TEXT];
    if (target->class->available == NULL || bytes <= available)
        return ERROR_NONE;
    return error_user(
        "key memory.offload_layers = \"%s\": takes %s of this machine's memory for each rank, which has %s "
        "free for each; name fewer layers",
        deck->memory.offload_layers, bytes_text(need, (double)bytes), bytes_text(limit, (double)available));
}

int fit_check_training(const struct deck *deck, const struct model_settings *model, int64_t ranks, int64_t sharing,
                       struct executor *target)
{
    struct fit fit;
    int64_t memory[BUDGET_CATEGORIES], need = forecast_memory(memory, deck, model, ranks, target);
    int code = fit_check(&fit, deck, model, need, ranks, sharing, target);
    if (code == ERROR_NONE)
        code = fit_refuse(&fit);
    return code == ERROR_NONE ? check_host(deck, memory[BUDGET_HOST], sharing, target) : code;
}

/* -- What layers make again ---------------------------------------------------------------------------------------- */

struct choice {
    struct deck *deck;
    struct model_settings *model;
    int64_t ranks, limit;
    struct executor *target;
};

static bool table_fits(struct choice *c)
{
    int64_t memory[BUDGET_CATEGORIES];
    if (recompute_from_deck(&c->model->recompute, c->deck, c->model->layers) != ERROR_NONE)
        error_fatal("bug: %s", error_message());
    return forecast_memory(memory, c->deck, c->model, c->ranks, c->target) <= c->limit;
}

/* Do `count` layers with the policy, and the rest with the one before it? */
static bool policy_fits(struct choice *c, enum deck_recompute policy, int64_t count)
{
    recompute_print(c->deck->memory.fitted_layers, sizeof c->deck->memory.fitted_layers, policy, count,
                    c->model->layers);
    return table_fits(c);
}

/* The first policy that fits in all layers need not be in all: the more layers have it, the less they need. (None of
 * them need less than one: what is made again takes memory too.) */
static void choose_table(struct choice *c)
{
    int policy = DECK_RECOMPUTE_NONE;
    while (!policy_fits(c, (enum deck_recompute)policy, c->model->layers) && policy < DECK_RECOMPUTE_FULL)
        policy++;
    int64_t most = c->model->layers, least = policy == DECK_RECOMPUTE_NONE ? most : 1;
    while (least < most) {
        const int64_t middle = (least + most) / 2;
        if (policy_fits(c, (enum deck_recompute)policy, middle))
            most = middle;
        else
            least = middle + 1;
    }
    policy_fits(c, (enum deck_recompute)policy, most);
}

void fit_choose(struct deck *deck, struct model_settings *model, int64_t ranks, int64_t limit, struct executor *target)
{
    struct choice choice = {deck, model, ranks, fit_room(deck, limit, target), target};
    if (deck->memory.recompute != DECK_RECOMPUTE_FIT)
        return;
    if (deck->memory.fitted_layers[0] == '\0' || !table_fits(&choice))
        choose_table(&choice);
}
