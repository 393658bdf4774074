#include "records/parquet_pages.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"
#include "records/parquet_codec.h"
#include "records/source.h"
#include "records/thrift.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { READ_BYTES = 1 << 18 };
enum { PAGE_DATA = 0, PAGE_DICTIONARY = 2, PAGE_DATA_2 = 3 };

struct header {
    int64_t kind, plain_bytes, packed_bytes, checksum;
    int64_t entries, encoding, definition_encoding, repetition_encoding;
    int64_t definition_bytes, repetition_bytes; /* version 2, whose levels are not compressed */
    bool checked, packed;
};

struct parquet_pages {
    struct record_source *source;
    const struct parquet_column *column;
    int codec;
    int64_t group, page; /* numbers, from 1 */
    int64_t next, left;  /* unread part of the chunk: offset in the file, bytes */
    uint8_t *raw;        /* [capacity]; begin .. end - 1 is not consumed; freed with free() */
    int64_t capacity, begin, end;
    uint8_t *plain; /* [plain_capacity]; freed with free() */
    int64_t plain_capacity;
};

struct parquet_pages *parquet_pages_create(struct record_source *source, const struct parquet_column *column)
{
    struct parquet_pages *pages = memory_allocate(sizeof *pages);
    pages->source = source;
    pages->column = column;
    return pages;
}

void parquet_pages_destroy(struct parquet_pages *pages)
{
    if (pages == NULL)
        return;
    free(pages->raw);
    free(pages->plain);
    memory_free(pages);
}

int parquet_pages_damaged(const struct parquet_pages *pages, const char *what)
{
    return error_user("%s: column \"%s\", row group %lld, page %lld: %s", source_name(pages->source),
                      pages->column->name, (long long)pages->group, (long long)pages->page, what);
}

int parquet_pages_start(struct parquet_pages *pages, const struct parquet_chunk *chunk, int64_t group)
{
    const char *unread = parquet_codec_unread(chunk->codec);
    pages->group = group;
    pages->page = 0;
    pages->codec = chunk->codec;
    pages->next = chunk->start;
    pages->left = chunk->bytes;
    pages->begin = pages->end = 0;
    if (unread != NULL)
        return error_user("%s: column \"%s\" is compressed with a codec that is not supported: %s (%d); write it with "
                          "zstd, snappy, gzip or lz4_raw",
                          source_name(pages->source), pages->column->name, unread, chunk->codec);
    return ERROR_NONE;
}

/* Reads until `wanted` bytes are in the buffer, or the chunk ends. */
static int fill(struct parquet_pages *pages, int64_t wanted)
{
    const int64_t kept = pages->end - pages->begin;
    if (kept >= wanted || pages->left == 0)
        return ERROR_NONE;
    int64_t count = MAX(wanted - kept, READ_BYTES);
    if (count > pages->left)
        count = pages->left;
    if (kept > 0)
        memmove(pages->raw, pages->raw + pages->begin, (size_t)kept);
    if (kept + count > pages->capacity) {
        pages->capacity = kept + count;
        pages->raw = memory_grow(pages->raw, pages->capacity);
    }
    pages->begin = 0;
    pages->end = kept + count;
    int code = source_read_at(pages->source, pages->raw + kept, count, pages->next);
    pages->next += count;
    pages->left -= count;
    return code;
}

/* Reads the struct of a page's type. The integer of field n goes to *where[n - 1], unless NULL. */
static void read_integers(struct thrift *thrift, const struct thrift_field *outer, int64_t *const where[], int count,
                          bool *packed)
{
    struct thrift_field field = {0};
    if (!thrift_struct(thrift, outer))
        return;
    while (thrift_next(thrift, &field))
        if (field.number >= 1 && field.number <= count && where[field.number - 1] != NULL)
            *where[field.number - 1] = thrift_integer(thrift, &field);
        else if (field.number == 7 && packed != NULL)
            *packed = thrift_truth(thrift, &field);
        else
            thrift_skip(thrift, &field);
}

static void read_header(struct thrift *thrift, struct header *header)
{
    int64_t *const data[] = {&header->entries, &header->encoding, &header->definition_encoding,
                             &header->repetition_encoding};
    int64_t *const data_2[] = {&header->entries,         NULL, NULL, &header->encoding, &header->definition_bytes,
                               &header->repetition_bytes};
    int64_t *const outer[] = {&header->kind, &header->plain_bytes, &header->packed_bytes, &header->checksum};
    struct thrift_field field = {0};
    *header = (struct header){.kind = -1, .plain_bytes = -1, .packed_bytes = -1, .entries = -1, .packed = true};
    while (thrift_next(thrift, &field)) {
        header->checked |= field.number == 4;
        if (field.number >= 1 && field.number <= 4)
            *outer[field.number - 1] = thrift_integer(thrift, &field);
        else if (field.number == 5)
            read_integers(thrift, &field, data, 4, NULL);
        else if (field.number == 7)
            read_integers(thrift, &field, data, 2, NULL); /* a dictionary's header begins with the same two fields */
        else if (field.number == 8)
            read_integers(thrift, &field, data_2, 6, &header->packed);
        else
            thrift_skip(thrift, &field);
    }
}

/* Reads a page header, whose length is not known in advance: its statistics may contain whole strings. */
static int take_header(struct parquet_pages *pages, struct header *header)
{
    for (int64_t wanted = READ_BYTES;; wanted *= 2) {
        int code = fill(pages, wanted);
        if (code != ERROR_NONE)
            return code;
        if (pages->begin == pages->end)
            return parquet_pages_damaged(pages, "the column ends before its last entry");
        struct thrift thrift = {pages->raw + pages->begin, pages->raw + pages->end, false};
        read_header(&thrift, header);
        if (!thrift.bad) {
            pages->begin = thrift.at - pages->raw;
            return ERROR_NONE;
        }
        if (pages->left == 0 || wanted >= PARQUET_HEADER_BYTES)
            return parquet_pages_damaged(pages, "damaged header");
    }
}

static int check_header(const struct parquet_pages *pages, const struct header *header)
{
    if (header->plain_bytes < 0 || header->packed_bytes < 0)
        return parquet_pages_damaged(pages, "damaged header: negative or no sizes");
    if (header->plain_bytes > PARQUET_PAGE_BYTES || header->packed_bytes > PARQUET_PAGE_BYTES)
        return parquet_pages_damaged(pages, "larger than a page may be (1 GiB)");
    if (header->packed_bytes > pages->end - pages->begin + pages->left)
        return parquet_pages_damaged(pages, "truncated: larger than what is left of the column");
    return ERROR_NONE;
}

static int check_contents(const struct parquet_pages *pages, const struct header *header)
{
    if (header->entries < 0 || header->entries > PARQUET_PAGE_ENTRIES)
        return parquet_pages_damaged(pages, "damaged header: impossible number of entries");
    if (header->kind == PAGE_DATA && ((pages->column->definition > 0 && header->definition_encoding != PARQUET_RLE) ||
                                      (pages->column->repetition > 0 && header->repetition_encoding != PARQUET_RLE)))
        return parquet_pages_damaged(pages, "levels in the encoding BIT_PACKED, which is not supported");
    const int64_t most = MIN(header->packed_bytes, header->plain_bytes);
    if (header->definition_bytes < 0 || header->definition_bytes > most || header->repetition_bytes < 0 ||
        header->repetition_bytes > most - header->definition_bytes)
        return parquet_pages_damaged(pages, "damaged header: more bytes of levels than the page has");
    return ERROR_NONE;
}

/* Decompresses the page. Levels of version 2 come first and are not compressed. */
static int unpack(struct parquet_pages *pages, const struct header *header, struct parquet_bytes *plain)
{
    const uint8_t *packed = pages->raw + pages->begin;
    const int64_t levels = header->definition_bytes + header->repetition_bytes;
    pages->begin += header->packed_bytes;
    if (header->checked && (uint32_t)crc32(0, packed, (uInt)header->packed_bytes) != (uint32_t)header->checksum)
        return parquet_pages_damaged(pages, "its checksum is wrong: the file is damaged, fetch it again");
    if ((pages->codec == 0 || !header->packed) && header->packed_bytes == header->plain_bytes) {
        *plain = (struct parquet_bytes){packed, packed + header->plain_bytes};
        return ERROR_NONE;
    }
    if (header->plain_bytes >= pages->plain_capacity) {
        free(pages->plain);
        pages->plain_capacity = header->plain_bytes + 1; /* never empty, so that it has an address */
        pages->plain = memory_grow(NULL, pages->plain_capacity);
    }
    if (levels > 0)
        memcpy(pages->plain, packed, (size_t)levels);
    *plain = (struct parquet_bytes){pages->plain, pages->plain + header->plain_bytes};
    if (header->plain_bytes > levels &&
        !parquet_codec_unpack(header->packed ? pages->codec : 0, packed + levels, header->packed_bytes - levels,
                              pages->plain + levels, header->plain_bytes - levels))
        return parquet_pages_damaged(pages, "cannot be decompressed to the size that it announces");
    return ERROR_NONE;
}

/* Splits `count` bytes from the front of *bytes; returns false if there are fewer. */
static bool split_bytes(struct parquet_bytes *bytes, uint64_t count, struct parquet_bytes *front)
{
    if (count > (uint64_t)(bytes->end - bytes->at))
        return false;
    *front = (struct parquet_bytes){bytes->at, bytes->at + count};
    bytes->at += count;
    return true;
}

/* Splits off levels of version 1, which follow their number of bytes, if the column has them. */
static bool split_levels(struct parquet_bytes *bytes, int most, struct parquet_bytes *levels)
{
    struct parquet_bytes length;
    *levels = (struct parquet_bytes){bytes->at, bytes->at};
    if (most == 0)
        return true;
    if (!split_bytes(bytes, 4, &length))
        return false;
    const uint8_t *at = length.at;
    return split_bytes(bytes, (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24,
                       levels);
}

static int divide(const struct parquet_pages *pages, const struct header *header, struct parquet_bytes plain,
                  struct parquet_page *page)
{
    const struct parquet_column *column = pages->column;
    bool good = true;
    *page = (struct parquet_page){
        .dictionary = header->kind == PAGE_DICTIONARY, .entries = header->entries, .encoding = (int)header->encoding};
    if (header->kind == PAGE_DATA)
        good = split_levels(&plain, column->repetition, &page->repetition) &&
               split_levels(&plain, column->definition, &page->definition);
    else if (header->kind == PAGE_DATA_2)
        good = split_bytes(&plain, (uint64_t)header->repetition_bytes, &page->repetition) &&
               split_bytes(&plain, (uint64_t)header->definition_bytes, &page->definition);
    page->values = plain;
    return good ? ERROR_NONE : parquet_pages_damaged(pages, "its levels are longer than the page");
}

int parquet_pages_next(struct parquet_pages *pages, struct parquet_page *page)
{
    struct header header;
    struct parquet_bytes plain = {0};
    for (;;) {
        pages->page++;
        int code = take_header(pages, &header);
        if (code == ERROR_NONE)
            code = check_header(pages, &header);
        if (code == ERROR_NONE)
            code = fill(pages, header.packed_bytes);
        if (code != ERROR_NONE)
            return code;
        if (header.kind == PAGE_DATA || header.kind == PAGE_DATA_2 || header.kind == PAGE_DICTIONARY)
            break;
        pages->begin += header.packed_bytes; /* skip an index page, or a type of a later version of the format */
    }
    int code = check_contents(pages, &header);
    if (code == ERROR_NONE)
        code = unpack(pages, &header, &plain);
    return code == ERROR_NONE ? divide(pages, &header, plain, page) : code;
}
