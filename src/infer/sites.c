#include "infer/sites.h"
#include "base/memory.h"
#include "infer/site_window.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int64_t site_letters(const struct site_tokens *how)
{
    return how->context - how->begins - how->ends;
}

int64_t site_put(const struct site_tokens *how, const uint8_t *letters, int64_t count, int32_t *tokens)
{
    int64_t used = 0;
    if (how->begins)
        tokens[used++] = how->tokenizer->bos;
    for (int64_t i = 0; i < count; i++)
        tokens[used++] = letters[i];
    if (how->ends)
        tokens[used++] = how->tokenizer->eos;
    return used;
}

/* -- The list -------------------------------------------------------------------------------------------------------
 */

void sites_add(struct site_logits *sites, int64_t *capacity, int64_t record, int64_t position)
{
    if (sites->count == *capacity) {
        *capacity = 2 * *capacity + 64;
        sites->list = memory_grow(sites->list, *capacity * (int64_t)sizeof *sites->list);
    }
    sites->list[sites->count++] = (struct variant_site){record, position};
}

static int by_place(const void *a, const void *b)
{
    const struct variant_site *first = a, *second = b;
    if (first->record != second->record)
        return first->record < second->record ? -1 : 1;
    return (first->position > second->position) - (first->position < second->position);
}

void sites_sort(struct site_logits *sites)
{
    int64_t kept = 0;
    if (sites->count > 0)
        qsort(sites->list, (size_t)sites->count, sizeof *sites->list, by_place);
    for (int64_t i = 0; i < sites->count; i++)
        if (kept == 0 || by_place(&sites->list[kept - 1], &sites->list[i]) != 0)
            sites->list[kept++] = sites->list[i];
    sites->count = kept;
}

int64_t sites_find(const struct site_logits *sites, int64_t record, int64_t position)
{
    const struct variant_site wanted = {record, position}; /* bsearch may be a macro, which takes no braces */
    const struct variant_site *found =
        bsearch(&wanted, sites->list, (size_t)sites->count, sizeof *sites->list, by_place);
    return found - sites->list;
}

double sites_log_probability(const struct site_logits *sites, int64_t site, int32_t token)
{
    return sites->logits[site * sites->vocabulary + token] - sites->log_sum[site];
}

void sites_destroy(struct site_logits *sites)
{
    free(sites->list);
    memory_free(sites->logits);
    memory_free(sites->log_sum);
    *sites = (struct site_logits){0};
}

/* -- Computing ------------------------------------------------------------------------------------------------------
 */

struct site_source {
    struct site_logits *sites;
    const struct site_tokens *how;
    enum site_kind kind;
    int64_t next, taken; /* sites whose items were made, and whose results were stored */
    int32_t *tokens;     /* [context + 2] */
    int32_t *rows;       /* [context + 2] */
};

static int64_t window_of(const struct site_source *s, int64_t site)
{
    const struct variant_site *at = &s->sites->list[site];
    return site_window(s->how->references->list[at->record].length, site_letters(s->how), at->position, at->position);
}

/* Returns the site after the last one that shares the item of `first`: the next one where sites are masked, else the
 * first one in another window. */
static int64_t item_end(const struct site_source *s, int64_t first)
{
    const struct site_logits *sites = s->sites;
    int64_t end = first + 1;
    if (s->kind == SITE_MASKED)
        return end;
    const int64_t window = window_of(s, first);
    while (end < sites->count && sites->list[end].record == sites->list[first].record && window_of(s, end) == window)
        end++;
    return end;
}

static int64_t count_items(const struct site_source *s)
{
    int64_t items = 0;
    for (int64_t site = 0; site < s->sites->count; site = item_end(s, site))
        items++;
    return items;
}

/* Returns the index of the token whose logits belong to a letter of the window; -1: there is none. */
static int64_t row_of(const struct site_source *s, int64_t letter)
{
    return letter + s->how->begins - (s->kind == SITE_CAUSAL);
}

static bool next(void *self, struct forward_item *item)
{
    struct site_source *s = self;
    if (s->next == s->sites->count)
        return false;
    const struct variant_site *first = &s->sites->list[s->next];
    const struct reference_record *reference = &s->how->references->list[first->record];
    const int64_t window = window_of(s, s->next), end = item_end(s, s->next), left = reference->length - window;
    const int64_t letters = left < site_letters(s->how) ? left : site_letters(s->how);
    *item = (struct forward_item){.tokens = s->tokens, .rows = s->rows};
    item->count = site_put(s->how, reference_ids(s->how->references, first->record) + window, letters, s->tokens);
    for (; s->next < end; s->next++) {
        const int64_t row = row_of(s, s->sites->list[s->next].position - window);
        if (row >= 0)
            s->rows[item->wanted++] = (int32_t)row;
        if (s->kind == SITE_MASKED)
            s->tokens[row] = s->how->tokenizer->mask;
    }
    return true;
}

static void take(void *self, const void *values, int64_t wanted)
{
    struct site_source *s = self;
    struct site_logits *sites = s->sites;
    const int64_t end = item_end(s, s->taken), vocabulary = sites->vocabulary;
    const float *logits = values;
    for (int64_t lacking = end - s->taken - wanted; s->taken < end; s->taken++) {
        float *to = sites->logits + s->taken * vocabulary;
        if (lacking-- > 0) { /* a record's first letter */
            for (int64_t v = 0; v < vocabulary; v++)
                to[v] = NAN;
            sites->log_sum[s->taken] = NAN;
            continue;
        }
        memcpy(to, logits, (size_t)vocabulary * sizeof *to);
        sites->log_sum[s->taken] = forward_log_sum(to, vocabulary);
        logits += vocabulary;
    }
}

int sites_compute(struct site_logits *sites, struct forward_pass *forward, enum site_kind kind,
                  const struct site_tokens *how)
{
    struct site_source source = {.sites = sites, .how = how, .kind = kind};
    sites->vocabulary = forward->inference->setup.model.vocabulary;
    sites->logits = memory_allocate(sites->count * sites->vocabulary * (int64_t)sizeof *sites->logits);
    sites->log_sum = memory_allocate(sites->count * (int64_t)sizeof *sites->log_sum);
    source.tokens = memory_allocate((how->context + 2) * (int64_t)sizeof *source.tokens);
    source.rows = memory_allocate((how->context + 2) * (int64_t)sizeof *source.rows);
    int code =
        forward_run(forward, FORWARD_LOGITS, &(struct forward_source){&source, next, take, count_items(&source)});
    memory_free(source.tokens);
    memory_free(source.rows);
    return code;
}
