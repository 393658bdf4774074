/* FASTQ reader (Cock et al. 2010), for plain, gzip and zstd files (records/source.h).
 *
 * A record has four lines: '@' and the name, whose first word counts; the letters; '+', after which the name may be
 * repeated; and as many quality characters, '!' (0) to '~' (93): Phred qualities plus 33. Sequences of several lines
 * are not supported. With settings->min_quality a read whose mean error probability is above that of this Phred
 * quality, 10^(-Q / 10), is dropped and counted in *settings->low_quality. Memory grows with the longest read.
 *
 * User errors name file and line: a line of another form, qualities of another number, an end within a record; and the
 * errors of record_clean and source_read. */
#ifndef RECORDS_FASTQ_H
#define RECORDS_FASTQ_H

#include "records/record_class.h"

extern const struct record_class fastq_class;

/* Returns whether a file that begins with head[bytes] is FASTQ. */
bool fastq_begins(const uint8_t *head, int64_t bytes);

#endif
