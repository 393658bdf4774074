#include "infer/sliding.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"
#include "infer/site_window.h"
#include "infer/words.h"
#include "prepare/encoding.h"
#include "records/record_reader.h"
#include "records/source.h"
#include "tokenizer/strand.h"

#include <stdlib.h>
#include <string.h>

struct sliding_record {
    char *name;
    int64_t length;
    int64_t bytes, words; /* for text */
};

struct sliding {
    struct sliding_settings settings;
    struct record_source *source;
    struct record_reader *reader;
    struct sliding_record *records; /* [count] */
    int64_t count, capacity;
    int64_t skipped;           /* skipped records */
    struct record_piece piece; /* its unused rest */
    bool has_piece;
    struct record_piece next; /* the piece that follows once an inserted '*', or the ids of a record, are used */
    bool has_next;
    struct encoder *encoder; /* for text; NULL for characters */
    char *text;              /* [text_capacity] the current record's text */
    int64_t text_capacity;
    const int32_t *record_ids; /* unused ids of a whole record, [piece.length]; NULL: records are read piece by piece */
    int32_t *letters;          /* [letter_count] both strands, or a window for each token: ids of a whole record */
    int64_t letter_count;
    bool other_waits, other;   /* the other strand's windows follow; are being made */
    struct record_stops stops; /* for proteins */
    struct text_census census;
    int32_t *tokens; /* [context] the window that is being filled */
    uint8_t *ids;    /* [context] */
    int64_t filled;
    int64_t scored; /* tokens[scored ..] have not been in a window yet */
    int64_t before; /* tokens of the record's earlier windows */
};

int sliding_open(struct sliding **sliding, const struct sliding_settings *settings)
{
    struct sliding *w = *sliding = memory_allocate(sizeof *w);
    w->settings = *settings;
    const bool text = tokenizer_is_text(settings->tokenizer);
    const struct record_settings how = {.format = settings->input_format,
                                        .field = settings->field,
                                        .content = text ? RECORD_BYTES : RECORD_CHARACTERS,
                                        .skipped = settings->skip_bad ? &w->skipped : NULL};
    int code = census_start(&w->census, settings->tokenizer, settings->letter_case);
    if (code == ERROR_NONE)
        code = source_open(&w->source, settings->input);
    if (code == ERROR_NONE)
        code = record_reader_create(&w->reader, w->source, &how);
    if (code != ERROR_NONE) {
        sliding_close(w);
        *sliding = NULL;
        return code;
    }
    w->encoder = text ? encoder_open(settings->tokenizer) : NULL;
    w->tokens = memory_allocate((int64_t)sizeof *w->tokens * settings->context);
    w->ids = memory_allocate(settings->context);
    return ERROR_NONE;
}

void sliding_close(struct sliding *w)
{
    if (w == NULL)
        return;
    for (int64_t i = 0; i < w->count; i++)
        free(w->records[i].name);
    free(w->records);
    memory_free(w->tokens);
    memory_free(w->ids);
    free(w->text);
    free(w->letters);
    encoder_close(w->encoder);
    record_reader_destroy(w->reader);
    if (w->source != NULL)
        source_close(w->source);
    memory_free(w);
}

static void start_windows(struct sliding *w)
{
    w->filled = w->scored = w->before = 0;
    if (w->settings.bos || w->settings.ends) {
        w->tokens[w->filled++] = w->settings.tokenizer->bos;
        w->scored = 1;
    }
}

static void start_record(struct sliding *w)
{
    if (w->count == w->capacity) {
        w->capacity = w->capacity > 0 ? 2 * w->capacity : 64;
        w->records = memory_grow(w->records, (int64_t)sizeof *w->records * w->capacity);
    }
    struct sliding_record *record = &w->records[w->count++];
    *record = (struct sliding_record){memory_format("%.*s", (int)w->piece.length, w->piece.text), 0, 0, 0};
    record->length = w->settings.bos;
    w->other = false;
    start_windows(w);
}

/* Begins the record's next window with the last tokens of the previous, full one, or with BOS. */
static void continue_record(struct sliding *w)
{
    int64_t overlap = w->settings.overlap;
    w->before += w->filled;
    memmove(w->tokens, w->tokens + w->filled - overlap, (size_t)overlap * sizeof *w->tokens);
    w->filled = w->scored = overlap;
    if (w->settings.ends) {
        w->tokens[0] = w->settings.tokenizer->bos;
        w->filled = w->scored = 1;
    }
}

static bool is_full(const struct sliding *w)
{
    return w->filled == w->settings.context - w->settings.ends;
}

static void take_sequence(struct sliding *w)
{
    int64_t left = w->settings.context - w->settings.ends - w->filled;
    int64_t count = MIN(w->piece.length, left);
    if (w->record_ids == NULL) {
        census_encode(&w->census, w->piece.text, count, w->ids);
        w->piece.text += count;
    }
    for (int64_t i = 0; i < count; i++)
        w->tokens[w->filled++] = w->record_ids != NULL ? *w->record_ids++ : w->ids[i];
    if (!w->other)
        w->records[w->count - 1].length += count;
    w->piece.length -= count;
    w->has_piece = w->piece.length > 0;
}

static void hand_out(struct sliding *w, struct sliding_window *window)
{
    int64_t scored = w->scored > 0 ? w->scored : 1; /* a record's first token has no context and is not scored */
    if (w->settings.ends)
        w->tokens[w->filled++] = w->settings.tokenizer->eos;
    *window = (struct sliding_window){w->count - 1, w->tokens, w->filled, scored, w->before};
    w->scored = w->filled;
}

static void append_text(struct sliding *w, int64_t *bytes, const char *text, int64_t count)
{
    if (*bytes + count > w->text_capacity) {
        w->text_capacity = 2 * (*bytes + count);
        w->text = memory_grow(w->text, w->text_capacity);
    }
    if (count > 0) /* the arrays may not exist yet */
        memcpy(w->text + *bytes, text, (size_t)count);
    *bytes += count;
}

/* Appends the remaining pieces of a record to w->text, without a stop codon at its end. */
static int gather_text(struct sliding *w, int64_t *bytes)
{
    const bool stops = w->encoder == NULL && !w->settings.tokenizer->bases;
    int code = ERROR_NONE;
    for (*bytes = 0; code == ERROR_NONE && w->piece.kind == RECORD_SEQUENCE;) {
        code = encoding_check_record(w->records[w->count - 1].name, *bytes + w->piece.length);
        if (code != ERROR_NONE)
            break;
        if (stops && record_stops_take(&w->stops, &w->piece))
            append_text(w, bytes, "*", 1);
        append_text(w, bytes, w->piece.text, w->piece.length);
        code = record_reader_next(w->reader, &w->piece);
    }
    record_stops_end(&w->stops);
    return code;
}

/* Replaces the piece by the ids of its record's whole text; the piece after the record waits in w->next. */
static int read_text(struct sliding *w)
{
    struct sliding_record *record = &w->records[w->count - 1];
    int64_t bytes, count = 0, unscored = 0;
    int code = gather_text(w, &bytes);
    if (code == ERROR_NONE)
        code =
            encoding_of_record(encoder_encode(w->encoder, w->text, bytes, false, &w->record_ids, &count), record->name);
    if (code != ERROR_NONE)
        return code;
    census_take_specials(&w->census, w->encoder);
    if (count > 0 && !w->settings.bos && !w->settings.ends)
        tokenizer_decode_first(w->settings.tokenizer, w->record_ids[0], &unscored);
    record->bytes = bytes - unscored;
    record->words = words_count(w->text, bytes);
    w->next = w->piece;
    w->has_next = true;
    w->piece = (struct record_piece){RECORD_SEQUENCE, NULL, count};
    return ERROR_NONE;
}

/* As read_text, for the letters of a record. */
static int read_letters(struct sliding *w)
{
    int64_t count;
    int code = gather_text(w, &count);
    if (code != ERROR_NONE)
        return code;
    if (count > w->letter_count)
        w->letters = memory_grow(w->letters, count * (int64_t)sizeof *w->letters);
    w->letter_count = count;
    census_encode(&w->census, w->text, count, (uint8_t *)w->text);
    for (int64_t i = 0; i < count; i++)
        w->letters[i] = (uint8_t)w->text[i];
    if (w->piece.kind != RECORD_SEQUENCE)
        census_end_record(&w->census, w->records[w->count - 1].name);
    w->next = w->piece;
    w->has_next = true;
    w->other_waits = w->settings.both_strands;
    w->record_ids = w->letters;
    w->piece = (struct record_piece){RECORD_SEQUENCE, NULL, count};
    return ERROR_NONE;
}

/* Begins the windows of the record's other strand. */
static void turn(struct sliding *w)
{
    w->other_waits = false;
    w->other = true;
    strand_reverse(w->letters, w->letter_count);
    start_windows(w);
    w->record_ids = w->letters;
    w->piece = (struct record_piece){RECORD_SEQUENCE, NULL, w->letter_count};
}

static int read_piece(struct sliding *w)
{
    if (w->other_waits) {
        turn(w);
        return ERROR_NONE;
    }
    if (w->has_next) {
        w->piece = w->next;
        w->has_next = false;
        return ERROR_NONE;
    }
    int code = record_reader_next(w->reader, &w->piece);
    if (w->encoder != NULL)
        return code == ERROR_NONE && w->piece.kind == RECORD_SEQUENCE ? read_text(w) : code;
    if (code == ERROR_NONE && (w->settings.both_strands || w->settings.each) && w->piece.kind == RECORD_SEQUENCE)
        return read_letters(w);
    if (code == ERROR_NONE && w->piece.kind != RECORD_SEQUENCE && w->count > 0)
        census_end_record(&w->census, w->records[w->count - 1].name);
    if (code != ERROR_NONE || w->settings.tokenizer->bases)
        return code;
    if (w->piece.kind != RECORD_SEQUENCE) {
        record_stops_end(&w->stops);
    } else if (record_stops_take(&w->stops, &w->piece)) {
        w->next = w->piece;
        w->has_next = true;
        w->piece = (struct record_piece){RECORD_SEQUENCE, "*", 1};
    }
    return ERROR_NONE;
}

/* Makes the window of the next token of a whole record, of which piece.length tokens have not been scored. */
static void hand_out_each(struct sliding *w, struct sliding_window *window)
{
    struct sliding_record *record = &w->records[w->count - 1];
    if (record->length == 0)
        record->length = w->piece.length;
    const int64_t room = w->settings.context - 2, position = record->length - w->piece.length;
    const int64_t first = site_window(record->length, room, position, position);
    const int64_t count = MIN(record->length - first, room);
    w->tokens[0] = w->settings.tokenizer->bos;
    memcpy(w->tokens + 1, w->record_ids + first, (size_t)count * sizeof *w->tokens);
    w->tokens[count + 1] = w->settings.tokenizer->eos;
    *window = (struct sliding_window){w->count - 1, w->tokens, count + 2, position - first + 1, 0};
    w->has_piece = --w->piece.length > 0;
}

int sliding_next(struct sliding *w, struct sliding_window *window)
{
    *window = (struct sliding_window){0};
    for (;;) {
        if (w->other_waits && !w->has_piece && w->filled > w->scored) { /* the first strand's last window */
            hand_out(w, window);
            return ERROR_NONE;
        }
        if (!w->has_piece) {
            int code = read_piece(w);
            if (code != ERROR_NONE)
                return code;
            w->has_piece = true;
        }
        bool sequence = w->piece.kind == RECORD_SEQUENCE;
        if (!sequence && w->filled > w->scored) {
            hand_out(w, window);
            return ERROR_NONE;
        }
        if (w->piece.kind == RECORD_END)
            return ERROR_NONE;
        if (!sequence) {
            start_record(w);
            w->has_piece = false;
            continue;
        }
        if (w->settings.each && w->piece.length > 0) {
            hand_out_each(w, window);
            return ERROR_NONE;
        }
        if (w->filled == w->settings.context) /* the full window was handed out */
            continue_record(w);
        take_sequence(w);
        if (is_full(w)) {
            hand_out(w, window);
            return ERROR_NONE;
        }
    }
}

int64_t sliding_records(const struct sliding *w)
{
    return w->count;
}

const char *sliding_name(const struct sliding *w, int64_t record)
{
    return w->records[record].name;
}

int64_t sliding_length(const struct sliding *w, int64_t record)
{
    return w->records[record].length;
}

int64_t sliding_bytes(const struct sliding *w, int64_t record)
{
    return w->records[record].bytes;
}

int64_t sliding_words(const struct sliding *w, int64_t record)
{
    return w->records[record].words;
}

const struct text_census *sliding_census(const struct sliding *w)
{
    return &w->census;
}

int64_t sliding_stops(const struct sliding *w)
{
    return w->stops.dropped;
}

int64_t sliding_skipped(const struct sliding *w)
{
    return w->skipped;
}
