#include "infer/references.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "records/record_reader.h"
#include "records/source.h"

#include <stdlib.h>
#include <string.h>

struct references_reading {
    struct reference_list *references;
    struct record_stops stops; /* for proteins */
    int64_t list_capacity, ids_capacity;
};

static void put_text(struct references_reading *r, const char *text, int64_t count)
{
    struct reference_list *s = r->references;
    if (s->letters + count > r->ids_capacity) {
        r->ids_capacity = 2 * (s->letters + count);
        s->ids = memory_grow(s->ids, r->ids_capacity);
    }
    if (count > 0)
        census_encode(&s->census, text, count, s->ids + s->letters);
    s->letters += count;
    s->list[s->count - 1].length += count;
}

static void start_record(struct references_reading *r, const struct record_piece *piece)
{
    struct reference_list *s = r->references;
    if (s->count == r->list_capacity) {
        r->list_capacity = 2 * r->list_capacity + 16;
        s->list = memory_grow(s->list, r->list_capacity * (int64_t)sizeof *s->list);
    }
    s->list[s->count++] =
        (struct reference_record){memory_format("%.*s", (int)piece->length, piece->text), s->letters, 0};
}

static void end_record(struct references_reading *r)
{
    struct reference_list *s = r->references;
    if (s->count == 0)
        return;
    const struct reference_record *last = &s->list[s->count - 1];
    record_stops_end(&r->stops);
    census_end_record(&s->census, last->name);
    if (last->length > s->longest)
        s->longest = last->length;
}

static int read_records(struct references_reading *r, struct record_reader *reader)
{
    struct record_piece piece = {.kind = RECORD_NAME};
    int code = ERROR_NONE;
    while (code == ERROR_NONE && piece.kind != RECORD_END) {
        code = record_reader_next(reader, &piece);
        if (code != ERROR_NONE)
            return code;
        if (piece.kind == RECORD_SEQUENCE) {
            if (!r->references->census.tokenizer->bases && record_stops_take(&r->stops, &piece))
                put_text(r, "*", 1);
            put_text(r, piece.text, piece.length);
            continue;
        }
        end_record(r);
        if (piece.kind == RECORD_NAME)
            start_record(r, &piece);
    }
    return code;
}

static const struct reference_list *sorted; /* for by_name, whose qsort has no argument */

static int by_name(const void *a, const void *b)
{
    return strcmp(sorted->list[*(const int64_t *)a].name, sorted->list[*(const int64_t *)b].name);
}

static int index_names(struct reference_list *s)
{
    s->by_name = memory_allocate(s->count * (int64_t)sizeof *s->by_name);
    for (int64_t i = 0; i < s->count; i++)
        s->by_name[i] = i;
    sorted = s;
    qsort(s->by_name, (size_t)s->count, sizeof *s->by_name, by_name);
    for (int64_t i = 1; i < s->count; i++)
        if (by_name(&s->by_name[i - 1], &s->by_name[i]) == 0)
            return error_user("%s: two records are named %s; mutations refer to records by their names", s->path,
                              text_short((char[TEXT_SHORT]){0}, s->list[s->by_name[i]].name));
    return ERROR_NONE;
}

int references_read(struct reference_list *s, const char *path, const struct tokenizer *tokenizer,
                    const char *letter_case)
{
    const struct record_settings settings = {.format = "fasta", .content = RECORD_CHARACTERS};
    struct references_reading reading = {.references = s};
    struct record_source *source;
    struct record_reader *reader;
    *s = (struct reference_list){.path = memory_string(path)};
    int code = census_start(&s->census, tokenizer, letter_case);
    if (code == ERROR_NONE)
        code = source_open(&source, path);
    if (code != ERROR_NONE)
        return code;
    code = record_reader_create(&reader, source, &settings);
    if (code == ERROR_NONE)
        code = read_records(&reading, reader);
    record_reader_destroy(reader);
    source_close(source);
    s->stops = reading.stops.dropped;
    return code == ERROR_NONE ? index_names(s) : code;
}

int64_t references_find(const struct reference_list *s, const char *name)
{
    int64_t low = 0, high = s->count;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        const int order = strcmp(name, s->list[s->by_name[middle]].name);
        if (order == 0)
            return s->by_name[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return -1;
}

const uint8_t *reference_ids(const struct reference_list *s, int64_t record)
{
    return s->ids + s->list[record].first;
}

void references_destroy(struct reference_list *s)
{
    for (int64_t i = 0; i < s->count; i++)
        free(s->list[i].name);
    free(s->list);
    free(s->ids);
    memory_free(s->by_name);
    free(s->path);
    *s = (struct reference_list){0};
}
