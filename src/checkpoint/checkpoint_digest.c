/* Computes the digest of weights and moments. */
#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"
#include "checkpoint/checkpoint_private.h"
#include "engine/engine.h"
#include "state/fetch.h"

#include <string.h>

/* Mixes all bits of the word: the finaliser of SplitMix64 (Steele, Lea & Flood, "Fast splittable pseudorandom number
 * generators", 2014). */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Returns the sum over elements of one width; inlined for each width. */
static inline uint64_t digest_elements(uint64_t key, int64_t first, const void *content, int64_t count, size_t width)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits = 0;
        memcpy(&bits, (const char *)content + i * (int64_t)width, width);
        sum += mix(mix(key + (uint64_t)(first + i)) ^ bits);
    }
    return sum;
}

uint64_t checkpoint_digest_run(const struct fetched_elements *fetched, const void *content)
{
    const uint64_t key = mix(random_hash_name(fetched->parameter->name) + (uint64_t)fetched->kind);
    const struct slab_run run = fetched->run;
    return fetched->dtype == DTYPE_F64 ? digest_elements(key, run.first, content, run.count, 8)
                                       : digest_elements(key, run.first, content, run.count, 4);
}

uint64_t checkpoint_digest_sum(struct comm *world, uint64_t own)
{
    int64_t sum = (int64_t)own;
    comm_reduce(world, &sum, 1, COMM_SUM);
    return (uint64_t)sum;
}

static int add_digest(void *self, const struct fetched_elements *fetched, const void *content)
{
    uint64_t *total = self;
    const uint64_t sum = checkpoint_digest_run(fetched, content);
#pragma omp atomic
    *total += sum;
    return ERROR_NONE;
}

uint64_t checkpoint_digest(struct comm *world, struct engine *engine)
{
    uint64_t own = 0;
    fetch_shares(engine, NULL, PIECE_KINDS, add_digest, &own);
    return checkpoint_digest_sum(world, own);
}
