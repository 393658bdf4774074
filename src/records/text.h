/* Streaming readers of plain text with flat memory, over plain, gzip and zstd files (records/source.h).
 *   text    a file is one record, named as the file without its folder; what is no byte of a name becomes '_'
 *   lines   a line is one record, without its end (LF or CRLF), named by its number; an empty one is an empty record
 * Bytes stay as they are, or are characters that record_clean takes. User errors name the file, and the line of lines:
 * characters that record_clean refuses; and those of source_read. */
#ifndef RECORDS_TEXT_H
#define RECORDS_TEXT_H

#include "records/record_class.h"

extern const struct record_class text_class, lines_class;

#endif
