/* The shuffle of NumPy's RandomState, draw for draw, so that an order that was made with it can be made here.
 * Generator: MT19937 (Matsumoto and Nishimura, "Mersenne twister", ACM TOMACS 8 (1998) 3), seeded by one number as in
 * their code of 2002. Shuffle: from the last place down, each item changes places with one at or before it; which one
 * is drawn by masking 32 bits and drawing again while the value is too large. */
#ifndef DATA_NUMPY_RANDOM_H
#define DATA_NUMPY_RANDOM_H

#include <stdint.h>

enum { NUMPY_RANDOM_WORDS = 624 };

struct numpy_random {
    uint32_t words[NUMPY_RANDOM_WORDS];
    int next; /* of the words, that has not been given out */
};

/* As numpy.random.RandomState(seed). */
struct numpy_random numpy_random_create(uint32_t seed);
/* The next 32 bits. */
uint32_t numpy_random_bits(struct numpy_random *random);
/* As RandomState.shuffle of an array of 0 <= count < 2^32 items. */
void numpy_random_shuffle(struct numpy_random *random, uint32_t *items, int64_t count);

#endif
