/* Streaming readers of plain text with constant memory, for plain, gzip and zstd files (records/source.h).
 *
 *    text    the file is one record, named as the file without its folder, with '_' for blanks and control characters
 *    lines   each line is one record, without its end (LF or CRLF), named by its number; it may be empty
 *
 * With RECORD_BYTES, bytes are unchanged; otherwise record_clean is applied. User errors name the file, and with
 * `lines` the line: characters that record_clean rejects (RECORD_BYTES: NUL); and the errors of source_read. */
#ifndef RECORDS_TEXT_H
#define RECORDS_TEXT_H

#include "records/record_class.h"

extern const struct record_class text_class, lines_class;

#endif
