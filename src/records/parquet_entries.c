#include "records/parquet_entries.h"
#include "base/error.h"
#include "base/memory.h"
#include "records/parquet_pages.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct parquet_entries {
    const struct parquet_column *column;
    struct parquet_pages *pages;
    int64_t chunk_left, page_left; /* entries left in the chunk and in the page */
    struct parquet_runs repetition, definition;
    struct parquet_strings strings;    /* uses the chunk's dictionary */
    struct parquet_string *dictionary; /* [dictionary_capacity], pointing into dictionary_text */
    uint8_t *dictionary_text;          /* [text_capacity]; both are freed with free() */
    int64_t dictionary_capacity, text_capacity;
    bool has_dictionary;
    char digits[32]; /* text of a number */
};

struct parquet_entries *parquet_entries_create(struct record_source *source, const struct parquet_column *column)
{
    struct parquet_entries *entries = memory_allocate(sizeof *entries);
    entries->column = column;
    entries->pages = parquet_pages_create(source, column);
    entries->strings.width = column->width;
    return entries;
}

void parquet_entries_destroy(struct parquet_entries *entries)
{
    if (entries == NULL)
        return;
    parquet_pages_destroy(entries->pages);
    free(entries->strings.last);
    free(entries->dictionary);
    free(entries->dictionary_text);
    memory_free(entries);
}

int parquet_entries_start(struct parquet_entries *entries, const struct parquet_chunk *chunk, int64_t group)
{
    entries->chunk_left = chunk->entries;
    entries->page_left = 0;
    entries->has_dictionary = false;
    return parquet_pages_start(entries->pages, chunk, group);
}

/* Copies the page, since data pages will overwrite it. */
static int take_dictionary(struct parquet_entries *entries, const struct parquet_page *page)
{
    const int64_t bytes = page->values.end - page->values.at;
    if (entries->has_dictionary)
        return parquet_pages_damaged(entries->pages, "a second dictionary");
    if (page->encoding != PARQUET_PLAIN && page->encoding != PARQUET_PLAIN_DICTIONARY)
        return parquet_pages_damaged(entries->pages, "a dictionary in an encoding that is not supported");
    if (page->entries >
        bytes / (entries->column->width > 0 ? entries->column->width : 4)) /* 4 bytes: the length before each string */
        return parquet_pages_damaged(entries->pages, "more strings in a dictionary than its bytes can hold");
    if (bytes >= entries->text_capacity) {
        entries->text_capacity = bytes + 1; /* never empty, so that it has an address */
        entries->dictionary_text = memory_grow(entries->dictionary_text, entries->text_capacity);
    }
    if (page->entries > entries->dictionary_capacity) {
        entries->dictionary_capacity = page->entries;
        entries->dictionary = memory_grow(entries->dictionary, page->entries * (int64_t)sizeof *entries->dictionary);
    }
    if (bytes > 0)
        memcpy(entries->dictionary_text, page->values.at, (size_t)bytes);
    struct parquet_strings *strings = &entries->strings;
    parquet_strings_start(strings, PARQUET_PLAIN,
                          (struct parquet_bytes){entries->dictionary_text, entries->dictionary_text + bytes},
                          page->entries);
    for (int64_t i = 0; i < page->entries; i++)
        if (!parquet_strings_next(strings, &entries->dictionary[i]))
            return parquet_pages_damaged(entries->pages, "a string of the dictionary is longer than the page");
    strings->dictionary = entries->dictionary;
    strings->entries = page->entries;
    entries->has_dictionary = true;
    return ERROR_NONE;
}

static int level_width(int most)
{
    int width = 0;
    while (most >> width > 0)
        width++;
    return width;
}

static bool is_read(int encoding, bool integers)
{
    if (encoding == PARQUET_DELTA_LENGTH || encoding == PARQUET_DELTA)
        return !integers;
    if (encoding == PARQUET_DELTA_BINARY || encoding == PARQUET_BYTE_STREAM_SPLIT)
        return integers;
    return encoding == PARQUET_PLAIN || encoding == PARQUET_PLAIN_DICTIONARY || encoding == PARQUET_RLE_DICTIONARY;
}

static int take_data(struct parquet_entries *entries, const struct parquet_page *page)
{
    const int encoding = page->encoding;
    const bool indexed = encoding == PARQUET_PLAIN_DICTIONARY || encoding == PARQUET_RLE_DICTIONARY;
    if (!is_read(encoding, entries->column->width > 0))
        return parquet_pages_damaged(entries->pages, "values in an encoding that is not supported");
    if (indexed && !entries->has_dictionary)
        return parquet_pages_damaged(entries->pages, "its dictionary is missing");
    if (page->entries > entries->chunk_left)
        return parquet_pages_damaged(entries->pages, "more entries than the column has in this row group");
    parquet_runs_start(&entries->repetition, page->repetition, level_width(entries->column->repetition));
    parquet_runs_start(&entries->definition, page->definition, level_width(entries->column->definition));
    if (!parquet_strings_start(&entries->strings, (enum parquet_encoding)encoding, page->values, page->entries))
        return parquet_pages_damaged(entries->pages, "its strings do not begin as their encoding does");
    entries->page_left = page->entries;
    return ERROR_NONE;
}

static int next_page(struct parquet_entries *entries)
{
    struct parquet_page page;
    int code = parquet_pages_next(entries->pages, &page);
    if (code != ERROR_NONE)
        return code;
    return page.dictionary ? take_dictionary(entries, &page) : take_data(entries, &page);
}

/* Reads the next level; 0 if the column has none. */
static bool next_level(struct parquet_runs *levels, int most, uint32_t *level)
{
    *level = 0;
    return most == 0 || (parquet_runs_next(levels, level) && *level <= (uint32_t)most);
}

static int write_real(struct parquet_entries *entries, uint64_t bits, bool wide)
{
    const uint32_t low = (uint32_t)bits;
    float narrow;
    double number;
    memcpy(&narrow, &low, sizeof narrow);
    memcpy(&number, &bits, sizeof number);
    return snprintf(entries->digits, sizeof entries->digits, "%.*g", wide ? 17 : 9, wide ? number : (double)narrow);
}

/* Converts a number from little-endian bytes to decimal digits. */
static void write_digits(struct parquet_entries *entries, struct parquet_string *string)
{
    uint64_t number = 0;
    int length;
    for (int64_t b = string->length - 1; b >= 0; b--)
        number = number << 8 | string->text[b];
    if (entries->column->real)
        length = write_real(entries, number, string->length == 8);
    else if (entries->column->no_sign)
        length = snprintf(entries->digits, sizeof entries->digits, "%" PRIu64, number);
    else
        length = snprintf(entries->digits, sizeof entries->digits, "%" PRId64,
                          string->length == 4 ? (int64_t)(int32_t)(uint32_t)number : (int64_t)number);
    *string = (struct parquet_string){(const uint8_t *)entries->digits, length};
}

int parquet_entries_next(struct parquet_entries *entries, struct parquet_entry *entry, bool *more)
{
    const struct parquet_column *column = entries->column;
    uint32_t repetition, definition;
    *entry = (struct parquet_entry){0};
    *more = entries->chunk_left > 0;
    if (!*more)
        return ERROR_NONE;
    while (entries->page_left == 0) {
        int code = next_page(entries);
        if (code != ERROR_NONE)
            return code;
    }
    if (!next_level(&entries->repetition, column->repetition, &repetition) ||
        !next_level(&entries->definition, column->definition, &definition))
        return parquet_pages_damaged(entries->pages, "its levels end early or are impossible");
    entry->begins_row = repetition == 0;
    entry->present = definition == (uint32_t)column->definition;
    entry->empty_list = column->repetition > 0 && definition == (uint32_t)column->empty;
    if (entry->present && !parquet_strings_next(&entries->strings, &entry->string))
        return parquet_pages_damaged(entries->pages, "its strings end early or are impossible");
    if (entry->present && column->width > 0)
        write_digits(entries, &entry->string);
    entries->page_left--;
    entries->chunk_left--;
    return ERROR_NONE;
}
