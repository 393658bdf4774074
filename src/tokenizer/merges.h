/* The merges of a BPE model, and what they make of a piece of text: beginning with one token a byte, of all adjacent
 * pairs the one of lowest rank is merged, the leftmost of several, until no pair can be. */
#ifndef TOKENIZER_MERGES_H
#define TOKENIZER_MERGES_H

#include <stdint.h>

struct merges;

enum { MERGES_BYTES_MOST = 1 << 28 /* of a piece */ };

/* byte_ids[256]: the token of each byte. */
struct merges *merges_open(const int32_t byte_ids[256]);
/* NULL is fine. */
void merges_close(struct merges *merges);
/* The tokens left and right make `id`; a pair that was there gets the new rank, which is below UINT32_MAX. */
void merges_set(struct merges *merges, int32_t left, int32_t right, uint32_t rank, int32_t id);
/* To be called after the last merges_set, before merges_apply. */
void merges_finish(struct merges *merges);

/* The ids of a piece of 1 to MERGES_BYTES_MOST bytes, in ids[bytes]; returns how many. Time: bytes * log(bytes). */
int64_t merges_apply(const struct merges *merges, const unsigned char *piece, int64_t bytes, int32_t *ids);

#endif
