/* Reads the records of one input file of any supported format (records/fasta.h, records/fastq.h, records/flat.h,
 * records/twobit.h, records/jsonl.h, records/csv.h, records/text.h, records/parquet.h).
 *
 * The format is settings->format, or else determined by the file's name without .gz or .zst (table in record_reader.c),
 * or else by the first rule that applies to its first bytes:
 *
 *    PAR1                                           Parquet
 *    {, after blanks                                JSON lines
 *    [ and {, with blanks                           JSON array
 *    >, after blanks, for RECORD_CHARACTERS         FASTA
 *    forms of FASTQ, GenBank, EMBL, 2bit, for RECORD_CHARACTERS
 *    a header with a column named settings->field   CSV
 *    settings->lines                                lines
 *    anything else                                  FASTA for RECORD_CHARACTERS, text for RECORD_BYTES
 *
 * With settings->lines, a file whose name says text is read as lines. A UTF-8 byte order mark is dropped. A file of
 * blanks has no records, except as text or lines. Memory does not grow with the number of records. */
#ifndef RECORDS_RECORD_READER_H
#define RECORDS_RECORD_READER_H

#include "records/record_class.h"

struct record_reader;

/* Makes a reader. Borrows the source, of which nothing was read, and everything that settings points to. ERROR_USER: an
 * unknown format; UTF-16 or UTF-32; an unsupported format (records/foreign.h; not checked if the settings name text or
 * lines); a field for text or lines; and the errors of the format. */
int record_reader_create(struct record_reader **reader, struct record_source *source,
                         const struct record_settings *settings);
/* Returns the next piece: a name begins a record, any number of sequence pieces follow. ERROR_USER: a file without
 * records, unless the settings allow it; and the errors of the format. */
int record_reader_next(struct record_reader *reader, struct record_piece *piece);
void record_reader_destroy(struct record_reader *reader);

/* Logs how many records were skipped because their field (NULL: "text") is missing or null; nothing if none was. */
void record_reader_report(int64_t skipped, const char *field);

#endif
