#include "data/baseline.h"
#include "base/error.h"
#include "base/memory.h"
#include "data/token_store.h"

#include <math.h>

enum { CHUNK = 1 << 16 };

/* Counts of all orders 0 .. order: n(context, base) of order k is counts[k][context * 4 + base]. */
struct model {
    int order;
    int64_t *counts[BASELINE_MAX_ORDER + 1];
};

/* What is done with a base: `run` bases stand before it (at most order), whose numbers are `context`. */
typedef void (*visitor)(const struct model *model, int run, int64_t context, int base, void *self);

static void walk(const struct token_store *store, const struct model *model, visitor visit, void *self)
{
    int32_t *tokens = memory_allocate(CHUNK * (int64_t)sizeof *tokens);
    int64_t mask = ((int64_t)1 << 2 * model->order) - 1;
    for (int64_t i = 0; i < store->sequences; i++) {
        int64_t end = token_store_offset(store, i + 1), context = 0;
        int run = 0;
        for (int64_t at = token_store_offset(store, i); at < end; at += CHUNK) {
            int64_t count = end - at < CHUNK ? end - at : CHUNK;
            token_store_read(store, at, count, tokens);
            for (int64_t t = 0; t < count; t++) {
                int base = tokenizer_base(tokens[t]);
                if (base < 0) {
                    run = 0;
                    context = 0;
                    continue;
                }
                visit(model, run, context, base, self);
                context = (context << 2 | base) & mask;
                run += run < model->order;
            }
        }
    }
    memory_free(tokens);
}

static void count_base(const struct model *model, int run, int64_t context, int base, void *self)
{
    (void)self;
    model->counts[run][context * 4 + base]++;
}

/* Each base was counted in the longest order it has; an order's counts are its own and those of the next one, summed
 * over the context's oldest base. */
static void fold(struct model *model)
{
    for (int k = model->order - 1; k >= 0; k--) {
        int64_t cells = (int64_t)4 << 2 * k;
        for (int64_t oldest = 0; oldest < 4; oldest++)
            for (int64_t i = 0; i < cells; i++)
                model->counts[k][i] += model->counts[k + 1][oldest * cells + i];
    }
}

struct sum {
    double nats;
    int64_t bases;
};

static void score_base(const struct model *model, int run, int64_t context, int base, void *self)
{
    struct sum *sum = self;
    const int64_t *n = model->counts[run] + context * 4;
    sum->nats -= log((double)(n[base] + 1) / (double)(n[0] + n[1] + n[2] + n[3] + 4));
    sum->bases++;
}

static int open_nucleotides(struct token_store **store, const char *path)
{
    int code = token_store_open(store, path);
    if (code == ERROR_NONE && !(*store)->tokenizer->bases) {
        code = error_user("%s: count models need nucleotides, but the store has %s tokens", path,
                          (*store)->tokenizer->name);
    }
    return code;
}

int baseline_evaluate(const char *train, const char *valid, int order, double *nats, int64_t *bases)
{
    if (order < 0 || order > BASELINE_MAX_ORDER)
        return error_user("a count model's order must be between 0 and %d, not %d", BASELINE_MAX_ORDER, order);
    struct token_store *fitted = NULL, *held_out = NULL;
    int code = open_nucleotides(&fitted, train);
    if (code == ERROR_NONE)
        code = open_nucleotides(&held_out, valid);
    if (code == ERROR_NONE) {
        struct model model = {.order = order};
        struct sum sum = {0};
        for (int k = 0; k <= order; k++)
            model.counts[k] = memory_allocate(((int64_t)4 << 2 * k) * (int64_t)sizeof(int64_t));
        walk(fitted, &model, count_base, NULL);
        fold(&model);
        walk(held_out, &model, score_base, &sum);
        if (sum.bases == 0)
            code = error_user("%s: holds no base to evaluate", valid);
        *nats = sum.nats / (double)sum.bases;
        *bases = sum.bases;
        for (int k = 0; k <= order; k++)
            memory_free(model.counts[k]);
    }
    token_store_close(fitted);
    token_store_close(held_out);
    return code;
}
