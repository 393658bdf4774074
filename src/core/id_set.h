/* Sets of small numbers, for the ids of a unit's tensors. The empty set is all zero. */
#ifndef CORE_ID_SET_H
#define CORE_ID_SET_H

#include <stdbool.h>
#include <stdint.h>

enum { ID_SET_LIMIT = 512, ID_SET_WORDS = ID_SET_LIMIT / 64 };

struct id_set {
    uint64_t words[ID_SET_WORDS];
};

/* id: 0 .. ID_SET_LIMIT - 1. */
static inline bool id_set_has(const struct id_set *set, int id)
{
    return (set->words[id / 64] >> id % 64 & 1) != 0;
}

static inline void id_set_add(struct id_set *set, int id)
{
    set->words[id / 64] |= UINT64_C(1) << id % 64;
}

static inline bool id_set_empty(const struct id_set *set)
{
    uint64_t all = 0;
    for (int w = 0; w < ID_SET_WORDS; w++)
        all |= set->words[w];
    return all == 0;
}

static inline bool id_set_equal(const struct id_set *a, const struct id_set *b)
{
    uint64_t other = 0;
    for (int w = 0; w < ID_SET_WORDS; w++)
        other |= a->words[w] ^ b->words[w];
    return other == 0;
}

/* Adds the ids of `from`. */
static inline void id_set_join(struct id_set *set, const struct id_set *from)
{
    for (int w = 0; w < ID_SET_WORDS; w++)
        set->words[w] |= from->words[w];
}

/* Return the intersection of a and b, and the ids of a that are not in b. */
static inline struct id_set id_set_both(const struct id_set *a, const struct id_set *b)
{
    struct id_set both;
    for (int w = 0; w < ID_SET_WORDS; w++)
        both.words[w] = a->words[w] & b->words[w];
    return both;
}

static inline struct id_set id_set_without(const struct id_set *a, const struct id_set *b)
{
    struct id_set rest;
    for (int w = 0; w < ID_SET_WORDS; w++)
        rest.words[w] = a->words[w] & ~b->words[w];
    return rest;
}

#endif
