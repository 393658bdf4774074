/* What `cistron prepare` reads: FASTA, FASTQ, GenBank, EMBL, 2bit, JSON lines and arrays, CSV and plain text; plain,
 * gzip and zstd. */
#include "base/error.h"
#include "records/record_reader.h"
#include "records/source.h"
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

const char *const fuzz_target_words[] = {">",
                                         "\n>",
                                         "\r\n",
                                         "\n\n",
                                         ">a b\n",
                                         "ACGTN",
                                         "\x1f\x8b\x08",
                                         "\x28\xb5\x2f\xfd",
                                         "\x50\x2a\x4d\x18",
                                         "{\"text\":",
                                         "\"ACGT\"",
                                         "\\n",
                                         "\\u0041",
                                         "\\ud800",
                                         "[[[[[[[[",
                                         "}\n",
                                         "},\n{",
                                         "[{",
                                         "}]",
                                         "\"id\":-1e9",
                                         "NaN",
                                         "\xef\xbb\xbf",
                                         "text,id\n",
                                         "\"\"",
                                         "\",\r\n",
                                         "@read\n",
                                         "\n+\n",
                                         "LOCUS       ",
                                         "     CDS             ",
                                         "complement(",
                                         "join(1..2,",
                                         "\n//\n",
                                         "\nORIGIN\n",
                                         "\nSQ   \n",
                                         "ID   A;",
                                         "\x43\x27\x41\x1a",
                                         NULL};

static const char lines[] =
    "{\"text\": \"ACGTNNNNacgt\", \"record\": \"chr1 a name\"}\n\n  {\"id\": 3, \"text\": \"AC\\nGT\"}\r\n"
    "{\"text\": \"\", \"id\": \"empty\", \"more\": [1e5, {\"a\": null}, true]}\n{\"text\":\"\\u0041C\"}";
static const char array[] =
    "[{\"text\": \"AC\\\"GT\", \"id\": 0}, {\"n\": [1e999, -Infinity], \"text\": \"C\"}\n,\n{\"text\": \"\"} ]\n";
static const char table[] = "\xef\xbb\xbfid,text,n\r\n0,\"AC\r\nGT\",\"a \"\"b\"\"\"\r\n\r\n17,C,\n,\"\",3";
static const char text[] = ">chr1 a name and more\nACGTNNNNacgt\nRYKM\r\n\r\n>empty\n>chr2\nAC GT\tAC\n";

static const char reads[] = "@read1 and more\nACGTN\n+\nIII!~\n\n@read2\r\nAC\r\n+read2\r\n#I\r\n";
static const char genbank[] =
    "LOCUS       A   12 bp\nACCESSION   A1\nVERSION     A1.2\nFEATURES             Location/Qualifiers\n"
    "     CDS             complement(join(1..3,\n                     5..12))\n                     /note=\"x\"\n"
    "     gene            <1..>4\nORIGIN\n        1 acgtacgtnn ac\n//\nLOCUS       B\n//\n";
static const char embl[] = "ID   X1; SV 1;\nAC   X1; X2;\nFT   CDS             2..4\nSQ   Sequence 5 BP;\n"
                           "     acgta                                                                    5\n//\n";
/* One sequence of 6 letters with a block of N and a masked one. */
static const char twobit[] = "\x43\x27\x41\x1a\0\0\0\0\1\0\0\0\0\0\0\0\1a\x16\0\0\0\6\0\0\0\1\0\0\0\1\0\0\0\2\0\0\0"
                             "\1\0\0\0\4\0\0\0\2\0\0\0\0\0\0\0\x1b\x90";

enum { LONG_LINE = 3 << 20, CAPACITY = 64 << 10 };

static void add_gzip(void (*add)(const void *data, size_t size), const void *data, size_t size)
{
    static Bytef out[CAPACITY];
    z_stream z = {.next_in = (Bytef *)data, .avail_in = (uInt)size, .next_out = out, .avail_out = sizeof out};
    if (deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK ||
        deflate(&z, Z_FINISH) != Z_STREAM_END)
        error_fatal("zlib cannot compress");
    deflateEnd(&z);
    add(out, z.total_out);
}

static void add_zstd(void (*add)(const void *data, size_t size), const void *data, size_t size)
{
    static char out[CAPACITY];
    size_t count = ZSTD_compress(out, sizeof out, data, size, 3);
    if (ZSTD_isError(count))
        error_fatal("zstd cannot compress");
    add(out, count);
}

void fuzz_target_seeds(void (*add)(const void *data, size_t size))
{
    add(text, sizeof text - 1);
    add("ACGT\n", 5);
    add(">only a header", 14);
    add_gzip(add, text, sizeof text - 1);
    add_zstd(add, text, sizeof text - 1);
    add(lines, sizeof lines - 1);
    add_zstd(add, lines, sizeof lines - 1);
    add(array, sizeof array - 1);
    add_gzip(add, table, sizeof table - 1);
    add(table, sizeof table - 1);
    add("{\"sequence\": \"ACGT\"}\n", 22);
    add(reads, sizeof reads - 1);
    add_gzip(add, reads, sizeof reads - 1);
    add(genbank, sizeof genbank - 1);
    add(embl, sizeof embl - 1);
    add(twobit, sizeof twobit - 1);
    char *line = malloc(LONG_LINE); /* longer than the reader's buffer */
    memset(line, 'A', LONG_LINE);
    memcpy(line, ">long\n", 6);
    add_gzip(add, line, LONG_LINE);
    line[5] = 'g'; /* the header itself */
    add_zstd(add, line, LONG_LINE);
    free(line);
}

static int read_records(struct record_source *source, const struct record_settings *settings, int64_t size)
{
    struct record_reader *reader;
    struct record_piece piece = {.kind = RECORD_NAME};
    bool record = false;
    int code = record_reader_create(&reader, source, settings);
    while (code == ERROR_NONE && (code = record_reader_next(reader, &piece)) == ERROR_NONE &&
           piece.kind != RECORD_END) {
        FUZZ_CHECK(piece.kind == RECORD_NAME || (record && piece.length > 0));
        record = true;
        for (int64_t i = 0; i < piece.length && (piece.kind == RECORD_NAME || settings->content != RECORD_BYTES); i++)
            FUZZ_CHECK((unsigned char)piece.text[i] > ' ' && (piece.kind == RECORD_NAME || piece.text[i] > ' '));
    }
    FUZZ_CHECK(code != ERROR_NONE || (record && source_raw_bytes(source) == size));
    record_reader_destroy(reader);
    return code;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int64_t skipped;
    static const struct record_settings ways[] = {{.field = "text"},
                                                  {.feature = "CDS", .min_quality = 20},
                                                  {.content = RECORD_BYTES},
                                                  {.format = "text", .content = RECORD_BYTES},
                                                  {.format = "lines"},
                                                  {.format = "json", .field = "text", .skipped = &skipped},
                                                  {.format = "csv", .field = "text", .content = RECORD_BYTES},
                                                  {.format = "tsv", .skipped = &skipped}};
    const char *path = fuzz_path("input");
    fuzz_write(path, data, size);
    for (int way = 0; way < 8; way++) {
        struct record_source *source;
        error_clear();
        int code = source_open(&source, path);
        if (code == ERROR_NONE) {
            code = read_records(source, &ways[way], (int64_t)size);
            source_close(source);
        }
        FUZZ_CHECK(code == ERROR_NONE || (code == ERROR_USER && error_message()[0] != '\0'));
        fuzz_accepted += way == 0 && code == ERROR_NONE;
    }
    return 0;
}
