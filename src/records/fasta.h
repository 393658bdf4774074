/* Streaming FASTA reader with flat memory, over plain, gzip and zstd files (records/source.h).
 * A record is a line beginning with '>' (its name is the first word, or FASTA_NAME_BYTES of it with a warning; the line
 * may have any length) and the lines up to the next one. Line ends may be LF or CRLF; blanks and blank lines are
 * dropped; sequence characters are printable ASCII and are handed on as they are (case, IUPAC codes), whatever the
 * content that is asked for. */
#ifndef RECORDS_FASTA_H
#define RECORDS_FASTA_H

#include "records/record_class.h"

struct fasta_reader;

enum { FASTA_NAME_BYTES = 4096 }; /* of a record's name that are kept */

/* Borrows the source. */
struct fasta_reader *fasta_create(struct record_source *source);
/* The next piece: a name opens a record, any number of sequence pieces follow. User errors name file and line: no '>'
 * in front, binary data, no record at all; and those of source_read. */
int fasta_next(struct fasta_reader *fasta, struct record_piece *piece);
void fasta_destroy(struct fasta_reader *fasta);

extern const struct record_class fasta_class;

#endif
