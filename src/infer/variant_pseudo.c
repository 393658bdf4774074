/* pseudo-log-likelihood and pseudo-perplexity of changed sequences. */
#include "base/memory.h"
#include "base/range.h"
#include "infer/variant_score_private.h"

#include <math.h>

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

int variant_score_pseudo(struct forward_pass *f, const struct variant_scoring *s, const struct variant_list *v,
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
