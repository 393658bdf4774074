#include "data/shuffle.h"
#include "base/random.h"

struct index_shuffle shuffle_create(int64_t count, uint64_t seed, int64_t stream)
{
    struct index_shuffle shuffle = {.count = (uint64_t)count};
    int bits = 0;
    while (bits < 63 && (uint64_t)1 << bits < (uint64_t)count)
        bits++;
    shuffle.left_bits = bits / 2;
    shuffle.right_bits = bits - bits / 2;
    struct random_key key = {seed, RANDOM_SHUFFLE, (uint64_t)stream};
    for (int i = 0; i < SHUFFLE_ROUNDS; i++)
        shuffle.keys[i] = random_bits(&key, (uint64_t)i);
    return shuffle;
}

/* Round function, which need not be invertible: a 64-bit finalizer by multiplication and shifts. Its high bits depend
 * on all input bits. */
static uint64_t mix(uint64_t value, uint64_t key)
{
    value = (value ^ key) * 0x9e3779b97f4a7c15u;
    value = (value ^ value >> 32 ^ key >> 7) * 0xd6e8feb86659fd93u;
    return value ^ value >> 32;
}

int64_t shuffle_at(const struct index_shuffle *shuffle, int64_t i)
{
    uint64_t left_mask = ((uint64_t)1 << shuffle->left_bits) - 1;
    uint64_t right_mask = ((uint64_t)1 << shuffle->right_bits) - 1;
    uint64_t value = (uint64_t)i;
    do {
        uint64_t left = value >> shuffle->right_bits, right = value & right_mask;
        for (int round = 0; round < SHUFFLE_ROUNDS; round += 2) {
            left ^= mix(right, shuffle->keys[round]) & left_mask;
            right ^= mix(left, shuffle->keys[round + 1]) & right_mask;
        }
        value = left << shuffle->right_bits | right;
    } while (value >= shuffle->count);
    return (int64_t)value;
}
