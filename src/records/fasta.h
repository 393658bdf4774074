/* Streaming FASTA reader with constant memory, for plain, gzip and zstd files (records/source.h).
 *
 * A record is a line that begins with '>', of any length, and the lines up to the next one. Its name is the first word
 * of the '>' line, truncated to FASTA_NAME_BYTES with a warning. Line ends may be LF or CRLF; blanks and blank lines
 * are dropped. A label of settings->labels is VALUE in a word KEY=VALUE of the '>' line after the name; "VALUE" in
 * double quotes may have blanks. Sequence characters must be printable ASCII and are unchanged (case, IUPAC codes),
 * whatever settings->content says. User errors name file and line: no '>' at the beginning, binary data, no record at
 * all; and the errors of source_read. */
#ifndef RECORDS_FASTA_H
#define RECORDS_FASTA_H

#include "records/record_class.h"

enum { FASTA_NAME_BYTES = 4096 }; /* limit of a record's name, bytes */

extern const struct record_class fasta_class;

#endif
