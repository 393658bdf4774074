/* The records of one input file, whatever its format (prepare/fasta.h, prepare/jsonl.h, prepare/text.h,
 * prepare/parquet.h). The format is what the settings name; else the file's name tells it, .gz or .zst behind it left
 * away (record_reader.c has the table); else its first bytes: PAR1 for Parquet, after blanks '{' for JSON lines and,
 * where characters of sequences are wanted, '>' for FASTA; all else is FASTA where characters are wanted, text where
 * bytes are; with settings->lines it is lines, as is what is named as a text. Files of known other kinds are refused by
 * name. Memory does not grow with the input. */
#ifndef PREPARE_RECORD_READER_H
#define PREPARE_RECORD_READER_H

#include "prepare/record_class.h"

struct record_reader;

/* Borrows the source, of which nothing has been read, and the settings' strings. User errors: a format of no such name,
 * a file of another kind, and those of the format. */
int record_reader_create(struct record_reader **reader, struct source *source, const struct record_settings *settings);
/* The next piece: a name opens a record, any number of sequence pieces follow. Errors of the format. */
int record_reader_next(struct record_reader *reader, struct record_piece *piece);
void record_reader_destroy(struct record_reader *reader);

#endif
