/* Random numbers keyed by identity, never by position in a stream: Philox4x32-10 (Salmon et al., "Parallel random
 * numbers: as easy as 1, 2, 3", SC11). A number depends only on (seed, purpose, stream, index), so it is the same for
 * every number of ranks or threads and every order of drawing. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stdint.h>

/* Each use of random numbers has its own purpose, so no two uses share numbers. The values are part of the checkpoint
 * contract: never renumber, only add. */
enum random_purpose {
    RANDOM_INIT = 1,
    RANDOM_SHUFFLE = 2,
    RANDOM_SPLIT = 3,
    RANDOM_TEST = 4,
    RANDOM_SAMPLE = 5,
    RANDOM_MASK = 6,
    RANDOM_DATA_LENGTH = 7,
    RANDOM_DATA_TOKEN = 8,
    RANDOM_STRAND = 9,
    RANDOM_DROPOUT = 10
};

struct random_key {
    uint64_t seed;
    uint32_t purpose; /* enum random_purpose */
    uint64_t stream;  /* parameter id, epoch, sample, ... */
};

/* The raw generator: counter[4], key[2] -> out[4]. */
void random_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* Returns 64 uniform bits of element `index`. */
uint64_t random_bits(const struct random_key *key, uint64_t index);
/* Returns a uniform number in [0, 1) with 53 bits. */
double random_uniform(const struct random_key *key, uint64_t index);
/* Returns a standard normal number (Box-Muller: elements 2i and 2i + 1 share one draw). */
double random_normal(const struct random_key *key, uint64_t index);
/* Write elements first .. first + count - 1: the same bits, several times faster. */
void random_uniforms(const struct random_key *key, uint64_t first, int64_t count, double *out);
void random_normals(const struct random_key *key, uint64_t first, int64_t count, double *out);
/* Writes (float)(factor * random_normal) of elements first .. first + count - 1: the same bits, several times faster.
 */
void random_normal_floats(const struct random_key *key, uint64_t first, int64_t count, double factor, float *out);

/* A key prepared for drawing many elements: work common to all elements is done once. */
struct random_series {
    uint32_t counter[2], key[2];
};
struct random_series random_series_of(const struct random_key *key);
/* Writes the 128 bits of element `index`. */
void random_series_words(const struct random_series *series, uint64_t index, uint32_t out[4]);
/* Writes random_uniform of the RANDOM_LANES elements from `first` on, in about a third of the time. */
enum { RANDOM_LANES = 16 };
void random_series_uniforms(const struct random_series *series, uint64_t first, double out[RANDOM_LANES]);

/* Returns a 64-bit hash of a name (FNV-1a), for streams identified by text. */
uint64_t random_hash_name(const char *name);

#endif
