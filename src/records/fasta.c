#include "records/fasta.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "records/source.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER_BYTES = 1 << 20 };

struct fasta_reader {
    struct record_source *source;
    char *buffer; /* [BUFFER_BYTES]; begin .. end - 1 is not consumed yet */
    int64_t begin, end;
    int64_t line; /* line of `begin`, from 1 */
    bool line_start, in_record, at_end;
    bool in_header;                 /* the rest of a header line, after the name, follows */
    const char *const *label_names; /* [label_count] settings->labels */
    int label_count, label_next;    /* label_next: the label that is returned next */
    char *labels[RECORD_LABELS];    /* of the current record; NULL: none; freed with free() */
};

static int create(void **reader, struct record_source *source, const struct record_settings *settings)
{
    struct fasta_reader *fasta = memory_allocate(sizeof *fasta);
    fasta->label_names = settings->labels;
    fasta->label_count = fasta->label_next = settings->label_count;
    fasta->source = source;
    fasta->buffer = memory_allocate(BUFFER_BYTES);
    fasta->line = 1;
    fasta->line_start = true;
    *reader = fasta;
    return ERROR_NONE;
}

static void destroy(void *reader)
{
    struct fasta_reader *fasta = reader;
    if (fasta == NULL)
        return;
    for (int i = 0; i < fasta->label_count; i++)
        free(fasta->labels[i]);
    memory_free(fasta->buffer);
    memory_free(fasta);
}

static int refill(struct fasta_reader *fasta)
{
    int64_t kept = fasta->end - fasta->begin, got;
    memmove(fasta->buffer, fasta->buffer + fasta->begin, (size_t)kept);
    fasta->begin = 0;
    fasta->end = kept;
    int code = source_read(fasta->source, fasta->buffer + kept, BUFFER_BYTES - kept, &got);
    if (code != ERROR_NONE)
        return code;
    fasta->end += got;
    fasta->at_end = got == 0;
    return ERROR_NONE;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static int refuse_binary(const struct fasta_reader *fasta, unsigned char c)
{
    return error_user("%s:%lld: byte 0x%02x: this is binary data, not FASTA text", source_name(fasta->source),
                      (long long)fasta->line, (unsigned)c);
}

/* Rejects carriage returns inside a line. A file with old Mac line ends is one line, and its sequences would be taken
 * for the words of a header. */
static int check_line_end(const struct fasta_reader *fasta, const char *first, const char *stop)
{
    while (stop > first && stop[-1] == '\r')
        stop--;
    if (memchr(first, '\r', (size_t)(stop - first)) == NULL)
        return ERROR_NONE;
    return error_user("%s:%lld: a carriage return within the line (a line end of old Macs): replace each \\r by \\n",
                      source_name(fasta->source), (long long)fasta->line);
}

/* Skips the rest of a header line, or the part of it in the buffer. A carriage return at the buffer's end is kept, so
 * that check_line_end sees it with the next byte. */
static int skip_header(struct fasta_reader *fasta)
{
    const char *text = fasta->buffer + fasta->begin;
    const char *newline = memchr(text, '\n', (size_t)(fasta->end - fasta->begin));
    const char *stop = newline != NULL ? newline : fasta->buffer + fasta->end;
    const bool waits = newline == NULL && !fasta->at_end && stop > text && stop[-1] == '\r';
    int code = check_line_end(fasta, text, stop);
    fasta->begin = stop - fasta->buffer + (newline != NULL) - waits;
    fasta->line += newline != NULL;
    fasta->in_header = newline == NULL && !fasta->at_end;
    return code;
}

/* Finds KEY=VALUE among the words of a header. A value in double quotes may have blanks. Returns a copy, NULL: there is
 * none. */
static char *find_value(const char *text, const char *stop, const char *key)
{
    const int64_t length = (int64_t)strlen(key);
    while (text < stop) {
        while (text < stop && is_blank(*text))
            text++;
        const bool found = stop - text > length && memcmp(text, key, (size_t)length) == 0 && text[length] == '=';
        const char *value = text;
        while (value < stop && *value != '=' && !is_blank(*value))
            value++;
        const bool quoted = stop - value > 1 && value[0] == '=' && value[1] == '"';
        const char *first = value + (value < stop && *value == '=') + quoted, *end = first;
        while (end < stop && (quoted ? *end != '"' : !is_blank(*end)))
            end++;
        if (found)
            return memory_format("%.*s", (int)(end - first), first);
        text = end + (quoted && end < stop);
    }
    return NULL;
}

/* Keeps the labels of a header's words after the name. */
static void keep_labels(struct fasta_reader *fasta, const char *text, const char *stop)
{
    for (int i = 0; i < fasta->label_count; i++) {
        free(fasta->labels[i]);
        fasta->labels[i] = find_value(text, stop, fasta->label_names[i]);
    }
    fasta->label_next = 0;
}

/* Reads a header line's name. *done is false if more bytes must be read first. */
static int take_name(struct fasta_reader *fasta, struct record_piece *piece, bool *done)
{
    const char *text = fasta->buffer + fasta->begin;
    int64_t available = fasta->end - fasta->begin;
    const char *newline = memchr(text, '\n', (size_t)available);
    const char *stop = newline != NULL ? newline : text + available;
    *done = newline != NULL || fasta->at_end || available == BUFFER_BYTES;
    if (!*done)
        return check_line_end(fasta, text, stop);
    const char *first = text + 1;
    while (first < stop && is_blank(*first))
        first++;
    const char *last = first;
    while (last < stop && !is_blank(*last)) {
        if ((unsigned char)*last < ' ')
            return refuse_binary(fasta, (unsigned char)*last);
        last++;
    }
    if (last - first > FASTA_NAME_BYTES) {
        log_warn(
            "%s:%lld: the header's first word is the record's name and has more than %d bytes; the rest is dropped",
            source_name(fasta->source), (long long)fasta->line, FASTA_NAME_BYTES);
        last = first + FASTA_NAME_BYTES;
    }
    keep_labels(fasta, last, stop);
    *piece = (struct record_piece){RECORD_NAME, first, last - first};
    fasta->in_record = true;
    return skip_header(fasta);
}

/* Explains a '>' inside a sequence line: a header that follows the previous record without a line end, or a special
 * token, which other programs accept in sequences. */
static int refuse_header_sign(const struct fasta_reader *fasta, const char *first, const char *sign)
{
    enum { TOKEN = 32 /* limit of a special token, characters */ };
    const char *open = sign;
    while (open > first && *open != '<' && sign - open < TOKEN)
        open--;
    if (*open != '<')
        return error_user("%s:%lld: '>' within a line of sequence: does a file before it end without a line end?",
                          source_name(fasta->source), (long long)fasta->line);
    return error_user("%s:%lld: \"%.*s\" within a line of sequence: special tokens cannot be written in FASTA",
                      source_name(fasta->source), (long long)fasta->line, (int)(sign - open) + 1, open);
}

/* Reads a sequence line, or the part of it in the buffer: a line may be as long as a chromosome. */
static int take_sequence(struct fasta_reader *fasta, struct record_piece *piece)
{
    char *text = fasta->buffer + fasta->begin;
    int64_t available = fasta->end - fasta->begin;
    const char *newline = memchr(text, '\n', (size_t)available);
    int64_t length = newline != NULL ? newline - text : available;
    unsigned char wrong;
    *piece = (struct record_piece){RECORD_SEQUENCE, text, length};
    if (!record_clean(text, &piece->length, &wrong))
        return refuse_binary(fasta, wrong);
    const char *sign = memchr(text, '>', (size_t)piece->length);
    if (sign != NULL)
        return refuse_header_sign(fasta, text, sign);
    if (piece->length > 0 && !fasta->in_record)
        return error_user("%s:%lld: not FASTA: a record must begin with a line '>name'", source_name(fasta->source),
                          (long long)fasta->line);
    fasta->begin += length + (newline != NULL);
    fasta->line += newline != NULL;
    fasta->line_start = newline != NULL;
    return ERROR_NONE;
}

static int next(void *reader, struct record_piece *piece)
{
    struct fasta_reader *fasta = reader;
    if (fasta->label_next < fasta->label_count) {
        const char *label = fasta->labels[fasta->label_next++];
        *piece = (struct record_piece){RECORD_LABEL, label, label != NULL ? (int64_t)strlen(label) : 0};
        return ERROR_NONE;
    }
    for (;;) {
        int code = ERROR_NONE;
        bool done = false;
        if (fasta->in_header) {
            code = skip_header(fasta);
            if (code == ERROR_NONE && !fasta->in_header)
                continue;
        } else if (fasta->begin < fasta->end && fasta->line_start && fasta->buffer[fasta->begin] == '>') {
            code = take_name(fasta, piece, &done);
        } else if (fasta->begin < fasta->end) {
            code = take_sequence(fasta, piece);
            if (code == ERROR_NONE && piece->length == 0)
                continue;
            done = true;
        } else if (fasta->at_end) {
            if (!fasta->in_record)
                return error_user("%s: has no FASTA record", source_name(fasta->source));
            *piece = (struct record_piece){.kind = RECORD_END};
            done = true;
        }
        if (code != ERROR_NONE || done)
            return code;
        code = refill(fasta);
        if (code != ERROR_NONE)
            return code;
    }
}

const struct record_class fasta_class = {"fasta", create, next, destroy, true};
