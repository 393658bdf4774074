/* The shuffle of NumPy's RandomState, draw for draw, to reproduce orders that were made with it. Generator: MT19937
 * (Matsumoto and Nishimura, "Mersenne twister", ACM TOMACS 8 (1998) 3), seeded by one number as in their code of 2002.
 * Shuffle: each item, from the last one down, is swapped with a random item at or before it. The index of that item is
 * drawn as masked random bits, and drawn again while too large. */
#ifndef DATA_NUMPY_RANDOM_H
#define DATA_NUMPY_RANDOM_H

#include <stdint.h>

enum { NUMPY_RANDOM_WORDS = 624 };

struct numpy_random {
    uint32_t words[NUMPY_RANDOM_WORDS];
    int next; /* index of the next unused word */
};

/* Returns a generator as numpy.random.RandomState(seed). */
struct numpy_random numpy_random_create(uint32_t seed);
/* Returns the next 32 random bits. */
uint32_t numpy_random_bits(struct numpy_random *random);
/* Shuffles as RandomState.shuffle of an array of count items, 0 <= count < 2^32. */
void numpy_random_shuffle(struct numpy_random *random, uint32_t *items, int64_t count);

#endif
