#include "records/line_reader.h"
#include "base/error.h"
#include "base/memory.h"
#include "records/source.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_BYTES = 1 << 20 };

void line_reader_create(struct line_reader *r, struct record_source *source)
{
    *r = (struct line_reader){.source = source, .capacity = FIRST_BYTES};
    r->buffer = memory_grow(NULL, r->capacity + 1);
}

void line_reader_destroy(struct line_reader *r)
{
    free(r->buffer);
    r->buffer = NULL;
}

static int refill(struct line_reader *r)
{
    const int64_t kept = r->end - r->begin;
    int64_t got;
    memmove(r->buffer, r->buffer + r->begin, (size_t)kept);
    r->begin = 0;
    r->end = kept;
    if (kept == LINE_MOST_BYTES) {
        r->number++;
        return line_reader_refuse(r, "the line is longer than 1 GiB");
    }
    if (kept == r->capacity) {
        r->capacity *= 2;
        r->buffer = memory_grow(r->buffer, r->capacity + 1);
    }
    int code = source_read(r->source, r->buffer + kept, r->capacity - kept, &got);
    if (code != ERROR_NONE)
        return code;
    r->end += got;
    r->at_end = got == 0;
    return ERROR_NONE;
}

int line_reader_next(struct line_reader *r, char **line, int64_t *length)
{
    const char *newline;
    int64_t searched = 0; /* bytes after `begin` that have no line end */
    *line = NULL;
    while ((newline = memchr(r->buffer + r->begin + searched, '\n', (size_t)(r->end - r->begin - searched))) == NULL &&
           !r->at_end) {
        searched = r->end - r->begin;
        int code = refill(r);
        if (code != ERROR_NONE)
            return code;
    }
    if (newline == NULL && r->begin == r->end)
        return ERROR_NONE;
    *line = r->buffer + r->begin;
    *length = (newline != NULL ? newline - r->buffer : r->end) - r->begin;
    r->begin += *length + (newline != NULL);
    r->number++;
    if (*length > 0 && (*line)[*length - 1] == '\r')
        --*length;
    (*line)[*length] = '\0'; /* in place of the line end, or after the last byte */
    return ERROR_NONE;
}

int line_reader_refuse(const struct line_reader *r, const char *what)
{
    return error_user("%s:%lld: %s", source_name(r->source), (long long)r->number, what);
}

int64_t line_length_at(const uint8_t *head, int64_t bytes, int64_t at, int64_t *next)
{
    const uint8_t *newline = memchr(head + at, '\n', (size_t)(bytes - at));
    const int64_t stop = newline != NULL ? newline - head : bytes;
    *next = newline != NULL ? stop + 1 : -1;
    return stop - at - (stop > at && head[stop - 1] == '\r');
}
