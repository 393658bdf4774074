/* log-likelihood-ratio of causal models. */
#include "base/memory.h"
#include "infer/variant_score_private.h"
#include "tokenizer/strand.h"

#include <stdlib.h>

/* Items: for each window of a record, its letters on each strand, then each of its variants on each strand. */
struct ratio_source {
    const struct variant_scoring *s;
    const struct variant_list *v;
    struct variant_window *windows; /* [variants] */
    int64_t *order;                 /* [count] variants with changes, by record and window */
    int64_t count;
    int strands;
    /* The next item: the strand of the window (unchanged) or of variant `next`. */
    int64_t next;
    bool changed;
    int strand;
    /* The next result, as above. */
    int64_t taken;
    bool taken_changed;
    int taken_strand;
    uint8_t *letters;    /* [context] */
    int32_t *tokens;     /* [context + 2] */
    int32_t *own[2];     /* [context + 2] tokens of the unchanged window on each strand */
    int64_t own_count;   /* their number */
    double *after[2];    /* [context + 2] after[s][t]: sum of the log-probabilities of the tokens t, t + 1, ... */
    int64_t after_count; /* own_count of the window of the next result */
    int32_t *rows;       /* [context + 2] 0, 1, 2, ... */
    double *scores;
};

static const struct ratio_source *ordered_ratios; /* for by_window, since qsort has no argument for it */

static int compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int by_window(const void *a, const void *b)
{
    const struct ratio_source *r = ordered_ratios;
    const int64_t first = *(const int64_t *)a, second = *(const int64_t *)b;
    int order = compare(r->v->list[first].record, r->v->list[second].record);
    if (order == 0)
        order = compare(r->windows[first].first, r->windows[second].first);
    return order != 0 ? order : compare(r->windows[first].count, r->windows[second].count);
}

/* Makes the tokens of a variant (changed) or its window on a strand; returns their number. */
static int64_t make_tokens(struct ratio_source *r, int64_t variant, bool changed, int strand, int32_t *tokens)
{
    struct sequence_variant of = r->v->list[variant];
    if (!changed)
        of.count = 0;
    const int64_t count = variant_apply(r->v, &of, r->windows[variant], r->letters);
    const int64_t put = site_put(&r->s->tokens, r->letters, count, tokens);
    if (strand == 1)
        strand_reverse(tokens + r->s->tokens.begins, count);
    return put;
}

/* Moves from an item to the next one: *next, *changed, *strand. */
static void advance(const struct ratio_source *r, int64_t *next, bool *changed, int *strand)
{
    if (++*strand < r->strands)
        return;
    *strand = 0;
    const int64_t last = *next;
    if (*changed)
        ++*next;
    *changed = !*changed || (*next < r->count && by_window(&r->order[last], &r->order[*next]) == 0);
}

static int64_t ratio_items(const struct ratio_source *r)
{
    int64_t items = 0, next = 0;
    bool changed = false;
    for (int strand = 0; next < r->count; items++)
        advance(r, &next, &changed, &strand);
    return items;
}

static bool ratio_next(void *self, struct forward_item *item)
{
    struct ratio_source *r = self;
    if (r->next == r->count)
        return false;
    int32_t *tokens = r->changed ? r->tokens : r->own[r->strand];
    const int64_t count = make_tokens(r, r->order[r->next], r->changed, r->strand, tokens);
    int64_t first = 1; /* first token that counts: what is before it is equal in both sequences */
    if (!r->changed)
        r->own_count = count;
    const int32_t *own = r->own[r->strand];
    while (r->changed && tokens[0] == own[0] && first < count && first < r->own_count && tokens[first] == own[first])
        first++;
    *item = (struct forward_item){.tokens = tokens,
                                  .count = count,
                                  .rows = r->rows + first - 1,
                                  .targets = tokens + first,
                                  .wanted = count - first};
    advance(r, &r->next, &r->changed, &r->strand);
    return true;
}

static void ratio_take(void *self, const void *values, int64_t wanted)
{
    struct ratio_source *r = self;
    const double *logs = values;
    double *after = r->after[r->taken_strand];
    const int64_t variant = r->order[r->taken];
    if (!r->taken_changed) {
        r->after_count = wanted + 1;
        after[r->after_count] = 0;
        for (int64_t t = wanted; t > 0; t--)
            after[t] = after[t + 1] + logs[t - 1];
    } else {
        const int64_t first = r->after_count + variant_growth(r->v, &r->v->list[variant]) - wanted;
        double sum = 0;
        for (int64_t t = wanted - 1; t >= 0; t--)
            sum += logs[t];
        r->scores[variant] += (sum - after[first]) / r->strands;
    }
    advance(r, &r->taken, &r->taken_changed, &r->taken_strand);
}

static void ratio_create(struct ratio_source *r)
{
    const struct variant_list *v = r->v;
    const int64_t room = r->s->tokens.context + 3;
    r->windows = memory_allocate(v->count * (int64_t)sizeof *r->windows);
    r->order = memory_allocate(v->count * (int64_t)sizeof *r->order);
    for (int64_t i = 0; i < v->count; i++)
        if (v->list[i].count > 0) {
            r->windows[i] = variant_window_of(v, &v->list[i], site_letters(&r->s->tokens));
            r->order[r->count++] = i;
        }
    ordered_ratios = r;
    qsort(r->order, (size_t)r->count, sizeof *r->order, by_window);
    r->letters = memory_allocate(room);
    r->tokens = memory_allocate(room * (int64_t)sizeof *r->tokens);
    r->rows = memory_allocate(room * (int64_t)sizeof *r->rows);
    for (int64_t i = 0; i < room; i++)
        r->rows[i] = (int32_t)i;
    for (int s = 0; s < r->strands; s++) {
        r->own[s] = memory_allocate(room * (int64_t)sizeof *r->own[s]);
        r->after[s] = memory_allocate(room * (int64_t)sizeof *r->after[s]);
    }
}

static void ratio_destroy(struct ratio_source *r)
{
    memory_free(r->windows);
    memory_free(r->order);
    memory_free(r->letters);
    memory_free(r->tokens);
    memory_free(r->rows);
    for (int s = 0; s < 2; s++) {
        memory_free(r->own[s]);
        memory_free(r->after[s]);
    }
}

int variant_score_ratios(struct forward_pass *f, const struct variant_scoring *s, const struct variant_list *v,
                         double *const *scores)
{
    struct ratio_source r = {.s = s, .v = v, .strands = s->both_strands ? 2 : 1};
    if (f->inference->world->rank == 0) {
        r.scores = scores[score_column(s, SCORE_LOG_LIKELIHOOD_RATIO)];
        ratio_create(&r);
    }
    int code = forward_run(f, FORWARD_TARGETS, &(struct forward_source){&r, ratio_next, ratio_take, ratio_items(&r)});
    ratio_destroy(&r);
    return code;
}
