/* A keyed permutation of 0 .. count - 1, evaluated at any index without memory: the global shuffle of windows. It is an
 * alternating Feistel network over the smallest power of two that is at least count, with cycle walking until the
 * result is below count (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002); fewer than two steps
 * on average. */
#ifndef DATA_SHUFFLE_H
#define DATA_SHUFFLE_H

#include <stdint.h>

enum { SHUFFLE_ROUNDS = 12 };

struct index_shuffle {
    uint64_t count;
    int left_bits, right_bits;
    uint64_t keys[SHUFFLE_ROUNDS];
};

/* Returns the permutation keyed by (seed, RANDOM_SHUFFLE, stream). `stream`, such as the epoch, distinguishes
 * permutations of one seed. count >= 1. */
struct index_shuffle shuffle_create(int64_t count, uint64_t seed, int64_t stream);
/* Returns element i of the permutation, 0 <= i < count. */
int64_t shuffle_at(const struct index_shuffle *shuffle, int64_t i);

#endif
