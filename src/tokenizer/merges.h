/* The merges of a BPE model, and their application to a piece of text. The piece begins as one symbol for each byte or
 * character. Repeatedly, the adjacent pair with the lowest rank is merged, the leftmost of several, until no pair can
 * be merged. */
#ifndef TOKENIZER_MERGES_H
#define TOKENIZER_MERGES_H

#include <stdint.h>

struct merges;

enum { MERGES_BYTES_MOST = 1 << 28 /* limit of a piece, bytes */ };

/* Makes a table without merges. byte_ids[256]: the token of each byte. */
struct merges *merges_open(const int32_t byte_ids[256]);
/* Accepts NULL. */
void merges_close(struct merges *merges);
/* Defines that tokens left and right merge to `id`, with a rank below UINT32_MAX. Replaces an earlier merge of the
 * pair. */
void merges_set(struct merges *merges, int32_t left, int32_t right, uint32_t rank, int32_t id);
/* Call it after the last merges_set and before merges_apply. */
void merges_finish(struct merges *merges);

/* Merges ids[count], 0 to MERGES_BYTES_MOST symbols, in place; returns the number of ids that are left. An id that no
 * merge has stays as it is. Time: count * log(count). */
int64_t merges_run(const struct merges *merges, int32_t *ids, int64_t count);

/* Writes the ids of a piece of 1 to MERGES_BYTES_MOST bytes to ids[bytes]; returns their number. Time: bytes *
 * log(bytes). */
int64_t merges_apply(const struct merges *merges, const unsigned char *piece, int64_t bytes, int32_t *ids);

#endif
