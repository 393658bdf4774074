/* A keyed permutation of 0 .. count - 1, evaluated at any place without memory: the global shuffle of windows.
 * An alternating Feistel network over the smallest power of two that holds count, walked in cycles until it lands
 * inside (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002); fewer than two steps on average. */
#ifndef DATA_SHUFFLE_H
#define DATA_SHUFFLE_H

#include <stdint.h>

enum { SHUFFLE_ROUNDS = 12 };

struct index_shuffle {
    uint64_t count;
    int left_bits, right_bits;
    uint64_t keys[SHUFFLE_ROUNDS];
};

/* The permutation of (seed, RANDOM_SHUFFLE, stream), the stream being an epoch or what tells more apart; count >= 1.
 */
struct index_shuffle shuffle_create(int64_t count, uint64_t seed, int64_t stream);
/* Where place i of the permuted order points. 0 <= i < count. */
int64_t shuffle_at(const struct index_shuffle *shuffle, int64_t i);

#endif
