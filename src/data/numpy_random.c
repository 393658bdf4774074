#include "data/numpy_random.h"

enum { WORDS = NUMPY_RANDOM_WORDS, MIDDLE = 397 };

struct numpy_random numpy_random_create(uint32_t seed)
{
    struct numpy_random random = {.next = WORDS};
    random.words[0] = seed;
    for (uint32_t i = 1; i < WORDS; i++)
        random.words[i] = 1812433253u * (random.words[i - 1] ^ random.words[i - 1] >> 30) + i;
    return random;
}

/* Generates the next 624 words. */
static void twist(uint32_t words[WORDS])
{
    for (int i = 0; i < WORDS; i++) {
        const uint32_t joined = (words[i] & 0x80000000u) | (words[(i + 1) % WORDS] & 0x7fffffffu);
        words[i] = words[(i + MIDDLE) % WORDS] ^ joined >> 1 ^ (joined & 1 ? 0x9908b0dfu : 0);
    }
}

uint32_t numpy_random_bits(struct numpy_random *random)
{
    if (random->next == WORDS) {
        twist(random->words);
        random->next = 0;
    }
    uint32_t bits = random->words[random->next++];
    bits ^= bits >> 11;
    bits ^= bits << 7 & 0x9d2c5680u;
    bits ^= bits << 15 & 0xefc60000u;
    return bits ^ bits >> 18;
}

void numpy_random_shuffle(struct numpy_random *random, uint32_t *items, int64_t count)
{
    uint32_t mask = UINT32_MAX;
    for (int64_t last = count - 1; last > 0; last--) {
        while (mask >> 1 >= (uint32_t)last) /* the fewest bits that represent `last` */
            mask >>= 1;
        uint32_t other;
        do
            other = numpy_random_bits(random) & mask;
        while (other > (uint32_t)last);
        const uint32_t moved = items[last];
        items[last] = items[other];
        items[other] = moved;
    }
}
