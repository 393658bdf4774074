#include "records/fastq.h"
#include "base/error.h"
#include "base/memory.h"
#include "records/line_reader.h"
#include "records/source.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_QUALITY = '!', MOST_QUALITY = '~', QUALITIES = MOST_QUALITY - LEAST_QUALITY + 1 };

struct fastq_reader {
    struct line_reader lines;
    const struct record_settings *settings;
    double errors[QUALITIES]; /* error probability of each Phred quality */
    char *name, *letters;     /* of the current record; grown as needed */
    int64_t name_bytes, count, name_capacity, capacity;
    bool has_letters; /* the letters have not been returned yet */
};

static int create(void **reader, struct record_source *source, const struct record_settings *settings)
{
    struct fastq_reader *fastq = memory_allocate(sizeof *fastq);
    line_reader_create(&fastq->lines, source);
    fastq->settings = settings;
    for (int q = 0; q < QUALITIES; q++)
        fastq->errors[q] = pow(10, -q / 10.0);
    *reader = fastq;
    return ERROR_NONE;
}

static void destroy(void *reader)
{
    struct fastq_reader *fastq = reader;
    if (fastq == NULL)
        return;
    line_reader_destroy(&fastq->lines);
    free(fastq->name);
    free(fastq->letters);
    memory_free(fastq);
}

static void keep(char **text, int64_t *capacity, const char *from, int64_t bytes)
{
    if (bytes > *capacity) {
        *capacity = 2 * bytes;
        *text = memory_grow(*text, *capacity);
    }
    if (bytes > 0)
        memcpy(*text, from, (size_t)bytes);
}

/* Reads the next line of a record, which has begun. */
static int next_line(struct fastq_reader *fastq, char **line, int64_t *length)
{
    int code = line_reader_next(&fastq->lines, line, length);
    if (code != ERROR_NONE || *line != NULL)
        return code;
    return line_reader_refuse(&fastq->lines, "the file ends within a FASTQ record, after this line");
}

static int take_name(struct fastq_reader *fastq, const char *line, int64_t length)
{
    const char *word;
    unsigned char wrong;
    int64_t bytes;
    if (length < 1 || line[0] != '@')
        return line_reader_refuse(&fastq->lines, "a FASTQ record must begin with a line '@name' and have four lines");
    if (!record_first_word(line + 1, length - 1, &word, &bytes, &wrong))
        return line_reader_refuse(&fastq->lines, "a control character in the name of a FASTQ record");
    keep(&fastq->name, &fastq->name_capacity, word, bytes);
    fastq->name_bytes = bytes;
    return ERROR_NONE;
}

static int take_letters(struct fastq_reader *fastq, char *line, int64_t length)
{
    unsigned char wrong;
    if (!record_clean(line, &length, &wrong))
        return line_reader_refuse(&fastq->lines,
                                  "a byte that is not a letter of a sequence: this is binary data, not FASTQ");
    keep(&fastq->letters, &fastq->capacity, line, length);
    fastq->count = length;
    return ERROR_NONE;
}

/* Returns in *good whether the qualities are high enough. */
static int take_qualities(struct fastq_reader *fastq, const char *line, int64_t length, bool *good)
{
    double sum = 0;
    if (length != fastq->count)
        return line_reader_refuse(&fastq->lines, "a FASTQ record must have as many quality characters as letters");
    for (int64_t i = 0; i < length; i++) {
        if (line[i] < LEAST_QUALITY || line[i] > MOST_QUALITY)
            return line_reader_refuse(&fastq->lines, "a character that is not a quality of FASTQ ('!' to '~')");
        sum += fastq->errors[line[i] - LEAST_QUALITY];
    }
    *good = length == 0 || sum <= (double)length * pow(10, -fastq->settings->min_quality / 10) * (1 + 1e-12);
    return ERROR_NONE;
}

/* Reads a record. *more: there is one. */
static int read_record(struct fastq_reader *fastq, bool *more, bool *good)
{
    char *line;
    int64_t length;
    int code;
    do
        code = line_reader_next(&fastq->lines, &line, &length);
    while (code == ERROR_NONE && line != NULL && length == 0);
    *more = line != NULL;
    if (code != ERROR_NONE || line == NULL)
        return code;
    code = take_name(fastq, line, length);
    if (code == ERROR_NONE)
        code = next_line(fastq, &line, &length);
    if (code == ERROR_NONE)
        code = take_letters(fastq, line, length);
    if (code == ERROR_NONE)
        code = next_line(fastq, &line, &length);
    if (code == ERROR_NONE && (length < 1 || line[0] != '+'))
        code = line_reader_refuse(&fastq->lines, "the third line of a FASTQ record must begin with '+' (sequences of "
                                                 "several lines are not supported)");
    if (code == ERROR_NONE)
        code = next_line(fastq, &line, &length);
    return code == ERROR_NONE ? take_qualities(fastq, line, length, good) : code;
}

static int next(void *reader, struct record_piece *piece)
{
    struct fastq_reader *fastq = reader;
    bool more = true, good = false;
    if (fastq->has_letters && fastq->count > 0) {
        fastq->has_letters = false;
        *piece = (struct record_piece){RECORD_SEQUENCE, fastq->letters, fastq->count};
        return ERROR_NONE;
    }
    while (more && !good) {
        int code = read_record(fastq, &more, &good);
        if (code != ERROR_NONE)
            return code;
        if (more && !good && fastq->settings->low_quality != NULL)
            ++*fastq->settings->low_quality;
    }
    fastq->has_letters = more;
    *piece = more ? (struct record_piece){RECORD_NAME, fastq->name, fastq->name_bytes}
                  : (struct record_piece){.kind = RECORD_END};
    return ERROR_NONE;
}

const struct record_class fastq_class = {"fastq", create, next, destroy, false};

/* @name, letters, +. With long reads the head may end within the letters. */
bool fastq_begins(const uint8_t *head, int64_t bytes)
{
    int64_t second, third = -1, unused;
    if (bytes < 1 || head[0] != '@')
        return false;
    line_length_at(head, bytes, 0, &second);
    const int64_t length = second > 0 ? line_length_at(head, bytes, second, &third) : 0;
    int64_t letters = 0;
    while (letters < length && (isalpha(head[second + letters]) || memchr("*-.", head[second + letters], 3) != NULL))
        letters++;
    if (second < 0 || letters < length)
        return false;
    if (third < 0)
        return bytes == SOURCE_HEAD && length > 100;
    return line_length_at(head, bytes, third, &unused) > 0 && head[third] == '+';
}
