/* The records of one input file, whatever its format (records/fasta.h, records/jsonl.h, records/csv.h, records/text.h,
 * records/parquet.h). The format is what the settings name; else the file's name says it, .gz or .zst behind it left
 * away (record_reader.c has the table); else its first bytes: PAR1 for Parquet, after blanks '{' for JSON lines, then
 * '[' and '{' for a JSON array and, where characters of sequences are wanted, '>' for FASTA; where a field is given, a
 * header that names it for CSV; all else is FASTA where characters are wanted, text where bytes are; with
 * settings->lines it is lines, as is what is named as a text. Memory does not grow with the number of records. A byte
 * order mark of UTF-8 is dropped. A file of blanks alone has no record, but in text and lines. */
#ifndef RECORDS_RECORD_READER_H
#define RECORDS_RECORD_READER_H

#include "records/record_class.h"

struct record_reader;

/* Borrows the source, of which nothing has been read, and what the settings point to. User errors: a format of no such
 * name; UTF-16 and UTF-32; but for text and lines that the settings name, a file of another kind (records/foreign.h); a
 * field for text or lines; and those of the format. */
int record_reader_create(struct record_reader **reader, struct record_source *source,
                         const struct record_settings *settings);
/* The next piece: a name opens a record, any number of sequence pieces follow. User errors: unless the settings allow
 * it, a file without a record; and those of the format. */
int record_reader_next(struct record_reader *reader, struct record_piece *piece);
void record_reader_destroy(struct record_reader *reader);

/* Logs how many records were left out because their field (NULL: "text") is missing or null, unless none was. */
void record_reader_report(int64_t skipped, const char *field);

#endif
