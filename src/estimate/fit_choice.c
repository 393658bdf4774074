#include "estimate/fit_choice.h"
#include "deck/fields.h"
#include "base/error.h"
#include "architecture/flops.h"
#include "estimate/fit.h"
#include "estimate/estimate.h"
#include "estimate/rates.h"
#include "setup/recompute.h"

#include <math.h>
#include <string.h>

/* -- Recompute policies -------------------------------------------------------------------------------------------- */

/* A recompute policy for each layer: the first `count` layers have `policy`, the rest has `milder`. */
struct table {
    enum deck_recompute policy, milder;
    int64_t count;
    bool fits;
};

struct fit_search {
    struct setup *setup;
    struct deck *deck; /* deck of the setup */
    int64_t limit, host;
    struct executor *target;
    bool offloads; /* layers to offload are chosen too */
};

static int64_t plan_deck(struct fit_search *c, int64_t *memory)
{
    setup_update(c->setup);
    return estimate_memory(memory, c->setup, c->target);
}

static bool table_fits(struct fit_search *c)
{
    int64_t memory[BUDGET_CATEGORIES];
    const int64_t need = plan_deck(c, memory);
    return need <= c->limit && (c->deck->memory.fitted_offload[0] == '\0' || memory[BUDGET_HOST] <= c->host);
}

static void print_table(struct fit_search *c, const struct table *table)
{
    recompute_print(c->deck->memory.fitted_layers, sizeof c->deck->memory.fitted_layers, table->policy, table->count,
                    table->milder, c->setup->model.layers);
}

/* Returns the seconds of a layer's forward of one micro-batch. */
static double forward_seconds(const struct fit_search *c, const struct machine_rates *rates)
{
    const double size[RATE_SIZES] = {(double)c->setup->tokens, (double)c->setup->model.ffn,
                                     (double)c->setup->model.hidden};
    struct model_settings blocks = c->setup->model;
    blocks.vocabulary = 0; /* without the head */
    return flops_per_token(&blocks, c->setup->train.window, FLOPS_CAUSAL) / 3 / (double)blocks.layers *
           (double)c->setup->tokens / rates_at(rates, RATE_GEMM, RATE_BF16, size);
}

/* Chooses as many layers to offload as host memory has space for, so far apart that each is copied while others
 * compute. Nothing runs after the last layers to overlap their copies, so they are not offloaded. */
static void offload(struct fit_search *c, enum deck_recompute policy)
{
    int64_t memory[BUDGET_CATEGORIES];
    static struct machine_rates rates;     /* static, because it is large for a small stack */
    rates_default(&rates, c->setup->peak); /* not from a file, so that all ranks and restarts choose the same */
    print_table(c, &(struct table){.policy = policy, .count = c->setup->model.layers});
    strcpy(c->deck->memory.fitted_offload, "1");
    plan_deck(c, memory);
    const int64_t bytes = memory[BUDGET_HOST];
    const double forwards = ceil(rates_seconds(&rates, RATE_HOST, 1, (double)bytes) / forward_seconds(c, &rates));
    const int64_t every = forwards > 1 ? (int64_t)fmin(forwards, (double)c->setup->model.layers) : 1;
    int64_t count = (c->setup->model.layers - 1) / every;
    if (every > 1 && count > LAYER_RANGES)
        count = LAYER_RANGES;
    if (bytes > 0 && count > c->host / bytes)
        count = c->host / bytes;
    recompute_print_offloaded(c->deck->memory.fitted_offload, sizeof c->deck->memory.fitted_offload,
                              bytes > 0 ? count : 0, every);
}

static bool count_fits(struct fit_search *c, struct table table, int64_t count)
{
    table.count = count;
    print_table(c, &table);
    return table_fits(c);
}

/* Recomputation does not reduce this state. */
static bool state_fits(struct fit_search *c)
{
    int64_t memory[BUDGET_CATEGORIES];
    plan_deck(c, memory);
    return fit_state(memory) <= c->limit;
}

/* Finds the mildest policy that fits in all layers, then by bisection the fewest layers that need it. (More layers need
 * less memory, except that one may need more than none: recomputed tensors need memory too.) */
static struct table choose_table(struct fit_search *c)
{
    const bool gelu = c->setup->model.family->gelu;
    const enum deck_recompute mildest = state_fits(c) ? DECK_RECOMPUTE_NONE : DECK_RECOMPUTE_FULL;
    struct table table = {mildest, mildest, c->setup->model.layers, false};
    for (;;) {
        if (c->offloads)
            offload(c, table.milder); /* layers with the milder policy keep more */
        table.fits = count_fits(c, table, table.count);
        if (table.fits || table.policy == DECK_RECOMPUTE_FULL)
            break;
        table.milder = table.policy;
        table.policy = recompute_next(table.policy, gelu);
    }
    int64_t least = table.policy == DECK_RECOMPUTE_NONE || !table.fits ? table.count : 1;
    while (least < table.count) {
        const int64_t middle = (least + table.count) / 2;
        if (count_fits(c, table, middle))
            table.count = middle;
        else
            least = middle + 1;
    }
    table.fits = count_fits(c, table, table.count);
    return table;
}

static bool milder(const struct table *a, const struct table *b)
{
    return a->policy < b->policy || (a->policy == b->policy && a->count < b->count);
}

/* may: layers to offload may be chosen. */
static void choose(struct fit_search *c, bool may)
{
    c->deck->memory.fitted_offload[0] = '\0';
    const struct table without = choose_table(c);
    if (!may || (without.fits && without.policy <= DECK_RECOMPUTE_NORMS)) /* copies are only worth saving GEMMs */
        return;
    c->offloads = true;
    const struct table with = choose_table(c);
    if (with.fits && (!without.fits || milder(&with, &without)))
        return;
    c->deck->memory.fitted_offload[0] = '\0';
    count_fits(c, without, without.count);
}

/* -- Slices of the head -------------------------------------------------------------------------------------------- */

/* Returns the first power of two from which doubling the slice would not be worth its memory. With T tokens, width H
 * and vocabulary V, a step reads and writes 8 H V bytes of the head's f32 gradient in each of T / c slices. Slices of 2
 * c tokens save half of that and need 2 c V more bytes: 2 T H / c^2 bytes of traffic saved per byte. For comparison,
 * recomputing GEMMs costs the time of about 16 bytes of traffic per byte saved. */
static int64_t balanced_slice(const struct fit_search *c)
{
    enum { WORTH = 16 };
    const double tokens = (double)c->setup->tokens, hidden = (double)c->setup->model.hidden;
    int64_t slice = FIT_LEAST_SLICE;
    while (2 * tokens * hidden > WORTH * (double)slice * (double)slice && slice < c->setup->tokens)
        slice *= 2;
    return slice;
}

/* Doubles the slice while it fits and tokens are left, or halves it until it fits. */
static void resize_slice(struct fit_search *c)
{
    int64_t *slice = &c->deck->memory.fitted_head_tokens;
    while (*slice > FIT_LEAST_SLICE && !table_fits(c))
        *slice /= 2;
    while (*slice < c->setup->tokens && table_fits(c))
        *slice *= 2;
    while (*slice > FIT_LEAST_SLICE && !table_fits(c))
        *slice /= 2;
}

bool fit_chooses(const struct deck *deck)
{
    return deck->memory.recompute == DECK_RECOMPUTE_FIT || deck->memory.head_tokens == 0;
}

static void choose_keys(struct setup *setup, int64_t limit, int64_t host, struct executor *target)
{
    struct deck *deck = setup->deck;
    struct fit_search choice = {setup, deck, fit_usable(setup, limit, target), host - host / 8, target, false};
    const bool table = deck->memory.recompute == DECK_RECOMPUTE_FIT, slice = deck->memory.head_tokens == 0;
    /* with several model chunks, offload copies would be waited for at the end of each */
    const bool may =
        target->device != NULL && deck->memory.offload_layers[0] == '\0' && deck->parallel.virtual_stages == 1;
    if (table && !may)
        deck->memory.fitted_offload[0] = '\0'; /* an earlier run may have chosen it */
    const bool chosen = (!table || deck->memory.fitted_layers[0] != '\0') &&
                        (!slice || deck->memory.fitted_head_tokens > 0) && table_fits(&choice);
    if (chosen)
        return;
    if (slice)
        deck->memory.fitted_head_tokens = balanced_slice(&choice);
    if (table)
        choose(&choice, may);
    if (slice)
        resize_slice(&choice);
}

void fit_choose(struct setup *setup, int64_t limit, int64_t host, struct executor *target)
{
    choose_keys(setup, limit, host, target);
    setup_update(setup);
}
