#include "prepare/duplicates.h"
#include "base/error.h"
#include "base/memory.h"

#include <xxhash.h>

enum { FIRST_CAPACITY = 1 << 10 };

/* A hash table with open addressing: a hash is at its place modulo the capacity, or after it where that is taken. */
struct duplicates {
    XXH3_state_t *hash;
    uint64_t *entries; /* [capacity] hashes; 0: free */
    int64_t count, capacity;
};

struct duplicates *duplicates_create(void)
{
    struct duplicates *d = memory_allocate(sizeof *d);
    d->hash = XXH3_createState();
    if (d->hash == NULL)
        error_fatal("out of memory: no state of a hash");
    XXH3_64bits_reset(d->hash);
    d->capacity = FIRST_CAPACITY;
    d->entries = memory_allocate(d->capacity * (int64_t)sizeof *d->entries);
    return d;
}

void duplicates_append(struct duplicates *d, const void *bytes, int64_t count)
{
    XXH3_64bits_update(d->hash, bytes, (size_t)count);
}

/* Adds a hash. Returns false if it is there already. */
static bool add(struct duplicates *d, uint64_t hash)
{
    uint64_t at = hash % (uint64_t)d->capacity;
    while (d->entries[at] != 0 && d->entries[at] != hash)
        at = (at + 1) % (uint64_t)d->capacity;
    if (d->entries[at] == hash)
        return false;
    d->entries[at] = hash;
    return true;
}

static void grow(struct duplicates *d)
{
    struct duplicates larger = {.capacity = 2 * d->capacity};
    larger.entries = memory_allocate(larger.capacity * (int64_t)sizeof *larger.entries);
    for (int64_t i = 0; i < d->capacity; i++)
        if (d->entries[i] != 0)
            add(&larger, d->entries[i]);
    memory_free(d->entries);
    d->entries = larger.entries;
    d->capacity = larger.capacity;
}

bool duplicates_end(struct duplicates *d)
{
    const uint64_t hash = XXH3_64bits_digest(d->hash);
    XXH3_64bits_reset(d->hash);
    if (!add(d, hash != 0 ? hash : 1))
        return true;
    if (2 * ++d->count > d->capacity)
        grow(d);
    return false;
}

void duplicates_destroy(struct duplicates *d)
{
    if (d == NULL)
        return;
    XXH3_freeState(d->hash);
    memory_free(d->entries);
    memory_free(d);
}
