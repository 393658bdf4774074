/* Streaming readers of text tables, plain or compressed with gzip or zstd (records/source.h).
 *
 *    csv   cells separated by commas
 *    tsv   cells separated by tabs
 *
 * The delimiter is the first of comma, tab and semicolon with which the header has a column named settings->field, or
 * else that of the format. Cells may be quoted as in RFC 4180; then they may contain delimiters, line ends, and quotes,
 * each written twice. Line ends are LF or CRLF; blank lines are dropped. The first line names the columns.
 *
 * A record is a row. Its sequence is the cell in the column of settings->field, its labels those of settings->labels.
 * Its name is the first word in column "record", or else "id"; if missing or blank, the row's number, counted from 1
 * after the header. Memory grows only with the longest of these cells.
 *
 * User errors name file and line: no column for the field, two columns of one name, a row with more or fewer cells than
 * the header (dropped and counted if settings->skipped), a quoted cell that does not end or is followed by text,
 * characters that record_clean rejects (RECORD_BYTES: NUL), a control character in a name; and the errors of
 * source_read. */
#ifndef RECORDS_CSV_H
#define RECORDS_CSV_H

#include "records/record_class.h"

#include <stdio.h>

/* Limit of a cell, bytes. */
enum { CSV_CELL_BYTES = 1 << 30 };

extern const struct record_class csv_class, tsv_class;

/* Returns the first of `first`, comma, tab and semicolon with which the header, the first line of head[bytes], has a
 * column of this name; '\0': none. */
char csv_delimiter(const char *head, int64_t bytes, const char *column, char first);

/* Writes a cell, in quotes if it contains the delimiter, a quote or a line end. I/O errors stay in the error state of
 * `file`. */
void csv_write_cell(FILE *file, char delimiter, const char *text);

#endif
