/* Streaming FASTA reader with flat memory, over plain, gzip and zstd files (records/source.h).
 * A record is a line beginning with '>' (its name is the first word, or FASTA_NAME_BYTES of it with a warning; the line
 * may have any length) and the lines up to the next one. Line ends may be LF or CRLF; blanks and blank lines are
 * dropped; sequence characters are printable ASCII and are handed on as they are (case, IUPAC codes), whatever the
 * content that is asked for. User errors name file and line: no '>' in front, binary data, no record at all; and those
 * of source_read. */
#ifndef RECORDS_FASTA_H
#define RECORDS_FASTA_H

#include "records/record_class.h"

enum { FASTA_NAME_BYTES = 4096 }; /* of a record's name that are kept */

extern const struct record_class fasta_class;

#endif
