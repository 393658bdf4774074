#include "prepare/repeats.h"
#include "base/error.h"
#include "base/memory.h"

#include <stdlib.h>
#include <xxhash.h>

enum { PART_BITS = 3 };
_Static_assert(SPLIT_PARTS <= 1 << PART_BITS, "a part must fit");

struct repeats {
    XXH3_state_t *hash;
    uint64_t *entries; /* [count] for each sequence its hash, with the part in the lowest bits */
    int64_t count;
};

struct repeats *repeats_create(int64_t sequences)
{
    struct repeats *repeats = memory_allocate(sizeof *repeats);
    repeats->hash = XXH3_createState();
    if (repeats->hash == NULL)
        error_fatal("out of memory: no state of a hash");
    XXH3_64bits_reset(repeats->hash);
    repeats->entries = memory_allocate(sequences * (int64_t)sizeof *repeats->entries);
    return repeats;
}

void repeats_append(struct repeats *repeats, const void *bytes, int64_t count)
{
    XXH3_64bits_update(repeats->hash, bytes, (size_t)count);
}

void repeats_end(struct repeats *repeats, int part)
{
    const uint64_t hash = XXH3_64bits_digest(repeats->hash);
    repeats->entries[repeats->count++] = hash >> PART_BITS << PART_BITS | (uint64_t)part;
    XXH3_64bits_reset(repeats->hash);
}

static int compare(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* After sorting, equal sequences are adjacent, and those of earlier parts come first. */
void repeats_count(struct repeats *repeats, int64_t counts[SPLIT_PARTS])
{
    const uint64_t *entries = repeats->entries;
    qsort(repeats->entries, (size_t)repeats->count, sizeof *repeats->entries, compare);
    for (int part = 0; part < SPLIT_PARTS; part++)
        counts[part] = 0;
    for (int64_t first = 0, i = 0; i < repeats->count; i++) {
        if (entries[i] >> PART_BITS != entries[first] >> PART_BITS)
            first = i;
        counts[entries[i] & ((1 << PART_BITS) - 1)] += entries[i] != entries[first];
    }
}

void repeats_destroy(struct repeats *repeats)
{
    if (repeats == NULL)
        return;
    XXH3_freeState(repeats->hash);
    memory_free(repeats->entries);
    memory_free(repeats);
}
