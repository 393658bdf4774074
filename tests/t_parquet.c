/* Parquet files made byte by byte are read, with codecs and pages that pyarrow does not write. Each kind of damage is
 * reported with file, column, row group and page; every truncated file is refused. t_parquet_files.sh compares with
 * pyarrow. */
#include "data_files.h"
#include "parquet_files.h"
#include "records.h"

#include <lz4.h>
#include <snappy-c.h>
#include <zlib.h>
#include <zstd.h>

static struct parquet_out pages, footer, file;
static const char *path;

static int read_file(char *text, size_t capacity)
{
    const struct record_settings settings = {0};
    write_file(path, "wb", file.data, file.size);
    return records_read(&settings, path, text, capacity);
}

/* The file of what was put into `pages`. */
static int read_pages(const struct parquet_file_text *text, char *got, size_t capacity)
{
    parquet_put_footer(&footer, text, pages.size);
    parquet_put_file(&file, &pages, &footer);
    return read_file(got, capacity);
}

static void put(struct parquet_page_text page, const void *data)
{
    parquet_put_page(&pages, &page, data);
}

static const char two[] = "\3\0\0\0abc\3\0\0\0a d"; /* with a blank, which is dropped */
enum { TWO = 14 };

static void test_good(void)
{
    static const struct parquet_file_text plain = {.entries = 2, .rows = 2};
    char got[256], packed[64] = "\0\0\0\7\0\0\0\10", at[64];
    pages.size = 0;
    put((struct parquet_page_text){.kind = 1, .plain = 5, .packed = 5}, "index");
    put((struct parquet_page_text){.kind = 9, .plain = 3, .packed = 3}, "new");
    put(
        (struct parquet_page_text){
            .plain = TWO, .packed = TWO, .entries = 2, .checksum = (int32_t)crc32(0, (const Bytef *)two, TWO)},
        two);
    CHECK(read_pages(&plain, got, sizeof got) == ERROR_NONE);
    CHECK_STRING(got, ">1 abc>2 ad");

    /* two blocks of LZ4 as Hadoop frames them, and one without a frame */
    pages.size = 0;
    int bytes = 0;
    for (int half = 0; half < 2; half++) {
        int count = LZ4_compress_default(two + 7 * half, at, 7, sizeof at);
        memcpy(packed + bytes, (char[8]){0, 0, 0, 7, 0, 0, 0, (char)count}, 8);
        memcpy(packed + bytes + 8, at, (size_t)count);
        bytes += 8 + count;
    }
    put((struct parquet_page_text){.plain = TWO, .packed = bytes, .entries = 2}, packed);
    bytes = LZ4_compress_default(two, packed, TWO, sizeof packed);
    put((struct parquet_page_text){.plain = TWO, .packed = bytes, .entries = 2}, packed);
    CHECK(read_pages(&(struct parquet_file_text){.codec = 5, .entries = 4, .rows = 4}, got, sizeof got) == ERROR_NONE);
    CHECK_STRING(got, ">1 abc>2 ad>3 abc>4 ad");

    /* one of many members of gzip, levels of a page of version 2 before them */
    pages.size = 0;
    memcpy(packed, "\3\3", 2); /* a pack of eight: 1 1 0 0 ... */
    bytes = 2;
    for (int half = 0; half < 2; half++) {
        uLongf count = sizeof at;
        CHECK(compress((Bytef *)at, &count, (const Bytef *)two + 7 * half, 7) == Z_OK);
        memcpy(packed + bytes, at, count);
        bytes += (int)count;
    }
    put((struct parquet_page_text){.kind = 3, .plain = TWO + 2, .packed = bytes, .entries = 3, .definition = 2},
        packed);
    static const struct parquet_file_text optional = {.codec = 2, .entries = 3, .rows = 3, .required = 1};
    CHECK_USER(read_pages(&optional, got, sizeof got), "a.parquet: row 3: column \"text\" is null; --skip-bad");
    int64_t skipped = 0;
    const struct record_settings skips = {.skipped = &skipped};
    CHECK(records_read(&skips, path, got, sizeof got) == ERROR_NONE && skipped == 1);
    CHECK_STRING(got, ">1 abc>2 ad");
}

/* A page of two strings that is wrong in one way. */
static void test_pages(void)
{
    static char zeros[1 << 16], packed[1 << 10];
    const int64_t bomb = (int64_t)ZSTD_compress(packed, sizeof packed, zeros, sizeof zeros, 3);
    static const char index[] = "\1\3\6" /* 0 1 1 */, two_rows[] = "\2\0\0\0\3\2\2\0\0\0\3\3";
    const struct {
        struct parquet_page_text page;
        const void *data;
        struct parquet_file_text file;
        const char *words;
    } mistakes[] = {
        {{.plain = -1, .packed = TWO, .entries = 2}, two, {0}, "page 1: damaged header: negative or no sizes"},
        {{.plain = 1ll << 31, .packed = TWO, .entries = 2}, two, {0}, "page 1: larger than a page may be"},
        {{.plain = TWO, .packed = 1 << 20, .entries = 2}, NULL, {0}, "page 1: truncated: larger than what is left"},
        {{.plain = TWO + 1, .packed = TWO, .entries = 2}, two, {0}, "page 1: cannot be decompressed to the size"},
        {{.plain = 1000, .packed = bomb, .entries = 2}, packed, {.codec = 6}, "cannot be decompressed to the size"},
        {{.plain = 1 << 17, .packed = bomb, .entries = 2}, packed, {.codec = 6}, "cannot be decompressed to the size"},
        {{.plain = 90, .packed = TWO, .entries = 2}, two, {.codec = 1}, "cannot be decompressed to the size"},
        {{.plain = 90, .packed = TWO, .entries = 2}, two, {.codec = 2}, "cannot be decompressed to the size"},
        {{.plain = 90, .packed = TWO, .entries = 2}, two, {.codec = 5}, "cannot be decompressed to the size"},
        {{.plain = 90, .packed = TWO, .entries = 2}, two, {.codec = 7}, "cannot be decompressed to the size"},
        {{.plain = TWO, .packed = TWO, .entries = 2, .checksum = 7}, two, {0}, "page 1: its checksum is wrong"},
        {{.plain = TWO, .packed = TWO, .entries = -2}, two, {0}, "page 1: damaged header: impossible number"},
        {{.plain = TWO, .packed = TWO, .entries = 9}, two, {0}, "page 1: more entries than the column has"},
        {{.plain = TWO, .packed = TWO, .entries = 1}, two, {0}, "page 2: the column ends before its last entry"},
        {{.plain = TWO - 1, .packed = TWO - 1, .entries = 2}, two, {0}, "page 1: its strings end early"},
        {{.plain = 4, .packed = 4, .entries = 2}, "\xff\xff\xff\xff", {0}, "page 1: its strings end early"},
        {{.plain = 3, .packed = 3, .entries = 2, .encoding = 8}, index, {0}, "page 1: its dictionary is missing"},
        {{.plain = TWO, .packed = TWO, .entries = 2, .encoding = 5}, two, {0}, "an encoding that is not supported"},
        {{.plain = TWO, .packed = TWO, .entries = 2, .encoding = 7}, two, {0}, "do not begin as their encoding does"},
        {{.plain = 7, .packed = 7, .entries = 2},
         "\7\0\0\0abc",
         {.required = 1},
         "its levels are longer than the page"},
        {{.plain = TWO, .packed = TWO, .entries = 2}, two, {.rows = 3}, "row group 1: its rows are not the 3"},
        {{.plain = TWO, .packed = TWO, .entries = 2}, two, {.rows = 1}, "row group 1: its rows are not the 1"},
        {{.plain = 12, .packed = 12, .entries = 2}, two_rows, {.required = 2}, "its strings end early"},
        {{.kind = 2, .plain = TWO, .packed = TWO, .entries = 1 << 20}, two, {0}, "more strings in a dictionary than"},
        {{.kind = 2, .plain = 4, .packed = 4, .entries = 1}, "\5\0\0\0", {0}, "a string of the dictionary is longer"},
        {{.kind = 3, .plain = TWO, .packed = TWO, .entries = 2, .definition = 10, .repetition = 10},
         two,
         {0},
         "more bytes of levels than the page has"},
        {{.plain = TWO, .packed = TWO, .entries = 2}, two, {.codec = 4}, "a codec that is not supported: BROTLI"},
        {{.plain = TWO, .packed = TWO, .entries = 2}, two, {.start = 1 << 20}, "outside the file's data"},
        {{.plain = TWO, .packed = TWO, .entries = 2}, two, {.bytes = INT64_MAX}, "outside the file's data"},
        {{.plain = TWO, .packed = TWO, .entries = 2}, two, {.bytes = -5}, "outside the file's data"},
        {{.plain = TWO, .packed = TWO, .entries = 2}, two, {.encrypted = 1}, "column \"text\" is encrypted"},
        {{.plain = 9, .packed = 9, .entries = 2},
         "\1\0\0\0\7\0\0\0\0",
         {0},
         "row 1: column \"text\" contains byte 0x07"},
    };
    char got[256];
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        struct parquet_file_text text = mistakes[i].file;
        pages.size = 0;
        put(mistakes[i].page, mistakes[i].data);
        text.entries = 2;
        text.rows = text.rows != 0 ? text.rows : 2;
        CHECK_USER(read_pages(&text, got, sizeof got), mistakes[i].words);
    }
    /* what is whole, but shorter than it announces */
    for (int codec = 1; codec < 8; codec++) {
        size_t size = sizeof packed;
        uLongf zlib_size = sizeof packed;
        if (codec == 1)
            CHECK(snappy_compress(two, TWO, packed, &size) == SNAPPY_OK);
        else if (codec == 2)
            CHECK(compress((Bytef *)packed, &zlib_size, (const Bytef *)two, TWO) == Z_OK);
        else if (codec == 5 || codec == 7)
            size = (size_t)LZ4_compress_default(two, packed, TWO, sizeof packed);
        else
            continue;
        pages.size = 0;
        put((struct parquet_page_text){.plain = TWO + 6,
                                       .packed = (int64_t)(codec == 2 ? zlib_size : size),
                                       .entries = 2},
            packed);
        CHECK_USER(read_pages(&(struct parquet_file_text){.codec = codec, .entries = 2, .rows = 2}, got, sizeof got),
                   "cannot be decompressed to the size");
    }
    /* an index beyond the dictionary */
    pages.size = 0;
    put((struct parquet_page_text){.kind = 2, .plain = 7, .packed = 7, .entries = 1}, two);
    put((struct parquet_page_text){.plain = 3, .packed = 3, .entries = 2, .encoding = 8}, index);
    CHECK_USER(read_pages(&(struct parquet_file_text){.entries = 2, .rows = 2}, got, sizeof got),
               "column \"text\", row group 1, page 2: its strings end early or are impossible");
}

/* Every front of a file, and a file whose length of the footer is any. */
static void test_cut(void)
{
    static struct parquet_out whole;
    char got[256];
    pages.size = 0;
    put((struct parquet_page_text){.plain = TWO, .packed = TWO, .entries = 2}, two);
    CHECK(read_pages(&(struct parquet_file_text){.entries = 2, .rows = 2}, got, sizeof got) == ERROR_NONE);
    whole = file;
    int accepted = 0;
    for (file.size = 0; file.size < whole.size; file.size++) {
        accepted += read_file(got, sizeof got) != ERROR_USER;
        error_clear();
    }
    CHECK(accepted == 0);
    const uint8_t right = whole.data[whole.size - 8];
    for (int length = 0; length < 1 << 10; length++) {
        file = whole;
        file.data[file.size - 8] = (uint8_t)length;
        file.data[file.size - 7] = (uint8_t)(length >> 8);
        accepted += length != right && read_file(got, sizeof got) != ERROR_USER;
        error_clear();
    }
    CHECK(accepted == 0);
    file = whole;
    memcpy(file.data, "PAR2", 4);
    CHECK_USER(read_file(got, sizeof got), "a.parquet: is not a Parquet file: it does not begin with PAR1");
    file = whole;
    memset(file.data + file.size - 5, 0x7f, 1);
    CHECK_USER(read_file(got, sizeof got), "its Parquet footer is damaged: it would be empty, or longer than the file");
    file = whole;
    file.size--;
    CHECK_USER(read_file(got, sizeof got), "does not end with PAR1");
}

int main(void)
{
    stores_begin();
    path = stores_path("a.parquet");
    test_good();
    test_pages();
    test_cut();
    stores_end();
    return check_end();
}
