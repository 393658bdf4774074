/* Equal sequences in more than one part of a split: what is held out would be known from training. They are found by
 * hashes, of which two of unlike sequences are equal once in some 2^61 pairs. Memory: 16 bytes a sequence. */
#ifndef PREPARE_REPEATS_H
#define PREPARE_REPEATS_H

#include "prepare/split.h"

struct repeats;

/* sequences: how many will be added, at most. */
struct repeats *repeats_create(int64_t sequences);
/* The next bytes of the present sequence; repeats_end ends it, and says which part it is in. */
void repeats_append(struct repeats *repeats, const void *bytes, int64_t count);
void repeats_end(struct repeats *repeats, int part);
/* After the last sequence: of each part how many of its sequences an earlier part has, too. */
void repeats_count(struct repeats *repeats, int64_t counts[SPLIT_PARTS]);
/* NULL is fine. */
void repeats_destroy(struct repeats *repeats);

#endif
