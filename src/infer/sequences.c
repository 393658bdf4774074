#include "infer/sequences.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"
#include "base/text.h"
#include "prepare/encoding.h"
#include "records/record_reader.h"
#include "records/source.h"

#include <stdlib.h>
#include <string.h>

enum { PART = 1 << 14 };

/* The record that is being read. */
struct sequences_reading {
    char *name;     /* NULL before the first record */
    int64_t length; /* tokens kept so far, without special ones */
    int64_t left;   /* tokens that may still be added */
    bool truncated;
    struct record_stops stops; /* for proteins */
    struct encoder *encoder;   /* for text, which is encoded at the end of the record; else NULL */
    char *text;                /* [bytes] of the record */
    int64_t bytes, capacity;
};

/* Appends as many tokens as are left to the record. Returns the code of the spool. */
static int put_tokens(struct record_sequences *s, struct sequences_reading *r, const int32_t *tokens, int64_t count)
{
    r->truncated |= count > r->left;
    count = MIN(count, r->left);
    r->length += count;
    r->left -= count;
    return spool_append(s->spool, tokens, count);
}

static int put_characters(struct record_sequences *s, struct sequences_reading *r, const char *text, int64_t count)
{
    uint8_t ids[PART];
    int32_t tokens[PART];
    int code = ERROR_NONE;
    for (int64_t at = 0; at < count && code == ERROR_NONE; at += PART) {
        const int64_t part = MIN(count - at, PART), kept = MIN(part, r->left);
        census_encode(&s->census, text + at, kept, ids);
        for (int64_t i = 0; i < kept; i++)
            tokens[i] = ids[i];
        r->truncated |= part > kept;
        code = put_tokens(s, r, tokens, kept);
    }
    return code;
}

static int put_text(struct sequences_reading *r, const struct record_piece *piece)
{
    int code = encoding_check_record(r->name, r->bytes + piece->length);
    if (code != ERROR_NONE)
        return code;
    if (r->bytes + piece->length > r->capacity) {
        r->capacity = 2 * (r->bytes + piece->length);
        r->text = memory_grow(r->text, r->capacity);
    }
    if (piece->length > 0)
        memcpy(r->text + r->bytes, piece->text, (size_t)piece->length);
    r->bytes += piece->length;
    return ERROR_NONE;
}

static int put_sequence(struct record_sequences *s, struct sequences_reading *r, struct record_piece *piece)
{
    if (r->encoder != NULL)
        return put_text(r, piece);
    bool before = !s->settings.tokenizer->bases && record_stops_take(&r->stops, piece);
    int code = before ? put_characters(s, r, "*", 1) : ERROR_NONE;
    return code == ERROR_NONE ? put_characters(s, r, piece->text, piece->length) : code;
}

static int start_record(struct record_sequences *s, struct sequences_reading *r, const struct record_piece *piece)
{
    const struct sequences_settings *settings = &s->settings;
    r->name = memory_format("%.*s", (int)piece->length, piece->text);
    if (piece->length > s->name_bytes)
        s->name_bytes = piece->length;
    r->length = r->bytes = 0;
    r->left = settings->most > 0 ? settings->most - settings->begin - settings->end : INT64_MAX;
    r->truncated = false;
    return spool_append(s->spool, &settings->tokenizer->bos, settings->begin);
}

/* Encodes the record's text. */
static int encode_text(struct record_sequences *s, struct sequences_reading *r)
{
    const int32_t *ids;
    int64_t count = 0;
    int code = encoding_of_record(encoder_encode(r->encoder, r->text, r->bytes, false, &ids, &count), r->name);
    census_take_specials(&s->census, r->encoder);
    return code == ERROR_NONE ? put_tokens(s, r, ids, count) : code;
}

static int end_record(struct record_sequences *s, struct sequences_reading *r)
{
    const struct sequences_settings *settings = &s->settings;
    if (r->name == NULL)
        return ERROR_NONE;
    int code = r->encoder != NULL ? encode_text(s, r) : ERROR_NONE;
    if (r->encoder == NULL) {
        record_stops_end(&r->stops);
        census_end_record(&s->census, r->name);
    }
    const int64_t tokens = settings->begin + r->length + settings->end;
    if (code == ERROR_NONE && tokens == 0)
        code = error_user("record %s: is empty, and the model has no begin token to compute in its place",
                          text_short((char[TEXT_SHORT]){0}, r->name));
    s->tokens += tokens;
    s->pairs += r->length * r->length;
    s->truncated += r->truncated;
    s->empty += r->length == 0;
    if (code == ERROR_NONE)
        code = spool_append(s->spool, &settings->tokenizer->eos, settings->end);
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
                                             .content = r->encoder != NULL ? RECORD_BYTES : RECORD_CHARACTERS,
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
    struct sequences_reading reading = {
        .encoder = tokenizer_is_text(settings->tokenizer) ? encoder_open(settings->tokenizer) : NULL};
    code = spool_create(&s->spool, settings->output, sizeof(int32_t));
    if (code == ERROR_NONE)
        code = read_records(s, source, &reading);
    if (code == ERROR_NONE)
        code = spool_rewind(s->spool);
    s->stops = reading.stops.dropped;
    free(reading.name);
    free(reading.text);
    encoder_close(reading.encoder);
    source_close(source);
    return code;
}

void sequences_destroy(struct record_sequences *s)
{
    spool_destroy(s->spool);
    free(s->longest_name);
    *s = (struct record_sequences){.spool = NULL};
}
