/* masked-together: the log-likelihood ratio of a variant whose positions are all masked at once. */
#include "base/memory.h"
#include "infer/variant_score_private.h"

#include <stdlib.h>

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

int variant_score_together(struct forward_pass *f, const struct variant_scoring *s, const struct variant_list *v,
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
