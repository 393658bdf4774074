#include "infer/sequences.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"
#include "records/record_reader.h"
#include "records/source.h"

#include <stdlib.h>

enum { PART_BYTES = 1 << 16 };

/* The record that is being read. */
struct sequences_reading {
    char *name;     /* NULL before the first record */
    int64_t length; /* residues kept so far */
    int64_t left;   /* residues that may still be added */
    bool truncated;
    struct record_stops stops; /* for proteins */
};

static int put_special(struct record_sequences *s, int32_t token)
{
    uint8_t id = (uint8_t)token;
    return spool_append(s->spool, &id, 1);
}

static int put_text(struct record_sequences *s, struct sequences_reading *r, const char *text, int64_t count)
{
    uint8_t ids[PART_BYTES];
    int code = ERROR_NONE;
    r->truncated |= count > r->left;
    for (count = MIN(count, r->left); count > 0 && code == ERROR_NONE;) {
        int64_t part = MIN(count, PART_BYTES);
        census_encode(&s->census, text, part, ids);
        code = spool_append(s->spool, ids, part);
        r->length += part;
        r->left -= part;
        text += part;
        count -= part;
    }
    return code;
}

static int put_sequence(struct record_sequences *s, struct sequences_reading *r, struct record_piece *piece)
{
    bool before = !s->settings.tokenizer->bases && record_stops_take(&r->stops, piece);
    int code = before ? put_text(s, r, "*", 1) : ERROR_NONE;
    return code == ERROR_NONE ? put_text(s, r, piece->text, piece->length) : code;
}

static int start_record(struct record_sequences *s, struct sequences_reading *r, const struct record_piece *piece)
{
    const struct sequences_settings *settings = &s->settings;
    r->name = memory_format("%.*s", (int)piece->length, piece->text);
    if (piece->length > s->name_bytes)
        s->name_bytes = piece->length;
    r->length = 0;
    r->left = settings->most > 0 ? settings->most - 1 - settings->end : INT64_MAX;
    r->truncated = false;
    return put_special(s, settings->tokenizer->bos);
}

static int end_record(struct record_sequences *s, struct sequences_reading *r)
{
    if (r->name == NULL)
        return ERROR_NONE;
    record_stops_end(&r->stops);
    census_end_record(&s->census, r->name);
    int64_t tokens = 1 + r->length + s->settings.end;
    s->tokens += tokens;
    s->pairs += r->length * r->length;
    s->truncated += r->truncated;
    s->empty += r->length == 0;
    int code = s->settings.end ? put_special(s, s->settings.tokenizer->eos) : ERROR_NONE;
    if (code == ERROR_NONE)
        code = spool_end(s->spool, r->name);
    if (tokens > s->longest) {
        free(s->longest_name);
        s->longest_name = r->name;
        s->longest = tokens;
    } else {
        free(r->name);
    }
    r->name = NULL;
    return code;
}

static int read_records(struct record_sequences *s, struct record_source *source, struct sequences_reading *r)
{
    const struct record_settings settings = {.format = s->settings.input_format,
                                             .field = s->settings.field,
                                             .content = RECORD_CHARACTERS,
                                             .skipped = s->settings.skip_bad ? &s->skipped : NULL};
    struct record_reader *reader;
    struct record_piece piece = {.kind = RECORD_NAME};
    int code = record_reader_create(&reader, source, &settings);
    while (code == ERROR_NONE && piece.kind != RECORD_END) {
        code = record_reader_next(reader, &piece);
        if (code != ERROR_NONE)
            break;
        if (piece.kind == RECORD_SEQUENCE) {
            code = put_sequence(s, r, &piece);
            continue;
        }
        code = end_record(s, r);
        if (code == ERROR_NONE && piece.kind == RECORD_NAME)
            code = start_record(s, r, &piece);
    }
    record_reader_destroy(reader);
    return code;
}

int sequences_read(struct record_sequences *s, const struct sequences_settings *settings)
{
    *s = (struct record_sequences){.settings = *settings};
    struct record_source *source;
    int code = census_start(&s->census, settings->tokenizer, settings->letter_case);
    if (code == ERROR_NONE)
        code = source_open(&source, settings->path);
    if (code != ERROR_NONE)
        return code;
    struct sequences_reading reading = {NULL};
    code = spool_create(&s->spool, settings->output, 1);
    if (code == ERROR_NONE)
        code = read_records(s, source, &reading);
    if (code == ERROR_NONE)
        code = spool_rewind(s->spool);
    s->stops = reading.stops.dropped;
    free(reading.name);
    source_close(source);
    return code;
}

void sequences_destroy(struct record_sequences *s)
{
    spool_destroy(s->spool);
    free(s->longest_name);
    *s = (struct record_sequences){.spool = NULL};
}
