/* Parquet files (records/parquet.h): whole files, footers in front of right pages, pages behind right footers, and the
 * encodings of strings by themselves. The first byte of an input says which. */
#include "base/error.h"
#include "fuzz/fuzz.h"
#include "parquet_files.h"
#include "records/parquet.h"
#include "records/parquet_values.h"
#include "records/source.h"

#include <lz4.h>
#include <snappy-c.h>
#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>

enum kind { KIND_FILE, KIND_FOOTER, KIND_PAGES, KIND_STRINGS, KINDS };
enum { MOST_RECORDS = 20000 /* a run of nulls may stand for millions */ };

const char *const fuzz_target_words[] = {"PAR1",
                                         "text",
                                         "\x15\x00",
                                         "\x1c",
                                         "\x4c",
                                         "\x80\x01\x04",
                                         "\xff\xff\xff\xff\x0f",
                                         "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
                                         NULL};

/* Two strings in each encoding: "abc", "abd". */
static const struct {
    int encoding;
    const char *bytes;
    size_t size;
} strings[] = {
    {PARQUET_PLAIN, "\3\0\0\0abc\3\0\0\0abd", 14},
    {PARQUET_DELTA_LENGTH, "\x80\1\4\2\6\0\0\0\0\0abcabd", 16},
    {PARQUET_DELTA, "\x80\1\4\2\0\4\0\0\0\0\x80\1\4\2\6\3\0\0\0\0abcd", 24},
    {PARQUET_RLE_DICTIONARY, "\1\3\2", 3},
};

/* 3 and 5, integers of 8 bytes, in the encodings that these alone have. */
static const struct {
    int encoding;
    const char *bytes;
    size_t size;
} integers[] = {
    {PARQUET_PLAIN, "\3\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0", 16},
    {PARQUET_DELTA_BINARY, "\x80\1\4\2\6\4\0\0\0\0", 10},
    {PARQUET_BYTE_STREAM_SPLIT, "\3\5\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16},
};
enum { INTEGERS = 16 /* what is added to an encoding in an input; 8 bytes, or with 32 added 4 */ };

static const struct parquet_file_text kinds_of_column[] = {
    {.entries = 2, .rows = 2}, {.entries = 3, .rows = 3, .required = 1}, {.entries = 3, .rows = 2, .required = 2}};

static void add_kind(void (*add)(const void *data, size_t size), enum kind kind, int choice, const void *data,
                     size_t size)
{
    static struct parquet_out input;
    const uint8_t head[2] = {(uint8_t)kind, (uint8_t)choice};
    input.size = 0;
    parquet_put(&input, head, kind == KIND_FILE || kind == KIND_FOOTER ? 1 : 2);
    parquet_put(&input, data, size);
    add(input.data, input.size);
}

/* A page of these values, compressed. */
static void put_packed(struct parquet_out *out, int codec, struct parquet_page_text page, const char *data)
{
    char packed[4096];
    size_t size = sizeof packed;
    uLongf zlib_size = sizeof packed;
    page.packed = page.plain;
    if (codec == 1 && snappy_compress(data, (size_t)page.plain, packed, &size) == SNAPPY_OK)
        page.packed = (int64_t)size;
    else if (codec == 2 && compress((Bytef *)packed, &zlib_size, (const Bytef *)data, (uLong)page.plain) == Z_OK)
        page.packed = (int64_t)zlib_size;
    else if (codec == 6)
        page.packed = (int64_t)ZSTD_compress(packed, sizeof packed, data, (size_t)page.plain, 3);
    else if (codec == 7)
        page.packed = LZ4_compress_default(data, packed, (int)page.plain, sizeof packed);
    parquet_put_page(out, &page, codec == 0 ? data : packed);
}

static void put_pages(struct parquet_out *pages, int codec, int which)
{
    /* levels of two strings and a null behind them, each kind with its length in front */
    static const char *const levels[] = {"", "\2\0\0\0\3\3", "\2\0\0\0\3\4\2\0\0\0\3\3"};
    static const size_t level_bytes[] = {0, 6, 12};
    for (int e = 3; e >= 0; e -= 3) { /* a dictionary and its indexes, and plain ones */
        struct parquet_out plain = {.size = 0};
        parquet_put(&plain, levels[which], level_bytes[which]);
        parquet_put(&plain, strings[e].bytes, strings[e].size);
        if (e == 3)
            put_packed(pages, codec, (struct parquet_page_text){.kind = 2, .plain = 14, .entries = 2},
                       strings[0].bytes);
        put_packed(pages, codec,
                   (struct parquet_page_text){.plain = (int64_t)plain.size,
                                              .entries = kinds_of_column[which].entries,
                                              .encoding = strings[e].encoding},
                   (const char *)plain.data);
    }
}

void fuzz_target_seeds(void (*add)(const void *data, size_t size))
{
    static const int codecs[] = {0, 1, 2, 6, 7};
    static struct parquet_out pages, footer, file;
    for (int which = 0; which < 3; which++)
        for (int c = 0; c < 5; c++) {
            struct parquet_file_text text = kinds_of_column[which];
            text.codec = codecs[c];
            text.entries *= 2;
            text.rows *= 2;
            pages.size = 0;
            put_pages(&pages, codecs[c], which);
            parquet_put_footer(&footer, &text, pages.size);
            parquet_put_file(&file, &pages, &footer);
            add_kind(add, KIND_FILE, 0, file.data, file.size);
            add_kind(add, KIND_FOOTER, 0, footer.data, footer.size);
            add_kind(add, KIND_PAGES, which * 8 + codecs[c], pages.data, pages.size);
        }
    for (int e = 0; e < 4; e++)
        add_kind(add, KIND_STRINGS, strings[e].encoding, strings[e].bytes, strings[e].size);
    for (int e = 0; e < 3; e++)
        for (int narrow = 0; narrow < 2; narrow++)
            add_kind(add, KIND_STRINGS, integers[e].encoding + INTEGERS + 32 * narrow, integers[e].bytes,
                     integers[e].size);
}

static void read_file(const struct parquet_out *file, enum record_content content)
{
    const char *path = fuzz_path("input.parquet");
    int64_t skipped = 0;
    const struct record_settings settings = {.field = "text", .content = content, .skipped = &skipped};
    struct record_piece piece = {.kind = RECORD_NAME};
    struct record_source *source;
    void *reader = NULL;
    int64_t records = 0;
    bool named = false;
    fuzz_write(path, file->data, file->size);
    error_clear();
    int code = source_open(&source, path);
    if (code == ERROR_NONE)
        code = parquet_class.create(&reader, source, &settings);
    while (code == ERROR_NONE && piece.kind != RECORD_END && records < MOST_RECORDS) {
        code = parquet_class.next(reader, &piece);
        if (code != ERROR_NONE || piece.kind == RECORD_END)
            break;
        FUZZ_CHECK(piece.kind == RECORD_NAME ? piece.length > 0 : named && piece.length > 0);
        for (int64_t i = 0; i < piece.length; i++)
            FUZZ_CHECK((unsigned char)piece.text[i] > ' ' || (piece.kind != RECORD_NAME && content == RECORD_BYTES));
        named = true;
        records += piece.kind == RECORD_NAME;
    }
    FUZZ_CHECK(code == ERROR_NONE || (code == ERROR_USER && error_message()[0] != '\0'));
    fuzz_accepted += code == ERROR_NONE;
    parquet_class.destroy(reader);
    source_close(source);
}

static void read_strings(int encoding, const uint8_t *data, size_t size)
{
    static const struct parquet_string dictionary[] = {{(const uint8_t *)"abc", 3}, {(const uint8_t *)"", 0}};
    struct parquet_strings reader = {.dictionary = dictionary, .entries = 2};
    if (encoding & INTEGERS)
        reader.width = encoding & 32 ? 4 : 8;
    encoding &= INTEGERS - 1;
    struct parquet_string string;
    int64_t count = 0;
    volatile unsigned sum = 0;
    const bool integer = encoding == PARQUET_DELTA_BINARY || encoding == PARQUET_BYTE_STREAM_SPLIT;
    const bool text = encoding == PARQUET_DELTA || encoding == PARQUET_DELTA_LENGTH;
    if (reader.width > 0 ? !integer && encoding != PARQUET_PLAIN : !text && encoding != PARQUET_PLAIN)
        encoding = PARQUET_RLE_DICTIONARY;
    if (parquet_strings_start(&reader, (enum parquet_encoding)encoding, (struct parquet_bytes){data, data + size},
                              1000000))
        for (; count < MOST_RECORDS && parquet_strings_next(&reader, &string); count++) {
            FUZZ_CHECK(string.length >= 0);
            if (string.length > 0)
                sum += string.text[0] + (unsigned)string.text[string.length - 1];
        }
    fuzz_accepted += count > 1;
    free(reader.last);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct parquet_out file, part, pages;
    if (size < 2 || size > PARQUET_CAPACITY / 2)
        return 0;
    const enum kind kind = (enum kind)(data[0] % KINDS);
    const int choice = data[1];
    file.size = part.size = pages.size = 0;
    if (kind == KIND_STRINGS) {
        read_strings(choice, data + 2, size - 2);
        return 0;
    }
    if (kind == KIND_FILE) {
        parquet_put(&file, data + 1, size - 1);
    } else if (kind == KIND_FOOTER) {
        put_pages(&pages, 0, 0);
        parquet_put(&part, data + 1, size - 1);
        parquet_put_file(&file, &pages, &part);
    } else {
        struct parquet_file_text text = kinds_of_column[choice / 8 % 3];
        text.codec = choice % 8;
        text.entries *= 2;
        text.rows *= 2;
        parquet_put(&pages, data + 2, size - 2);
        parquet_put_footer(&part, &text, pages.size);
        parquet_put_file(&file, &pages, &part);
    }
    read_file(&file, RECORD_BYTES);
    read_file(&file, RECORD_CHARACTERS);
    return 0;
}
