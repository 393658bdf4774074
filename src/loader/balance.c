#include "loader/balance.h"
#include "base/memory.h"

#include <stdlib.h>

/* A micro-batch of cost -key, or a rank whose assigned cost is key. */
struct item {
    int64_t key, number;
};

static int compare(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->number < y->number ? -1 : 1;
}

int64_t balance_cost(int64_t length, int64_t window)
{
    const int64_t outside = window > 0 && window < length ? length - window : 0;
    return length * length - outside * outside;
}

void balance_micro_batches(const int64_t *costs, int64_t rounds, int64_t ranks, int64_t *places)
{
    struct item *dearest = memory_allocate(rounds * ranks * (int64_t)sizeof *dearest);
    struct item *idlest = memory_allocate(ranks * (int64_t)sizeof *idlest);
    for (int64_t k = 0; k < rounds * ranks; k++)
        dearest[k] = (struct item){-costs[k], k};
    for (int64_t r = 0; r < ranks; r++)
        idlest[r] = (struct item){0, r};
    qsort(dearest, (size_t)(rounds * ranks), sizeof *dearest, compare);
    for (int64_t round = 0; round < rounds; round++) {
        qsort(idlest, (size_t)ranks, sizeof *idlest, compare);
        for (int64_t i = 0; i < ranks; i++) {
            const struct item *next = &dearest[round * ranks + i];
            places[next->number] = round * ranks + idlest[i].number;
            idlest[i].key -= next->key;
        }
    }
    memory_free(idlest);
    memory_free(dearest);
}
