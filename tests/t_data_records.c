/* From text to tokens: tokenizers, and records of FASTA, JSON lines and plain text. */
#include "prepare/record_reader.h"
#include "prepare/source.h"
#include "tokenizer/tokenizer.h"
#include "data_files.h"
#include "records.h"

#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

static void test_tokenizer(void)
{
    const struct tokenizer *tokenizer = tokenizer_find("nucleotide");
    CHECK(tokenizer != NULL && tokenizer_find("nothing") == NULL);
    CHECK(tokenizer->vocabulary == 256);
    CHECK(tokenizer->eos == 0 && tokenizer->pad == 1 && tokenizer->bos == 2 && tokenizer->unk == 3);
    static const uint8_t golden[] = {65, 67, 71, 84, 78, 82, 89, 97, 99, 103, 116, 64, 35};
    uint8_t ids[256];
    tokenizer->encode_characters("ACGTNRYacgt@#", sizeof golden, ids);
    CHECK(memcmp(ids, golden, sizeof golden) == 0);
    char all[256];
    for (int i = 0; i < 256; i++)
        all[i] = (char)i;
    tokenizer->encode_characters(all, 256, ids);
    int wrong = 0;
    for (int i = 0; i < 256; i++)
        wrong += ids[i] != (i < 4 ? 3 : i);
    CHECK(wrong == 0);
    struct encoder *encoder = encoder_open(tokenizer);
    const int32_t *wide;
    int64_t wides;
    CHECK(encoder_encode(encoder, all, 256, false, &wide, &wides) == ERROR_NONE && wides == 256);
    for (int i = 0; i < 256; i++) {
        int64_t count;
        const char *text = tokenizer_decode(tokenizer, i, &count);
        wrong += wide[i] != ids[i] || count != (i >= 4) || (count == 1 && *text != all[i]);
    }
    CHECK(wrong == 0);
    encoder_close(encoder);
    static const char bases[] = "ACGTacgt";
    for (int id = 0; id < 256; id++) {
        const char *at = id == 0 ? NULL : strchr(bases, id);
        CHECK(tokenizer_base(id) == (at == NULL ? -1 : (int)(at - bases) % 4));
        CHECK(tokenizer_is_special(tokenizer, id) == (id < 4));
    }
    char buffer[TOKENIZER_TEXT];
    CHECK_STRING(tokenizer_token(tokenizer, 2, buffer), "<BOS>");
    CHECK_STRING(tokenizer_token(tokenizer, 'N', buffer), "N");
    CHECK_STRING(tokenizer_token(tokenizer, 0xe9, buffer), "\xc3\xa9");
}

/* The published vocabularies: a token of one character is that character's id, and every other character is unk.
 * tests/interop/esm2_tokens.py holds what prepare writes against transformers. */
static void test_protein_tokenizer(const char *name, const char *const *texts, int count, int32_t unk, int32_t bos,
                                   int32_t eos, int32_t pad, int32_t mask)
{
    const struct tokenizer *tokenizer = tokenizer_find(name);
    CHECK(tokenizer != NULL && tokenizer->vocabulary == count && !tokenizer->bases);
    CHECK(tokenizer->unk == unk && tokenizer->bos == bos && tokenizer->eos == eos);
    CHECK(tokenizer->pad == pad && tokenizer->mask == mask);
    char all[256], buffer[TOKENIZER_TEXT];
    uint8_t ids[256];
    int wrong = 0, specials = 0;
    for (int c = 0; c < 256; c++)
        all[c] = (char)c;
    tokenizer->encode_characters(all, 256, ids);
    for (int c = 0; c < 256; c++) {
        int32_t wanted = unk;
        for (int id = 0; id < count; id++)
            if (texts[id][0] == (char)c && texts[id][1] == '\0')
                wanted = id;
        wrong += ids[c] != wanted;
    }
    CHECK(wrong == 0);
    for (int id = 0; id < count; id++) {
        CHECK_STRING(tokenizer_token(tokenizer, id, buffer), texts[id]);
        specials += tokenizer_is_special(tokenizer, id);
        int64_t bytes;
        const char *text = tokenizer_decode(tokenizer, id, &bytes);
        CHECK(bytes == (texts[id][1] == '\0') && (bytes == 0 || *text == *texts[id]));
    }
    CHECK(specials == 5);
}

static void test_protein_tokenizers(void)
{
    static const char *const esm2[33] = {
        "<cls>", "<pad>", "<eos>", "<unk>", "L", "A", "G", "V", "S", "E", "R", "T", "I", "D", "P",        "K",     "Q",
        "N",     "F",     "Y",     "M",     "H", "W", "C", "X", "B", "U", "Z", "O", ".", "-", "<null_1>", "<mask>"};
    static const char *const amplify[27] = {"<pad>", "<unk>", "<mask>", "<bos>", "<eos>", "|", "L", "A", "G",
                                            "V",     "S",     "E",      "R",     "T",     "I", "D", "P", "K",
                                            "Q",     "N",     "F",      "Y",     "M",     "H", "W", "C", "B"};
    test_protein_tokenizer("esm2", esm2, 33, 3, 0, 2, 1, 32);
    test_protein_tokenizer("amplify", amplify, 27, 1, 3, 4, 0, 2);
    /* transformers' EsmTokenizer, character by character */
    static const uint8_t golden[] = {20, 15, 4, 7, 27, 28, 3, 24, 25, 26, 3, 29, 30, 3};
    uint8_t ids[sizeof golden];
    tokenizer_find("esm2")->encode_characters("MKLVZOJXBU*.-a", sizeof golden, ids);
    CHECK(memcmp(ids, golden, sizeof golden) == 0);
}

static const struct record_settings characters = {.field = "text"};

static int read_all(const char *path, char *text, size_t room)
{
    return records_read(&characters, path, text, room);
}

static void test_fasta(void)
{
    static const char text[] = ">one first record\r\nACGT\r\n\r\nacgtNN\r\n>two\n\n>three\tx\nAC GT\nTT";
    static const char wanted[] = ">one ACGTacgtNN>two >three ACGTTT";
    char got[256];
    const char *plain = stores_path("a.fa"), *packed = stores_path("a.fa.gz"), *framed = stores_path("a.fa.zst");
    write_file(plain, "wb", text, strlen(text));
    CHECK(read_all(plain, got, sizeof got) == ERROR_NONE);
    CHECK_STRING(got, wanted);

    /* members and frames may end anywhere, here in the middle of a line; an empty member as BGZF ends with */
    size_t half = 35;
    for (int part = 0; part < 3; part++) {
        const char *from = part == 0 ? text : text + half;
        size_t bytes = part == 0 ? half : part == 1 ? strlen(text) - half : 0;
        gzFile member = gzopen(packed, part == 0 ? "wb" : "ab");
        gzwrite(member, from, (unsigned)bytes);
        gzclose(member);
        char frame[256];
        size_t size = ZSTD_compress(frame, sizeof frame, from, bytes, 3);
        write_file(framed, part == 0 ? "wb" : "ab", frame, size);
    }
    CHECK(read_all(packed, got, sizeof got) == ERROR_NONE);
    CHECK_STRING(got, wanted);
    CHECK(read_all(framed, got, sizeof got) == ERROR_NONE);
    CHECK_STRING(got, wanted);

    struct stat status;
    stat(framed, &status);
    CHECK(truncate(framed, status.st_size - 14) == 0); /* the empty frame and a little of the one before */
    CHECK_USER(read_all(framed, got, sizeof got), "truncated");
    stat(packed, &status);
    CHECK(truncate(packed, status.st_size - 5) == 0);
    CHECK_USER(read_all(packed, got, sizeof got), "truncated");
    write_file(packed, "ab", "garbage behind it", 17);
    CHECK_USER(read_all(packed, got, sizeof got), "a.fa.gz");

    write_file(plain, "wb", "ACGT\n", 5);
    CHECK_USER(read_all(plain, got, sizeof got), "a.fa:1: not FASTA");
    write_file(plain, "wb", ">x\nAC\nACG>y\nACGT\n", 17);
    CHECK_USER(read_all(plain, got, sizeof got), "a.fa:3: '>' within a line of sequence");
    write_file(plain, "wb", ">x\nAC\nA\0C\n", 10);
    CHECK_USER(read_all(plain, got, sizeof got), "a.fa:3: byte 0x00");
    write_file(plain, "wb", ">x\nAC\nA\x89G\n", 10);
    CHECK_USER(read_all(plain, got, sizeof got), "a.fa:3: byte 0x89");
    write_file(plain, "wb", "\n\n", 2);
    CHECK_USER(read_all(plain, got, sizeof got), "no FASTA record");
    CHECK_USER(read_all(stores_path("absent.fa"), got, sizeof got), "absent.fa: cannot open");
    CHECK_USER(read_all(stores_folder, got, sizeof got), "is a folder");
}

static int read_text(const char *path, const char *text, char *got, size_t room)
{
    write_file(path, "wb", text, strlen(text));
    return read_all(path, got, room);
}

static void test_jsonl(void)
{
    char got[256];
    const char *path = stores_path("a.jsonl"), *plain = stores_path("a.txt");
    /* names in both members and none, blanks, escapes, CRLF, blank lines, an empty sequence, no newline at the end */
    static const char text[] = "{\"text\": \"ACGT\", \"record\": \"one first\", \"id\": \"x\", \"n\": [1, {}]}\r\n"
                               "\n  \t\r\n"
                               "{\"id\": \"two\", \"text\": \"ac\\u0067t\\nN N\"}\n"
                               "{\"text\": \"\"}\n"
                               "{\"record\": 7, \"text\": \"TT\"}";
    static const char wanted[] = ">one ACGT>two acgtNN>5 >6 TT";
    CHECK(read_text(path, text, got, sizeof got) == ERROR_NONE);
    CHECK_STRING(got, wanted);
    CHECK(read_text(plain, text, got, sizeof got) == ERROR_NONE); /* told by its first character */
    CHECK_STRING(got, wanted);
    char *late = memory_format("%*s%s", 3000, "\n", text);
    CHECK(read_text(plain, late, got, sizeof got) == ERROR_NONE);
    free(late);
    CHECK_STRING(got, ">one ACGT>two acgtNN>6 >7 TT");
    late = memory_format("%*s>x\nACGT\n", 6000, "\n"); /* more than is looked at */
    CHECK(read_text(plain, late, got, sizeof got) == ERROR_NONE);
    free(late);
    CHECK_STRING(got, ">x ACGT");
    gzFile packed = gzopen(stores_path("a.jsonl.gz"), "wb");
    gzwrite(packed, text, (unsigned)strlen(text));
    gzclose(packed);
    CHECK(read_all(stores_path("a.jsonl.gz"), got, sizeof got) == ERROR_NONE);
    CHECK_STRING(got, wanted);
    CHECK(read_text(plain, " \n>x\nACGT\n", got, sizeof got) == ERROR_NONE); /* FASTA, although blanks come first */
    CHECK_STRING(got, ">x ACGT");

    static const struct {
        const char *text, *words;
    } mistakes[] = {
        {"", "a.jsonl: holds no record"},
        {"\n \n", "a.jsonl: holds no record"},
        {">x\nACGT\n", "a.jsonl:1: no JSON"},
        {"{\"text\": \"A\"}\n{\"text\": \"C\"\n", "a.jsonl:2: no JSON"},
        {"{\"text\": \"A\"}\n\n{\"text\": \"C\"} x\n", "a.jsonl:3: no JSON"},
        {"{\"text\": \"A\"}{\"text\": \"A\"}\n", "a.jsonl:1: no JSON"},
        {"{\"text\": \"A\nC\"}\n", "a.jsonl:1: no JSON"},
        {"{\"text\": \"A\xff\"}\n", "a.jsonl:1: no JSON"},
        {"{\"text\": \"A\\u0000\"}\n", "a.jsonl:1: no JSON"},
        {"[\"ACGT\"]\n", "a.jsonl:1: is no JSON object"},
        {"{\"text\": \"A\"}\n{\"seq\": \"A\"}\n", "a.jsonl:2: has no field \"text\""},
        {"{\"text\": 5}\n", "a.jsonl:1: field \"text\" is no string"},
        {"{\"text\": null}\n", "a.jsonl:1: field \"text\" is no string"},
        {"{\"text\": \"AC\xc3\xa9\"}\n", "a.jsonl:1: field \"text\" holds byte 0xc3"},
        {"{\"text\": \"AC\\u0001\"}\n", "a.jsonl:1: field \"text\" holds byte 0x01"},
        {"{\"id\": \"a\\u0007b\", \"text\": \"A\"}\n", "a.jsonl:1: the record's name holds the control character 0x07"},
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++)
        CHECK_USER(read_text(path, mistakes[i].text, got, sizeof got), mistakes[i].words);
}

/* Where bytes are wanted they stay as they are, and a name tells more than a first character does. */
static void test_bytes(void)
{
    char got[256];
    const struct record_settings bytes = {.field = "a.text", .content = RECORD_BYTES};
    const struct record_settings text = {.format = "text"}, lines = {.format = "lines", .content = RECORD_BYTES};
    const char *plain = stores_path("a b.txt"), *other = stores_path("other");
    static const char odd[] = "> it said\r\n\n\xff{\xc3\xa9\t\n";
    write_file(plain, "wb", odd, strlen(odd));
    CHECK(records_read(&bytes, plain, got, sizeof got) == ERROR_NONE);
    CHECK_STRING(got, ">a_b.txt > it said\r\n\n\xff{\xc3\xa9\t\n");
    CHECK(records_read(&lines, plain, got, sizeof got) == ERROR_NONE);
    CHECK_STRING(got, ">1 > it said>2 >3 \xff{\xc3\xa9\t");
    write_file(other, "wb", "{\"a\": {\"text\": \"\\u00e9 \\n\\u0000z\"}}\n", 36);
    CHECK(records_read(&bytes, other, got, sizeof got) == ERROR_NONE);
    CHECK_STRING(got, ">1 \xc3\xa9 \n");
    write_file(other, "wb", "no record's first character", 27);
    CHECK(records_read(&bytes, other, got, sizeof got) == ERROR_NONE);
    CHECK_STRING(got, ">other no record's first character");
    write_file(plain, "wb", "{\n", 2);
    CHECK(records_read(&bytes, plain, got, sizeof got) == ERROR_NONE);
    CHECK_STRING(got, ">a_b.txt {\n");
    write_file(stores_path("b.fa"), "wb", ">x y\nAC GT\n", 11);
    CHECK(records_read(&bytes, stores_path("b.fa"), got, sizeof got) == ERROR_NONE);
    CHECK_STRING(got, ">x ACGT");
    write_file(other, "wb", "AC GT\r\nTT\n", 10);
    CHECK(records_read(&text, other, got, sizeof got) == ERROR_NONE);
    CHECK_STRING(got, ">other ACGTTT");
    write_file(other, "wb", "AC\0", 3);
    CHECK_USER(records_read(&text, other, got, sizeof got), "other: holds byte 0x00");
    write_file(other, "wb", "AC\nG\0\n", 6);
    CHECK_USER(records_read(&lines, other, got, sizeof got), "other:2: holds byte 0x00: this is no text");
    write_file(other, "wb", "", 0);
    CHECK(records_read(&text, other, got, sizeof got) == ERROR_NONE);
    CHECK_STRING(got, ">other ");
    CHECK_USER(records_read(&lines, other, got, sizeof got), "other: holds no record");
    CHECK_USER(records_read(&(struct record_settings){.format = "csv"}, other, got, sizeof got),
               "there is: fasta, jsonl");
    static const struct {
        const char *head;
        size_t bytes;
        const char *words;
    } kinds[] = {{"%PDF-1.7 and more", 17, "other: is a PDF"},
                 {"\x89HDF\r\n\x1a\n", 8, "other: is an HDF5 file"},
                 {"ARROW1\0\0xx", 10, "other: is an Arrow IPC"}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        write_file(other, "wb", kinds[i].head, kinds[i].bytes);
        CHECK_USER(records_read(&bytes, other, got, sizeof got), kinds[i].words);
    }
    char tar[512] = "name";
    memcpy(tar + 257, "ustar", 5);
    write_file(other, "wb", tar, sizeof tar);
    CHECK_USER(records_read(&characters, other, got, sizeof got), "other: is a tar archive");
}

/* Lines that end around the end of the reader's buffer, with LF and with CRLF: what comes out is what went in. */
static void test_text_seams(void)
{
    enum { BUFFER = 1 << 20, ROOM = BUFFER + 64 };
    const char *path = stores_path("seams");
    char *bytes = memory_grow(NULL, ROOM);
    for (int at = BUFFER - 3; at <= BUFFER + 1; at++) {
        memset(bytes, 'x', ROOM);
        memcpy(bytes + at, "\r\ny\r", 4);
        write_file(path, "wb", bytes, (size_t)at + 4);
        struct source *source;
        struct record_reader *reader;
        struct record_piece piece = {.kind = RECORD_NAME};
        const struct record_settings lines = {.format = "lines", .content = RECORD_BYTES};
        int64_t lengths[3] = {0}, names = 0;
        bool carriage = false;
        CHECK(source_open(&source, path) == ERROR_NONE);
        CHECK(record_reader_create(&reader, source, &lines) == ERROR_NONE);
        while (record_reader_next(reader, &piece) == ERROR_NONE && piece.kind != RECORD_END) {
            names += piece.kind == RECORD_NAME;
            if (piece.kind == RECORD_SEQUENCE && names < 3)
                lengths[names] += piece.length;
            carriage = piece.kind == RECORD_SEQUENCE && piece.text[piece.length - 1] == '\r';
        }
        CHECK(names == 2 && lengths[1] == at && lengths[2] == 2 && carriage); /* no LF behind the last CR */
        record_reader_destroy(reader);
        source_close(source);
    }
    free(bytes);
}

/* Lines of all lengths around the buffer's, with and without a newline at the end. */
static void test_long_lines(void)
{
    enum { LONGEST = (1 << 21) + 100 };
    const char *path = stores_path("long.jsonl");
    char *bases = memory_grow(NULL, LONGEST + 1);
    for (int64_t i = 0; i < LONGEST; i++)
        bases[i] = "ACGT"[i * i % 7 % 4];
    bases[LONGEST] = '\0';
    static const int lengths[] = {
        (1 << 20) - 13, (1 << 20) - 12, (1 << 20) - 11, (1 << 20) - 10, 3, LONGEST, 1 << 20, 7};
    enum { LINES = sizeof lengths / sizeof *lengths };
    for (int end = 0; end < 2; end++) {
        FILE *file = fopen(path, "w");
        for (int i = 0; i < LINES; i++)
            fprintf(file, "{\"text\":\"%.*s\"}%s", lengths[i], bases + i, i < LINES - 1 || end ? "\n" : "");
        fclose(file);
        struct source *source;
        struct record_reader *reader;
        struct record_piece piece;
        CHECK(source_open(&source, path) == ERROR_NONE);
        CHECK(record_reader_create(&reader, source, &characters) == ERROR_NONE);
        for (int i = 0; i < LINES; i++) {
            CHECK(record_reader_next(reader, &piece) == ERROR_NONE && piece.kind == RECORD_NAME);
            CHECK(piece.length == 1 && piece.text[0] == '1' + i);
            CHECK(record_reader_next(reader, &piece) == ERROR_NONE && piece.kind == RECORD_SEQUENCE);
            int64_t wanted = lengths[i] < LONGEST - i ? lengths[i] : LONGEST - i;
            CHECK(piece.length == wanted && memcmp(piece.text, bases + i, (size_t)wanted) == 0);
        }
        CHECK(record_reader_next(reader, &piece) == ERROR_NONE && piece.kind == RECORD_END);
        record_reader_destroy(reader);
        source_close(source);
    }
    free(bases);
}

int main(void)
{
    stores_begin();
    test_tokenizer();
    test_protein_tokenizers();
    test_fasta();
    test_jsonl();
    test_bytes();
    test_text_seams();
    test_long_lines();
    stores_end();
    return check_end();
}
