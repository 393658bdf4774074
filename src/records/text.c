#include "records/text.h"
#include "base/error.h"
#include "base/memory.h"
#include "records/source.h"

#include <stdlib.h>
#include <string.h>

enum { BUFFER_BYTES = 1 << 20 };

struct text_reader {
    struct record_source *source;
    enum record_content content;
    bool lines;   /* a record is a line, else the file */
    char *buffer; /* [BUFFER_BYTES]; begin .. end - 1 is not consumed yet */
    int64_t begin, end;
    int64_t records;
    bool in_record, at_end;
    char *name; /* freed with free() */
};

static struct text_reader *create(struct record_source *source, const struct record_settings *settings)
{
    struct text_reader *text = memory_allocate(sizeof *text);
    text->source = source;
    text->content = settings->content;
    text->buffer = memory_allocate(BUFFER_BYTES);
    return text;
}

static int create_text(void **reader, struct record_source *source, const struct record_settings *settings)
{
    *reader = create(source, settings);
    return ERROR_NONE;
}

static int create_lines(void **reader, struct record_source *source, const struct record_settings *settings)
{
    struct text_reader *text = create(source, settings);
    text->lines = true;
    *reader = text;
    return ERROR_NONE;
}

static void destroy(void *reader)
{
    struct text_reader *text = reader;
    if (text == NULL)
        return;
    memory_free(text->buffer);
    free(text->name);
    memory_free(text);
}

static int refill(struct text_reader *text)
{
    int64_t kept = text->end - text->begin, got;
    memmove(text->buffer, text->buffer + text->begin, (size_t)kept);
    int code = source_read(text->source, text->buffer + kept, BUFFER_BYTES - kept, &got);
    if (code != ERROR_NONE)
        return code;
    text->begin = 0;
    text->end = kept + got;
    text->at_end = got == 0;
    return ERROR_NONE;
}

static void begin_record(struct text_reader *text, struct record_piece *piece)
{
    text->in_record = true;
    text->records++;
    free(text->name);
    if (text->lines) {
        text->name = memory_format("%lld", (long long)text->records);
    } else {
        const char *path = source_name(text->source), *slash = strrchr(path, '/');
        text->name = memory_string(slash != NULL ? slash + 1 : path);
        for (char *c = text->name; *c != '\0'; c++)
            if ((unsigned char)*c <= ' ')
                *c = '_';
    }
    *piece = (struct record_piece){RECORD_NAME, text->name, (int64_t)strlen(text->name)};
}

/* Returns whether the bytes are allowed. RECORD_BYTES excludes only NUL: it occurs in binary data and UTF-16, and
 * scripts/fetch-dataset sends it on failure. */
static bool is_good(const struct text_reader *text, struct record_piece *piece, char *bytes, unsigned char *wrong)
{
    *wrong = 0;
    if (text->content == RECORD_BYTES)
        return memchr(bytes, '\0', (size_t)piece->length) == NULL;
    return record_clean(bytes, &piece->length, wrong);
}

/* Returns the part of the current record that is in the buffer, perhaps empty, and ends the record at its end. */
static int next_piece(struct text_reader *text, struct record_piece *piece)
{
    char *bytes = text->buffer + text->begin;
    int64_t available = text->end - text->begin;
    char *newline = text->lines ? memchr(bytes, '\n', (size_t)available) : NULL;
    int64_t length = newline != NULL ? newline - bytes : available;
    bool carriage = text->lines && length > 0 && bytes[length - 1] == '\r' && (newline != NULL || !text->at_end);
    length -= carriage; /* without a newline, it stays in the buffer until more bytes are read */
    text->begin += length + (newline != NULL ? carriage + 1 : 0);
    text->in_record = newline == NULL && !(text->at_end && text->begin == text->end);
    *piece = (struct record_piece){RECORD_SEQUENCE, bytes, length};
    unsigned char wrong;
    if (is_good(text, piece, bytes, &wrong))
        return ERROR_NONE;
    const char *what = text->content == RECORD_BYTES ? "text" : "sequence";
    if (text->lines)
        return error_user("%s:%lld: contains byte 0x%02x, so it is not a %s", source_name(text->source),
                          (long long)text->records, (unsigned)wrong, what);
    return error_user("%s: contains byte 0x%02x, so it is not a %s", source_name(text->source), (unsigned)wrong, what);
}

static int next(void *reader, struct record_piece *piece)
{
    struct text_reader *text = reader;
    for (;;) {
        const int64_t before = text->begin;
        if (!text->in_record && (text->begin < text->end || (!text->lines && text->records == 0))) {
            begin_record(text, piece);
            return ERROR_NONE;
        }
        if (!text->in_record && text->at_end) {
            *piece = (struct record_piece){.kind = RECORD_END};
            return ERROR_NONE;
        }
        int code = text->in_record ? next_piece(text, piece) : ERROR_NONE;
        if (code != ERROR_NONE || (text->begin > before && piece->length > 0))
            return code;
        if (text->begin == before && !text->at_end)
            code = refill(text);
        if (code != ERROR_NONE)
            return code;
    }
}

const struct record_class text_class = {"text", create_text, next, destroy, false};
const struct record_class lines_class = {"lines", create_lines, next, destroy, false};
