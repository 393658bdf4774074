#include "prepare/baseline.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"
#include "loader/masking.h"

#include <math.h>
#include <string.h>

enum { READ_TOKENS = 1 << 16, IDS = 256, MAX_ORDER = 12, CELL_BITS = 2 * (MAX_ORDER + 1) };

/* Numbering of the symbols of a tokenizer. */
struct baseline_symbols {
    int symbols;
    int bits;        /* bits of a symbol's number */
    int number[IDS]; /* number of each id; -1: not a symbol */
};

static struct baseline_symbols alphabet_of(const struct tokenizer *tokenizer)
{
    struct baseline_symbols alphabet = {.symbols = tokenizer->bases ? 4 : 0};
    for (int id = 0; id < IDS; id++) {
        if (tokenizer->bases)
            alphabet.number[id] = tokenizer_base(id);
        else if (id < tokenizer->vocabulary && !tokenizer_is_special(tokenizer, id))
            alphabet.number[id] = alphabet.symbols++;
        else
            alphabet.number[id] = -1;
    }
    while (1 << alphabet.bits < alphabet.symbols)
        alphabet.bits++;
    return alphabet;
}

int baseline_max_order(const struct tokenizer *tokenizer)
{
    return CELL_BITS / alphabet_of(tokenizer).bits - 1;
}

/* Counts of all orders 0 .. order: n(context, symbol) of order k is counts[k][context << bits | symbol]. */
struct count_model {
    struct baseline_symbols alphabet;
    int order;
    int64_t *counts[MAX_ORDER + 1];
};

static int64_t cells(const struct count_model *model, int order)
{
    return (int64_t)1 << model->alphabet.bits * (order + 1);
}

/* Called for each symbol. `run` symbols precede it (at most order); `context` has their numbers. */
typedef void (*visitor)(const struct count_model *model, int run, int64_t context, int symbol, void *self);
/* Called after each sequence. */
typedef void (*ender)(const struct count_model *model, void *self);

static void walk(const struct token_store *store, const struct count_model *model, visitor visit, ender end_sequence,
                 void *self)
{
    int32_t *tokens = memory_allocate(READ_TOKENS * (int64_t)sizeof *tokens);
    const int bits = model->alphabet.bits;
    const int64_t mask = ((int64_t)1 << bits * model->order) - 1;
    for (int64_t i = 0; i < store->sequences; i++) {
        int64_t end = token_store_offset(store, i + 1), context = 0;
        int run = 0;
        for (int64_t at = token_store_offset(store, i); at < end; at += READ_TOKENS) {
            int64_t count = MIN(end - at, READ_TOKENS);
            token_store_read(store, at, count, tokens);
            for (int64_t t = 0; t < count; t++) {
                int symbol = model->alphabet.number[tokens[t]];
                if (symbol < 0) {
                    run = 0;
                    context = 0;
                    continue;
                }
                visit(model, run, context, symbol, self);
                context = (context << bits | symbol) & mask;
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

static void count_symbol(const struct count_model *model, int run, int64_t context, int symbol, void *self)
{
    (void)self;
    model->counts[run][context << model->alphabet.bits | symbol]++;
}

/* Adds the counts of higher orders to lower ones. Each symbol was counted in the longest order that it has; the counts
 * of order k are its own and those of order k + 1, summed over the oldest symbol of the context. */
static void fold(struct count_model *model)
{
    for (int k = model->order - 1; k >= 0; k--)
        for (int64_t i = 0; i < cells(model, k + 1); i++)
            model->counts[k][i & (cells(model, k) - 1)] += model->counts[k + 1][i];
}

/* Makes a model from the counts of a store. */
static struct count_model model_create(const struct token_store *train, int order)
{
    struct count_model model = {.alphabet = alphabet_of(train->tokenizer), .order = order};
    for (int k = 0; k <= order; k++)
        model.counts[k] = memory_allocate(cells(&model, k) * (int64_t)sizeof(int64_t));
    walk(train, &model, count_symbol, end_nothing, NULL);
    fold(&model);
    return model;
}

static void model_destroy(struct count_model *model)
{
    for (int k = 0; k <= model->order; k++)
        memory_free(model->counts[k]);
}

/* Returns p(symbol | context) of order k. */
static double probability(const struct count_model *model, int k, int64_t context, int symbol)
{
    const int64_t *n = model->counts[k] + (context << model->alphabet.bits);
    int64_t all = 0;
    for (int i = 0; i < model->alphabet.symbols; i++)
        all += n[i];
    return (double)(n[symbol] + 1) / (double)(all + model->alphabet.symbols);
}

struct sum {
    double nats;
    int64_t symbols;
};

static void score_symbol(const struct count_model *model, int run, int64_t context, int symbol, void *self)
{
    struct sum *sum = self;
    sum->nats -= log(probability(model, run, context, symbol));
    sum->symbols++;
}

struct composition {
    struct sum sum;
    int64_t count[IDS]; /* of each symbol in the current sequence */
};

static void compose_symbol(const struct count_model *model, int run, int64_t context, int symbol, void *self)
{
    (void)model, (void)run, (void)context;
    struct composition *composition = self;
    composition->count[symbol]++;
}

static void compose_end(const struct count_model *model, void *self)
{
    struct composition *composition = self;
    int64_t length = 0;
    for (int s = 0; s < model->alphabet.symbols; s++)
        length += composition->count[s];
    for (int s = 0; s < model->alphabet.symbols; s++) {
        double n = (double)composition->count[s], prior = BASELINE_PRIOR * probability(model, 0, 0, s);
        if (n > 0)
            composition->sum.nats -= n * log((n - 1 + prior) / ((double)length - 1 + BASELINE_PRIOR));
    }
    composition->sum.symbols += length;
    memset(composition->count, 0, sizeof composition->count);
}

static int check_stores(const struct token_store *train, const struct token_store *valid)
{
    if (tokenizer_is_text(train->tokenizer))
        return error_user("%s: has tokens of text (%s); count models are for bases and residues", train->path,
                          train->tokenizer->name);
    if (train->tokenizer == valid->tokenizer)
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
static int selected_symbol(const struct count_model *model, const struct tokenizer *tokenizer, int id)
{
    return tokenizer->bases && id >= 'a' && id <= 'z' ? -1 : model->alphabet.number[id];
}

int baseline_masked(const struct token_store *train, const struct token_store *valid, double *nats, int64_t *symbols)
{
    int code = check_stores(train, valid);
    if (code != ERROR_NONE)
        return code;
    const struct tokenizer *tokenizer = train->tokenizer;
    struct count_model model = model_create(train, 0), truth = model_create(valid, 0);
    struct sum sum = {0};
    for (int seen = 0; seen < tokenizer->vocabulary; seen++) {
        double evidence = 0, joint[IDS] = {0};
        for (int id = 0; id < tokenizer->vocabulary; id++)
            if (selected_symbol(&model, tokenizer, id) >= 0)
                evidence += joint[id] =
                    probability(&model, 0, 0, model.alphabet.number[id]) * masking_likelihood(tokenizer, id, seen);
        for (int id = 0; id < tokenizer->vocabulary; id++)
            if (joint[id] > 0)
                sum.nats -= (double)truth.counts[0][model.alphabet.number[id]] *
                            masking_likelihood(tokenizer, id, seen) * log(joint[id] / evidence);
    }
    for (int s = 0; s < truth.alphabet.symbols; s++)
        sum.symbols += truth.counts[0][s];
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
    struct composition composition = {0};
    walk(valid, &model, compose_symbol, compose_end, &composition);
    model_destroy(&model);
    return finish(valid, &composition.sum, nats, symbols);
}
