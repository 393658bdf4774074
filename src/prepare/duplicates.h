/* Finds records whose sequence an earlier record has had, while they are read. Compares hashes: of n different
 * sequences any two have equal hashes with probability n^2 / 2^65. Memory: 16 to 32 bytes per different sequence. */
#ifndef PREPARE_DUPLICATES_H
#define PREPARE_DUPLICATES_H

#include <stdbool.h>
#include <stdint.h>

struct duplicates;

struct duplicates *duplicates_create(void);
/* duplicates_append appends bytes to the current sequence; duplicates_end ends it, and returns whether an earlier one
 * is equal. */
void duplicates_append(struct duplicates *duplicates, const void *bytes, int64_t count);
bool duplicates_end(struct duplicates *duplicates);
/* Accepts NULL. */
void duplicates_destroy(struct duplicates *duplicates);

#endif
