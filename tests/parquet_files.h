/* Makes valid and invalid Parquet files byte by byte: one row group, with one column of strings, "text". */
#ifndef TESTS_PARQUET_FILES_H
#define TESTS_PARQUET_FILES_H

#include "base/error.h"

#include <stdint.h>
#include <string.h>

enum { PARQUET_CAPACITY = 1 << 19 };

struct parquet_out {
    uint8_t data[PARQUET_CAPACITY];
    size_t size;
};

/* A page's header; optional fields that are 0 are omitted. */
struct parquet_page_text {
    int64_t kind; /* 0: data, 2: a dictionary, 3: data of version 2 */
    int64_t plain, packed, entries, encoding;
    int64_t definition, repetition; /* bytes of levels, only in version 2 */
    int64_t checksum;
};

struct parquet_file_text {
    int64_t codec, entries, rows;
    int64_t required;     /* 0: required, 1: optional, 2: repeated */
    int64_t start, bytes; /* of the column; 0: the actual values */
    int64_t encrypted;
};

static inline void parquet_put(struct parquet_out *out, const void *data, size_t size)
{
    if (size > PARQUET_CAPACITY - out->size)
        error_fatal("a Parquet file of a test is too large");
    if (size > 0)
        memcpy(out->data + out->size, data, size);
    out->size += size;
}

static inline void parquet_put_varint(struct parquet_out *out, uint64_t value)
{
    for (;; value >>= 7) {
        const uint8_t byte = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        parquet_put(out, &byte, 1);
        if (value <= 0x7f)
            return;
    }
}

/* Writes the head of a field whose number is `step` above that of the previous field. */
static inline void parquet_put_head(struct parquet_out *out, int step, int type)
{
    const uint8_t byte = (uint8_t)(step << 4 | type);
    parquet_put(out, &byte, 1);
}

static inline void parquet_put_integer(struct parquet_out *out, int step, int64_t value)
{
    parquet_put_head(out, step, 6);
    parquet_put_varint(out, (uint64_t)value << 1 ^ (uint64_t)(value >> 63));
}

static inline void parquet_put_text(struct parquet_out *out, int step, const char *text)
{
    parquet_put_head(out, step, 8);
    parquet_put_varint(out, strlen(text));
    parquet_put(out, text, strlen(text));
}

static inline void parquet_put_page(struct parquet_out *out, const struct parquet_page_text *page, const void *data)
{
    parquet_put_integer(out, 1, page->kind);
    parquet_put_integer(out, 1, page->plain);
    parquet_put_integer(out, 1, page->packed);
    if (page->checksum != 0)
        parquet_put_integer(out, 1, page->checksum);
    parquet_put_head(out, (page->kind == 0 ? 5 : page->kind == 2 ? 7 : 8) - (page->checksum != 0 ? 4 : 3), 12);
    parquet_put_integer(out, 1, page->entries);
    if (page->kind == 3) {
        parquet_put_integer(out, 1, 0);
        parquet_put_integer(out, 1, page->entries);
        parquet_put_integer(out, 1, page->encoding);
        parquet_put_integer(out, 1, page->definition);
        parquet_put_integer(out, 1, page->repetition);
    } else {
        parquet_put_integer(out, 1, page->encoding);
        parquet_put_integer(out, 1, 3);
        parquet_put_integer(out, 1, 3);
    }
    parquet_put(out, "\0", 2); /* end markers of two structs */
    if (data != NULL)
        parquet_put(out, data, (size_t)page->packed);
}

/* Writes a file: the column's bytes, then `footer`. */
static inline void parquet_put_file(struct parquet_out *out, const struct parquet_out *pages,
                                    const struct parquet_out *footer)
{
    const uint8_t length[4] = {(uint8_t)footer->size, (uint8_t)(footer->size >> 8), (uint8_t)(footer->size >> 16), 0};
    out->size = 0;
    parquet_put(out, "PAR1", 4);
    parquet_put(out, pages->data, pages->size);
    parquet_put(out, footer->data, footer->size);
    parquet_put(out, length, 4);
    parquet_put(out, "PAR1", 4);
}

static inline void parquet_put_footer(struct parquet_out *out, const struct parquet_file_text *file, size_t bytes)
{
    out->size = 0;
    parquet_put_integer(out, 1, 1);
    parquet_put_head(out, 1, 9); /* schema */
    parquet_put(out, "\x2c", 1); /* two structs */
    parquet_put_text(out, 4, "root");
    parquet_put_integer(out, 1, 1); /* children */
    parquet_put(out, "", 1);
    parquet_put_integer(out, 1, 6); /* strings */
    parquet_put_integer(out, 2, file->required);
    parquet_put_text(out, 1, "text");
    parquet_put(out, "", 1);
    parquet_put_integer(out, 1, file->rows);
    parquet_put_head(out, 1, 9); /* row groups: */
    parquet_put(out, "\x1c", 1); /* one struct */
    parquet_put_head(out, 1, 9); /* columns */
    parquet_put(out, "\x1c", 1);
    parquet_put_head(out, 3, 12);
    parquet_put_integer(out, 1, 6);
    parquet_put_integer(out, 3, file->codec);
    parquet_put_integer(out, 1, file->entries);
    parquet_put_integer(out, 2, file->bytes != 0 ? file->bytes : (int64_t)bytes);
    parquet_put_integer(out, 2, file->start != 0 ? file->start : 4);
    parquet_put(out, "", 1);
    if (file->encrypted)
        parquet_put_text(out, 5, "key");
    parquet_put(out, "", 1);
    parquet_put_integer(out, 2, file->rows);
    parquet_put(out, "\0", 2);
}

#endif
