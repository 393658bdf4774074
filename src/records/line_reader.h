/* Reads a source line by line. Line ends are LF or CRLF. Memory grows with the longest line. */
#ifndef RECORDS_LINE_READER_H
#define RECORDS_LINE_READER_H

#include <stdbool.h>
#include <stdint.h>

struct record_source;

enum { LINE_MOST_BYTES = 1 << 30 };

struct line_reader {
    struct record_source *source; /* borrowed */
    char *buffer;                 /* [capacity + 1]; begin .. end - 1 is not consumed yet */
    int64_t capacity, begin, end;
    int64_t number; /* of the line returned last, from 1 */
    bool at_end;
};

void line_reader_create(struct line_reader *reader, struct record_source *source);
void line_reader_destroy(struct line_reader *reader);

/* Returns the next line, without its end, in *line, *length, followed by a zero; it is valid, and may be changed, until
 * the next call. *line is NULL after the last one. ERROR_USER: errors of source_read, a line longer than
 * LINE_MOST_BYTES. */
int line_reader_next(struct line_reader *reader, char **line, int64_t *length);

/* Returns the length of the line that begins at head[at], without its end. *next is where the next line begins, -1 if
 * the head ends first. head[bytes]: as from source_head. */
int64_t line_length_at(const uint8_t *head, int64_t bytes, int64_t at, int64_t *next);

/* Returns an error of the line returned last: "FILE:LINE: what". */
int line_reader_refuse(const struct line_reader *reader, const char *what);

#endif
