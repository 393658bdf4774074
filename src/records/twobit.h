/* 2bit reader (UCSC's format of genomes, versions 0 and 1, in either byte order), for plain files.
 *
 * A record is a sequence of the file: T, C, A, G by two bits each; N in its N blocks; lower case in its mask blocks.
 * Sizes and places are checked against the file. Memory: the sequence's blocks, and a piece of its letters.
 *
 * User errors name the file: another version, a place beyond the file, blocks out of order; and the errors of
 * source_read_at. */
#ifndef RECORDS_TWOBIT_H
#define RECORDS_TWOBIT_H

#include "records/record_class.h"

extern const struct record_class twobit_class;

/* Returns whether a file that begins with head[bytes] is 2bit. */
bool twobit_begins(const uint8_t *head, int64_t bytes);

#endif
