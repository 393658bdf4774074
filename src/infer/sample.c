#include "infer/sample.h"
#include "base/memory.h"
#include "base/random.h"

#include <math.h>
#include <stdlib.h>

struct candidate {
    double weight; /* exp((logit - largest) / temperature) */
    int32_t token;
};

static bool is_likelier(const struct candidate *a, const struct candidate *b)
{
    return a->weight != b->weight ? a->weight > b->weight : a->token < b->token;
}

/* Candidates in the order of their probability. Only the requested ranks are sorted. */
struct ranking {
    struct candidate *heap; /* [count] candidates without a rank; the likeliest one is first */
    int64_t count;
    struct candidate *ranked; /* [ranked_count], likeliest first */
    int64_t ranked_count;
};

static void sink(struct candidate *heap, int64_t count, int64_t at)
{
    const struct candidate moved = heap[at];
    for (int64_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && is_likelier(&heap[child + 1], &heap[child]))
            child++;
        if (!is_likelier(&heap[child], &moved))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

/* Returns the candidate of a rank, which is at most the number of ranks requested so far. */
static const struct candidate *at_rank(struct ranking *r, int64_t rank)
{
    if (rank == r->ranked_count) {
        r->ranked[r->ranked_count++] = r->heap[0];
        r->heap[0] = r->heap[--r->count];
        sink(r->heap, r->count, 0);
    }
    return &r->ranked[rank];
}

static bool is_allowed(const struct sampling *s, int64_t token)
{
    return s->allowed == NULL || s->allowed[token];
}

/* Returns the likeliest of the allowed tokens; -1 if any token's logit is not finite. */
static int32_t likeliest(const struct sampling *s, const double *logits, int64_t vocabulary)
{
    int32_t best = -1;
    for (int64_t v = 0; v < vocabulary; v++) {
        if (!isfinite(logits[v]))
            return -1;
        if (is_allowed(s, v) && (best < 0 || logits[v] > logits[best]))
            best = (int32_t)v;
    }
    return best;
}

/* Lists the candidates whose weight is not 0; returns the sum of their weights. */
static double list_candidates(const struct sampling *s, const double *logits, int64_t vocabulary, double largest,
                              struct ranking *r)
{
    double sum = 0;
    for (int64_t v = 0; v < vocabulary; v++) {
        const double weight = is_allowed(s, v) ? exp((logits[v] - largest) / s->temperature) : 0;
        if (weight <= 0)
            continue;
        r->heap[r->count++] = (struct candidate){weight, (int32_t)v};
        sum += weight;
    }
    for (int64_t i = r->count / 2 - 1; i >= 0; i--)
        sink(r->heap, r->count, i);
    return sum;
}

/* Returns how many of the likeliest candidates to sample from; *sum becomes the sum of their weights. */
static int64_t kept_of(const struct sampling *s, struct ranking *r, double *sum)
{
    int64_t kept = r->count;
    if (s->top_k > 0 && s->top_k < kept) {
        kept = s->top_k;
        *sum = 0;
        for (int64_t i = 0; i < kept; i++)
            *sum += at_rank(r, i)->weight;
    }
    if (s->top_p <= 0 || s->top_p >= 1)
        return kept;
    const double wanted = s->top_p * *sum;
    int64_t few = 0;
    *sum = 0;
    while (few < kept && (few == 0 || *sum < wanted))
        *sum += at_rank(r, few++)->weight;
    return few;
}

int32_t sample_token(const struct sampling *s, const double *logits, int64_t vocabulary, uint64_t sequence,
                     int64_t position)
{
    const int32_t best = likeliest(s, logits, vocabulary);
    if (best < 0 || s->temperature <= 0)
        return best;
    struct candidate *both = memory_grow(NULL, 2 * vocabulary * (int64_t)sizeof *both);
    struct ranking r = {.heap = both, .ranked = both + vocabulary};
    double sum = list_candidates(s, logits, vocabulary, logits[best], &r);
    const int64_t kept = kept_of(s, &r, &sum);
    const struct random_key key = {s->seed, RANDOM_SAMPLE, sequence};
    double left = random_uniform(&key, (uint64_t)position) * sum;
    int64_t i = 0;
    while (i + 1 < kept && left >= at_rank(&r, i)->weight)
        left -= at_rank(&r, i++)->weight;
    const int32_t token = at_rank(&r, i)->token;
    free(both);
    return token;
}

double sample_log_probability(const double *logits, int64_t vocabulary, int32_t token)
{
    double sum = 0;
    for (int64_t v = 0; v < vocabulary; v++)
        sum += exp(logits[v] - logits[token]);
    return -log(sum);
}
