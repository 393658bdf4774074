/* Streaming readers of tables in text, over plain, gzip and zstd files (records/source.h): csv, with commas between
 * cells, and tsv, with tabs. Another of , ; and tab is chosen where the header has the field with it alone. Cells may
 * stand in quotes as RFC 4180 has them, and then hold delimiters, line ends and quotes, each written twice. Line ends
 * are LF or CRLF; blank lines are dropped. The first line names the columns. A record is a row: its sequence is the
 * cell of the column that the settings' field names, its name the first word of the one of column "record" or else
 * "id"; where that is missing or blank, the row's number, from 1 behind the header. Memory grows with the longest of
 * these cells alone. User errors name file and line: no such column, two of one name, a row with more or fewer cells
 * than the header (which settings->skipped leaves out), a quoted cell that does not end or that text follows,
 * characters that record_clean refuses, of bytes NUL, a control character in a name; and those of source_read. */
#ifndef RECORDS_CSV_H
#define RECORDS_CSV_H

#include "records/record_class.h"

/* Bytes of the longest cell. */
enum { CSV_CELL_BYTES = 1 << 30 };

extern const struct record_class csv_class, tsv_class;

/* The delimiter with which a header, the first line of head[bytes], has a column of this name; '\0': it has none. */
char csv_delimiter(const char *head, int64_t bytes, const char *column);

#endif
