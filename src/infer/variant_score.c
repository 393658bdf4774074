#include "infer/variant_score.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"
#include "infer/site_window.h"
#include "tokenizer/strand.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const score_method_names[SCORE_METHODS] = {"masked-marginals",  "masked-together",
                                                       "wt-marginals",      "pseudo-log-likelihood",
                                                       "pseudo-perplexity", "log-likelihood-ratio"};

/* Returns the number of the method's column; -1: it was not requested. */
static int score_column(const struct variant_scoring *s, enum score_method method)
{
    for (int i = 0; i < s->count; i++)
        if (s->methods[i] == method)
            return i;
    return -1;
}

/* -- Variants -------------------------------------------------------------------------------------------------------
 */

static const struct variant_edit *variant_edits(const struct variant_list *v, const struct sequence_variant *variant)
{
    return v->edits + variant->first;
}

/* Returns by how many letters a variant lengthens its record; negative: shortens. */
static int64_t variant_growth(const struct variant_list *v, const struct sequence_variant *variant)
{
    int64_t growth = 0;
    for (int64_t i = 0; i < variant->count; i++)
        growth += variant_edits(v, variant)[i].count - variant_edits(v, variant)[i].removed;
    return growth;
}

/* The letters of a record in which a variant is scored. */
struct variant_window {
    int64_t first, count; /* first: -1 where the changes do not fit into a window */
};

/* room: letters of a full window. */
static struct variant_window variant_window_of(const struct variant_list *v, const struct sequence_variant *variant,
                                               int64_t room)
{
    const struct variant_edit *edits = variant_edits(v, variant), *last = &edits[variant->count - 1];
    const int64_t length = v->references->list[variant->record].length;
    const int64_t count = MIN(length, room - MAX(variant_growth(v, variant), 0));
    const int64_t end = MAX(last->position + MAX(last->removed, 1) - 1, edits[0].position);
    if (count < 1)
        return (struct variant_window){-1, 0};
    return (struct variant_window){site_window(length, count, edits[0].position, MIN(end, length - 1)), count};
}

/* Writes the letters first .. first + count - 1 of the record with the variant's changes, which are among them; returns
 * their number. letters: [count + growth]. */
static int64_t variant_apply(const struct variant_list *v, const struct sequence_variant *variant,
                             struct variant_window window, uint8_t *letters)
{
    const uint8_t *record = reference_ids(v->references, variant->record);
    int64_t used = 0, at = window.first;
    for (int64_t i = 0; i < variant->count; i++) {
        const struct variant_edit *edit = &variant_edits(v, variant)[i];
        memcpy(letters + used, record + at, (size_t)(edit->position - at));
        used += edit->position - at;
        memcpy(letters + used, v->ids + edit->added, (size_t)edit->count);
        used += edit->count;
        at = edit->position + edit->removed;
    }
    memcpy(letters + used, record + at, (size_t)(window.first + window.count - at));
    return used + window.first + window.count - at;
}

/* -- Checks and sizes -----------------------------------------------------------------------------------------------
 */

static int refuse(const struct variant_list *v, int64_t variant, const char *why)
{
    char *text;
    size_t bytes;
    FILE *name = memory_stream(&text, &bytes);
    variants_name(v, variant, name);
    memory_stream_end(name);
    const int code = error_user("%s: record %.80s, variant %.80s: %s", v->path != NULL ? v->path : v->references->path,
                                v->references->list[v->list[variant].record].name, text, why);
    free(text);
    return code;
}

int variant_score_check(const struct variant_scoring *s, const struct variant_list *v)
{
    const bool whole = score_column(s, SCORE_MASKED_TOGETHER) >= 0 || score_column(s, SCORE_LOG_LIKELIHOOD_RATIO) >= 0;
    const bool masked = score_method_masked(s->methods[0]);
    if (masked && v->first_resized >= 0)
        return refuse(v, v->first_resized, "changes the length; masked models score substitutions only");
    for (int64_t i = 0; i < v->count && whole; i++)
        if (v->list[i].count > 0 && variant_window_of(v, &v->list[i], site_letters(&s->tokens)).first < 0) {
            char *why = memory_format("its changes do not fit into one window of %lld tokens (--context)%s",
                                      (long long)s->tokens.context,
                                      masked ? "; masked-marginals scores each position in its own window" : "");
            const int code = refuse(v, i, why);
            free(why);
            return code;
        }
    return ERROR_NONE;
}

int64_t variant_score_items(const struct variant_scoring *s, const struct variant_list *v)
{
    const struct reference_list *references = s->tokens.references;
    int64_t sites = 0, together = 0, pseudo = 0, ratios = 0;
    for (int64_t i = 0; v != NULL && i < v->count; i++) {
        sites += v->list[i].count;
        together += v->list[i].count > 1;
        pseudo += references->list[v->list[i].record].length;
        ratios += 2 * (1 + s->both_strands); /* a variant and its window */
    }
    /* variants share sites, of which there are at most as many as letters */
    int64_t most = s->positions || sites > references->letters ? references->letters : sites;
    if (score_column(s, SCORE_MASKED_TOGETHER) >= 0)
        most = MAX(most, together);
    if (score_column(s, SCORE_PSEUDO_LOG_LIKELIHOOD) >= 0 || score_column(s, SCORE_PSEUDO_PERPLEXITY) >= 0)
        most = MAX(most, pseudo);
    return score_column(s, SCORE_LOG_LIKELIHOOD_RATIO) >= 0 ? MAX(most, ratios) : most;
}

/* -- Sums over single sites -----------------------------------------------------------------------------------------
 */

static void list_sites(const struct variant_scoring *s, const struct variant_list *v, bool all,
                       struct site_logits *sites)
{
    const struct reference_list *references = s->tokens.references;
    int64_t capacity = 0;
    for (int64_t r = 0; r < references->count && all; r++)
        for (int64_t p = 0; p < references->list[r].length; p++)
            sites_add(sites, &capacity, r, p);
    for (int64_t i = 0; v != NULL && i < v->count && !all; i++)
        for (int64_t e = 0; e < v->list[i].count; e++)
            sites_add(sites, &capacity, v->list[i].record, variant_edits(v, &v->list[i])[e].position);
    sites_sort(sites);
}

/* The ratio of a variant's letters at one site each. */
static double marginal(const struct variant_list *v, const struct sequence_variant *variant,
                       const struct site_logits *sites)
{
    double sum = 0;
    for (int64_t e = 0; e < variant->count; e++) {
        const struct variant_edit *edit = &variant_edits(v, variant)[e];
        const int64_t site = sites_find(sites, variant->record, edit->position);
        const uint8_t own = reference_ids(v->references, variant->record)[edit->position];
        sum += sites_log_probability(sites, site, v->ids[edit->added]) - sites_log_probability(sites, site, own);
    }
    return sum;
}

static void put_marginals(const struct variant_scoring *s, const struct variant_list *v,
                          const struct site_logits *sites, enum score_method method, double *const *scores)
{
    const int column = score_column(s, method);
    for (int64_t i = 0; column >= 0 && v != NULL && i < v->count; i++)
        if (method != SCORE_MASKED_TOGETHER || v->list[i].count < 2)
            scores[column][i] = marginal(v, &v->list[i], sites);
}

/* Computes the sites of one kind, for the methods that need them. keeps: leave them in *sites for the caller. */
static int score_sites(struct forward_pass *f, const struct variant_scoring *s, const struct variant_list *v,
                       enum site_kind kind, bool keeps, double *const *scores, struct site_logits *sites)
{
    const bool reads = f->inference->world->rank == 0;
    struct site_logits own = {0};
    if (reads)
        list_sites(s, v, keeps, &own);
    int code = sites_compute(&own, f, kind, &s->tokens);
    if (code == ERROR_NONE && reads && kind == SITE_MASKED) {
        put_marginals(s, v, &own, SCORE_MASKED_MARGINALS, scores);
        put_marginals(s, v, &own, SCORE_MASKED_TOGETHER, scores);
    }
    if (code == ERROR_NONE && reads && kind == SITE_VISIBLE)
        put_marginals(s, v, &own, SCORE_WT_MARGINALS, scores);
    if (keeps)
        *sites = own;
    else
        sites_destroy(&own);
    return code;
}

/* -- Several positions masked together ------------------------------------------------------------------------------
 */

struct together_source {
    const struct variant_scoring *s;
    const struct variant_list *v;
    int64_t *order; /* [count] variants of two or more changes; those of the same positions follow each other */
    int64_t count, next, taken;
    int64_t vocabulary;
    int32_t *tokens, *rows; /* [context + 2] */
    double *scores;
};

static const struct variant_list *ordered; /* for the comparison functions of qsort, which has no argument for it */

static int by_positions(const void *a, const void *b)
{
    const struct sequence_variant *first = &ordered->list[*(const int64_t *)a],
                                  *second = &ordered->list[*(const int64_t *)b];
    if (first->record != second->record)
        return first->record < second->record ? -1 : 1;
    if (first->count != second->count)
        return first->count < second->count ? -1 : 1;
    for (int64_t e = 0; e < first->count; e++) {
        const int64_t p = variant_edits(ordered, first)[e].position, q = variant_edits(ordered, second)[e].position;
        if (p != q)
            return p < q ? -1 : 1;
    }
    return 0;
}

static int64_t together_end(const struct together_source *t, int64_t first)
{
    int64_t end = first + 1;
    while (end < t->count && by_positions(&t->order[first], &t->order[end]) == 0)
        end++;
    return end;
}

static bool together_next(void *self, struct forward_item *item)
{
    struct together_source *t = self;
    if (t->next == t->count)
        return false;
    const struct sequence_variant *variant = &t->v->list[t->order[t->next]];
    const struct variant_window window = variant_window_of(t->v, variant, site_letters(&t->s->tokens));
    const uint8_t *letters = reference_ids(t->v->references, variant->record) + window.first;
    *item = (struct forward_item){.tokens = t->tokens, .rows = t->rows, .wanted = variant->count};
    item->count = site_put(&t->s->tokens, letters, window.count, t->tokens);
    for (int64_t e = 0; e < variant->count; e++) {
        t->rows[e] = (int32_t)(variant_edits(t->v, variant)[e].position - window.first + t->s->tokens.begins);
        t->tokens[t->rows[e]] = t->s->tokens.tokenizer->mask;
    }
    t->next = together_end(t, t->next);
    return true;
}

static void together_take(void *self, const void *values, int64_t wanted)
{
    struct together_source *t = self;
    const float *logits = values;
    for (int64_t end = together_end(t, t->taken); t->taken < end; t->taken++) {
        const struct sequence_variant *variant = &t->v->list[t->order[t->taken]];
        double sum = 0;
        for (int64_t e = 0; e < wanted; e++) {
            const struct variant_edit *edit = &variant_edits(t->v, variant)[e];
            const uint8_t own = reference_ids(t->v->references, variant->record)[edit->position];
            sum += (double)logits[e * t->vocabulary + t->v->ids[edit->added]] - logits[e * t->vocabulary + own];
        }
        t->scores[t->order[t->taken]] = sum;
    }
}

static int variant_score_together(struct forward_pass *f, const struct variant_scoring *s, const struct variant_list *v,
                                  double *const *scores)
{
    struct together_source t = {.s = s, .v = v, .vocabulary = f->inference->setup.model.vocabulary};
    int64_t items = 0;
    if (f->inference->world->rank == 0) {
        t.scores = scores[score_column(s, SCORE_MASKED_TOGETHER)];
        t.order = memory_allocate(v->count * (int64_t)sizeof *t.order);
        for (int64_t i = 0; i < v->count; i++)
            if (v->list[i].count > 1)
                t.order[t.count++] = i;
        ordered = v;
        qsort(t.order, (size_t)t.count, sizeof *t.order, by_positions);
        for (int64_t i = 0; i < t.count; i = together_end(&t, i))
            items++;
        t.tokens = memory_allocate((s->tokens.context + 2) * (int64_t)sizeof *t.tokens);
        t.rows = memory_allocate((s->tokens.context + 2) * (int64_t)sizeof *t.rows);
    }
    int code = forward_run(f, FORWARD_LOGITS, &(struct forward_source){&t, together_next, together_take, items});
    memory_free(t.order);
    memory_free(t.tokens);
    memory_free(t.rows);
    return code;
}

/* -- Pseudo-log-likelihood ------------------------------------------------------------------------------------------
 */

struct pseudo_source {
    const struct variant_scoring *s;
    const struct variant_list *v;
    int64_t variant, position; /* of the next item */
    int64_t taken, terms;      /* variant of the next result, and number of its results so far */
    uint8_t *letters;          /* [longest] the changed sequence of `variant` */
    int32_t *tokens;           /* [context + 2] */
    int32_t row, target;
    double *sums; /* [variants] */
};

static int64_t length_of(const struct variant_list *v, int64_t variant)
{
    return v->references->list[v->list[variant].record].length;
}

static bool pseudo_next(void *self, struct forward_item *item)
{
    struct pseudo_source *p = self;
    if (p->variant == p->v->count)
        return false;
    const int64_t length = length_of(p->v, p->variant), room = site_letters(&p->s->tokens);
    if (p->position == 0)
        variant_apply(p->v, &p->v->list[p->variant], (struct variant_window){0, length}, p->letters);
    const int64_t window = site_window(length, room, p->position, p->position);
    p->row = (int32_t)(p->position - window + p->s->tokens.begins);
    p->target = p->letters[p->position];
    *item = (struct forward_item){.tokens = p->tokens, .rows = &p->row, .targets = &p->target, .wanted = 1};
    item->count = site_put(&p->s->tokens, p->letters + window, MIN(length - window, room), p->tokens);
    p->tokens[p->row] = p->s->tokens.tokenizer->mask;
    if (++p->position == length) {
        p->position = 0;
        p->variant++;
    }
    return true;
}

static void pseudo_take(void *self, const void *values, int64_t wanted)
{
    struct pseudo_source *p = self;
    (void)wanted;
    p->sums[p->taken] += *(const double *)values;
    if (++p->terms == length_of(p->v, p->taken)) {
        p->terms = 0;
        p->taken++;
    }
}

static int variant_score_pseudo(struct forward_pass *f, const struct variant_scoring *s, const struct variant_list *v,
                                double *const *scores)
{
    struct pseudo_source p = {.s = s, .v = v};
    const bool reads = f->inference->world->rank == 0;
    int64_t items = 0;
    if (reads) {
        p.letters = memory_allocate(v->references->longest);
        p.tokens = memory_allocate((s->tokens.context + 2) * (int64_t)sizeof *p.tokens);
        p.sums = memory_allocate(v->count * (int64_t)sizeof *p.sums);
        for (int64_t i = 0; i < v->count; i++)
            items += length_of(v, i);
    }
    int code = forward_run(f, FORWARD_TARGETS, &(struct forward_source){&p, pseudo_next, pseudo_take, items});
    const int likelihood = score_column(s, SCORE_PSEUDO_LOG_LIKELIHOOD),
              perplexity = score_column(s, SCORE_PSEUDO_PERPLEXITY);
    for (int64_t i = 0; reads && code == ERROR_NONE && i < v->count; i++) {
        if (likelihood >= 0)
            scores[likelihood][i] = p.sums[i];
        if (perplexity >= 0)
            scores[perplexity][i] = exp(-p.sums[i] / (double)length_of(v, i));
    }
    memory_free(p.letters);
    memory_free(p.tokens);
    memory_free(p.sums);
    return code;
}

/* -- Likelihood ratios of causal models -----------------------------------------------------------------------------
 */

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

static const struct ratio_source *ordered_ratios; /* as `ordered` */

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

static int variant_score_ratios(struct forward_pass *f, const struct variant_scoring *s, const struct variant_list *v,
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

/* -- All methods ----------------------------------------------------------------------------------------------------
 */

static enum site_kind kind_of(enum score_method method)
{
    return method == SCORE_WT_MARGINALS           ? SITE_VISIBLE
           : method == SCORE_LOG_LIKELIHOOD_RATIO ? SITE_CAUSAL
                                                  : SITE_MASKED;
}

int variant_score(struct forward_pass *f, const struct variant_scoring *s, const struct variant_list *v,
                  double *const *scores, struct site_logits *sites)
{
    const bool scores_variants = comm_max_i64(f->inference->world, v != NULL) > 0;
    const enum site_kind kept = kind_of(s->methods[0]);
    int code = ERROR_NONE;
    for (int i = 0; i < s->count && scores_variants && code == ERROR_NONE; i++)
        if (s->methods[i] == SCORE_MASKED_TOGETHER)
            code = variant_score_together(f, s, v, scores);
    const bool needed[] = {[SITE_MASKED] = scores_variants && (score_column(s, SCORE_MASKED_MARGINALS) >= 0 ||
                                                               score_column(s, SCORE_MASKED_TOGETHER) >= 0),
                           [SITE_VISIBLE] = scores_variants && score_column(s, SCORE_WT_MARGINALS) >= 0,
                           [SITE_CAUSAL] = false};
    for (int kind = SITE_MASKED; kind <= SITE_CAUSAL && code == ERROR_NONE; kind++) {
        const bool keeps = s->positions && kind == (int)kept;
        if (needed[kind] || keeps)
            code = score_sites(f, s, v, (enum site_kind)kind, keeps, scores, sites);
    }
    if (code == ERROR_NONE && scores_variants &&
        (score_column(s, SCORE_PSEUDO_LOG_LIKELIHOOD) >= 0 || score_column(s, SCORE_PSEUDO_PERPLEXITY) >= 0))
        code = variant_score_pseudo(f, s, v, scores);
    if (code == ERROR_NONE && scores_variants && score_column(s, SCORE_LOG_LIKELIHOOD_RATIO) >= 0)
        code = variant_score_ratios(f, s, v, scores);
    return code;
}
