#include "infer/sample.h"
#include "base/memory.h"
#include "base/random.h"

#include <math.h>
#include <stdlib.h>

struct candidate {
    double weight; /* exp((logit - largest) / temperature) */
    int32_t token;
};

static int by_weight(const void *left, const void *right)
{
    const struct candidate *a = left, *b = right;
    if (a->weight != b->weight)
        return a->weight < b->weight ? 1 : -1;
    return a->token < b->token ? -1 : 1;
}

static int32_t likeliest(const double *logits, int64_t vocabulary)
{
    int32_t best = -1;
    for (int64_t v = 0; v < vocabulary; v++)
        if (isfinite(logits[v]) && (best < 0 || logits[v] > logits[best]))
            best = (int32_t)v;
    return best;
}

static double sum_of(const struct candidate *candidates, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += candidates[i].weight;
    return sum;
}

/* How many of the candidates, likeliest first, are to be drawn from. */
static int64_t kept_of(const struct sampling *s, const struct candidate *candidates, int64_t count)
{
    if (s->top_k > 0 && s->top_k < count)
        count = s->top_k;
    if (s->top_p <= 0)
        return count;
    double wanted = s->top_p * sum_of(candidates, count), sum = 0;
    int64_t kept = 0;
    while (kept < count && (kept == 0 || sum < wanted))
        sum += candidates[kept++].weight;
    return kept;
}

int32_t sample_token(const struct sampling *s, const double *logits, int64_t vocabulary, int64_t position)
{
    int32_t best = likeliest(logits, vocabulary);
    if (best < 0 || s->temperature <= 0)
        return best;
    struct candidate *candidates = memory_allocate((int64_t)sizeof *candidates * vocabulary);
    for (int64_t v = 0; v < vocabulary; v++) {
        double weight = exp((logits[v] - logits[best]) / s->temperature);
        candidates[v] = (struct candidate){isfinite(weight) ? weight : 0, (int32_t)v};
    }
    qsort(candidates, (size_t)vocabulary, sizeof *candidates, by_weight);
    int64_t kept = kept_of(s, candidates, vocabulary), i = 0;
    struct random_key key = {s->seed, RANDOM_SAMPLE, 0};
    double left = random_uniform(&key, (uint64_t)position) * sum_of(candidates, kept);
    while (i + 1 < kept && left >= candidates[i].weight)
        left -= candidates[i++].weight;
    int32_t token = candidates[i].token;
    memory_free(candidates);
    return token;
}
