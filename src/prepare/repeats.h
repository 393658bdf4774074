/* Finds sequences that occur in several parts of a split, in which case validation uses training data. Compares hashes:
 * two different sequences have equal hashes with probability 2^-61. Memory: 16 bytes per sequence. */
#ifndef PREPARE_REPEATS_H
#define PREPARE_REPEATS_H

#include "prepare/split.h"

struct repeats;

/* sequences: at most the number that will be added. */
struct repeats *repeats_create(int64_t sequences);
/* repeats_append appends bytes to the current sequence; repeats_end ends it and sets its part. */
void repeats_append(struct repeats *repeats, const void *bytes, int64_t count);
void repeats_end(struct repeats *repeats, int part);
/* Sets counts to the number of each part's sequences that an earlier part has too. Call it after the last sequence. */
void repeats_count(struct repeats *repeats, int64_t counts[SPLIT_PARTS]);
/* Accepts NULL. */
void repeats_destroy(struct repeats *repeats);

#endif
