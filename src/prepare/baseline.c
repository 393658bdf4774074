#include "prepare/baseline.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"
#include "loader/masking.h"
#include "prepare/count_table.h"

#include <math.h>
#include <string.h>

enum { READ_TOKENS = 1 << 16, CODES = 256 /* of bases */ };

/* Numbering of the symbols of a tokenizer. */
struct baseline_symbols {
    int64_t symbols;
    int64_t ids;     /* all ids are below */
    int32_t *number; /* [ids] number of each id; -1: not a symbol; owned */
};

static struct baseline_symbols alphabet_of(const struct tokenizer *tokenizer)
{
    struct baseline_symbols alphabet = {.symbols = tokenizer->bases ? 4 : 0,
                                        .ids = tokenizer->bases ? CODES : tokenizer->vocabulary};
    alphabet.number = memory_allocate(alphabet.ids * (int64_t)sizeof *alphabet.number);
    for (int32_t id = 0; id < alphabet.ids; id++) {
        if (tokenizer->bases)
            alphabet.number[id] = tokenizer_base(id);
        else if (!tokenizer_is_special(tokenizer, id))
            alphabet.number[id] = (int32_t)alphabet.symbols++;
        else
            alphabet.number[id] = -1;
    }
    return alphabet;
}

int baseline_max_order(const struct tokenizer *tokenizer)
{
    struct baseline_symbols alphabet = alphabet_of(tokenizer);
    memory_free(alphabet.number);
    return count_table_max_order(alphabet.symbols);
}

struct count_model {
    struct baseline_symbols alphabet;
    int order;
    struct count_table *counts;
};

/* Called for each symbol. `run` symbols precede it (at most order); they are the context. */
typedef void (*visitor)(const struct count_model *model, int run, uint64_t context, int64_t symbol, void *self);
/* Called after each sequence. */
typedef void (*ender)(const struct count_model *model, void *self);

static void walk(const struct token_store *store, const struct count_model *model, visitor visit, ender end_sequence,
                 void *self)
{
    int32_t *tokens = memory_allocate(READ_TOKENS * (int64_t)sizeof *tokens);
    for (int64_t i = 0; i < store->sequences; i++) {
        int64_t end = token_store_offset(store, i + 1);
        uint64_t context = 0;
        int run = 0;
        for (int64_t at = token_store_offset(store, i); at < end; at += READ_TOKENS) {
            int64_t count = MIN(end - at, READ_TOKENS);
            token_store_read(store, at, count, tokens);
            for (int64_t t = 0; t < count; t++) {
                const int32_t symbol = tokens[t] < model->alphabet.ids ? model->alphabet.number[tokens[t]] : -1;
                if (symbol < 0) {
                    run = 0;
                    context = 0;
                    continue;
                }
                visit(model, run, context, symbol, self);
                context = count_table_extend(model->counts, context, symbol);
                run += run < model->order;
            }
        }
        end_sequence(model, self);
    }
    memory_free(tokens);
}

static void end_nothing(const struct count_model *model, void *self)
{
    (void)model, (void)self;
}

static void count_symbol(const struct count_model *model, int run, uint64_t context, int64_t symbol, void *self)
{
    (void)self;
    count_table_add(model->counts, run, context, symbol);
}

/* Makes a model from the counts of a store. */
static struct count_model model_create(const struct token_store *train, int order)
{
    struct count_model model = {.alphabet = alphabet_of(train->tokenizer), .order = order};
    model.counts = count_table_open(model.alphabet.symbols, order);
    walk(train, &model, count_symbol, end_nothing, NULL);
    return model;
}

static void model_destroy(struct count_model *model)
{
    count_table_close(model->counts);
    memory_free(model->alphabet.number);
}

/* Returns p(symbol | context) of order k. */
static double probability(const struct count_model *model, int k, uint64_t context, int64_t symbol)
{
    return (double)(count_table_get(model->counts, k, context, symbol) + 1) /
           (double)(count_table_total(model->counts, k, context) + model->alphabet.symbols);
}

struct sum {
    double nats;
    int64_t symbols;
};

static void score_symbol(const struct count_model *model, int run, uint64_t context, int64_t symbol, void *self)
{
    struct sum *sum = self;
    sum->nats -= log(probability(model, run, context, symbol));
    sum->symbols++;
}

struct composition {
    struct sum sum;
    int64_t *count;          /* [symbols] of each symbol in the current sequence */
    int64_t *kinds, present; /* [present] the symbols that are in it */
};

static void compose_symbol(const struct count_model *model, int run, uint64_t context, int64_t symbol, void *self)
{
    (void)model, (void)run, (void)context;
    struct composition *composition = self;
    if (composition->count[symbol]++ == 0)
        composition->kinds[composition->present++] = symbol;
}

static void compose_end(const struct count_model *model, void *self)
{
    struct composition *composition = self;
    int64_t length = 0;
    for (int64_t i = 0; i < composition->present; i++)
        length += composition->count[composition->kinds[i]];
    for (int64_t i = 0; i < composition->present; i++) {
        const int64_t symbol = composition->kinds[i];
        const double n = (double)composition->count[symbol];
        const double prior = BASELINE_PRIOR * probability(model, 0, 0, symbol);
        composition->sum.nats -= n * log((n - 1 + prior) / ((double)length - 1 + BASELINE_PRIOR));
        composition->count[symbol] = 0;
    }
    composition->sum.symbols += length;
    composition->present = 0;
}

static int check_stores(const struct token_store *train, const struct token_store *valid)
{
    if (strcmp(train->tokenizer->name, valid->tokenizer->name) == 0)
        return ERROR_NONE;
    return error_user("%s has %s tokens, but %s has %s tokens; prepare both with one tokenizer", train->path,
                      train->tokenizer->name, valid->path, valid->tokenizer->name);
}

static int finish(const struct token_store *valid, const struct sum *sum, double *nats, int64_t *symbols)
{
    if (sum->symbols == 0)
        return error_user("%s: has no %s to evaluate", valid->path, tokenizer_token_noun(valid->tokenizer));
    *nats = sum->nats / (double)sum->symbols;
    *symbols = sum->symbols;
    return ERROR_NONE;
}

int baseline_evaluate(const struct token_store *train, const struct token_store *valid, int64_t order, double *nats,
                      int64_t *symbols)
{
    int code = check_stores(train, valid);
    if (code != ERROR_NONE)
        return code;
    const int most = baseline_max_order(train->tokenizer);
    if (order < 0 || order > most)
        return error_user("a count model's order must be between 0 and %d for %s tokens, not %lld", most,
                          train->tokenizer->name, (long long)order);
    struct count_model model = model_create(train, (int)order);
    struct sum sum = {0};
    walk(valid, &model, score_symbol, end_nothing, &sum);
    model_destroy(&model);
    return finish(valid, &sum, nats, symbols);
}

/* Returns the symbol of an id that masking selects, -1 for other ids. Counts ignore the case of bases, so their symbols
 * stand for the capitals. */
static int32_t selected_symbol(const struct count_model *model, const struct tokenizer *tokenizer, int32_t id)
{
    return tokenizer->bases && id >= 'a' && id <= 'z' ? -1 : model->alphabet.number[id];
}

/* Sums over all selected symbols s: how often s is in the held-out store, n(s), and p(s) of the model. */
struct masked_sums {
    double all, probability, logs; /* of n(s), p(s), n(s) log p(s) */
};

/* Returns the nats of all places where masking shows `seen`. Each original other than `seen` turns into it with one and
 * the same probability, so the sums of all symbols suffice. */
static double masked_nats(const struct tokenizer *tokenizer, const struct masked_sums *sums, int32_t seen, double n,
                          double p)
{
    const int32_t other = seen == 0 ? 1 : 0;
    const double turned = masking_likelihood(tokenizer, other, seen), kept = masking_likelihood(tokenizer, seen, seen);
    const double evidence = turned * (sums->probability - p) + kept * p;
    double nats = 0;
    if (turned > 0)
        nats -= turned * (sums->logs - (n > 0 ? n * log(p) : 0) + (sums->all - n) * log(turned / evidence));
    if (n > 0)
        nats -= kept * n * log(kept * p / evidence);
    return nats;
}

int baseline_masked(const struct token_store *train, const struct token_store *valid, double *nats, int64_t *symbols)
{
    int code = check_stores(train, valid);
    if (code != ERROR_NONE)
        return code;
    const struct tokenizer *tokenizer = train->tokenizer;
    struct count_model model = model_create(train, 0), truth = model_create(valid, 0);
    struct masked_sums sums = {0};
    struct sum sum = {0};
    for (int64_t s = 0; s < model.alphabet.symbols; s++) {
        const double n = (double)count_table_get(truth.counts, 0, 0, s), p = probability(&model, 0, 0, s);
        sums.all += n;
        sums.probability += p;
        sums.logs += n * log(p);
    }
    for (int32_t seen = 0; seen < tokenizer->vocabulary; seen++) {
        const int32_t symbol = selected_symbol(&model, tokenizer, seen);
        const double n = symbol >= 0 ? (double)count_table_get(truth.counts, 0, 0, symbol) : 0;
        sum.nats += masked_nats(tokenizer, &sums, seen, n, symbol >= 0 ? probability(&model, 0, 0, symbol) : 0);
    }
    sum.symbols = (int64_t)sums.all;
    model_destroy(&model);
    model_destroy(&truth);
    return finish(valid, &sum, nats, symbols);
}

int baseline_composition(const struct token_store *train, const struct token_store *valid, double *nats,
                         int64_t *symbols)
{
    int code = check_stores(train, valid);
    if (code != ERROR_NONE)
        return code;
    struct count_model model = model_create(train, 0);
    const int64_t bytes = model.alphabet.symbols * (int64_t)sizeof(int64_t);
    struct composition composition = {.count = memory_allocate(bytes), .kinds = memory_allocate(bytes)};
    walk(valid, &model, compose_symbol, compose_end, &composition);
    memory_free(composition.count);
    memory_free(composition.kinds);
    model_destroy(&model);
    return finish(valid, &composition.sum, nats, symbols);
}
