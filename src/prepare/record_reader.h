/* The records of one input file, whatever its format: FASTA (prepare/fasta.h) or JSON lines (prepare/jsonl.h).
 * JSON lines are told by the file's name, *.jsonl, .gz or .zst behind it left away, or by their first character that is
 * no blank, '{'; all else is taken for FASTA. Memory does not grow with the input. */
#ifndef PREPARE_RECORD_READER_H
#define PREPARE_RECORD_READER_H

#include "prepare/record.h"

struct source;
struct record_reader;

/* Borrows the source, of which nothing has been read, and `field`, the JSON member that holds a record's sequence.
 * Errors of source_read. */
int record_reader_create(struct record_reader **reader, struct source *source, const char *field);
/* The next piece: a name opens a record, any number of sequence pieces follow. Errors of fasta_next and jsonl_next. */
int record_reader_next(struct record_reader *reader, struct record_piece *piece);
void record_reader_destroy(struct record_reader *reader);

#endif
