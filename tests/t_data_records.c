/* Records become tokens: tokenizers, and readers of FASTA, JSON lines and arrays, CSV and plain text, with ids, unused
 * members, skipped records, byte order marks, refused kinds of files, and headers longer than the reader's buffer. */
#include "records/record_reader.h"
#include "records/source.h"
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

static const struct record_settings characters = {.content = RECORD_CHARACTERS};

static int read_all(const char *path, char *text, size_t capacity)
{
    return records_read(&characters, path, text, capacity);
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
    CHECK_USER(read_all(plain, got, sizeof got), "a.fa: has no record");
    CHECK_USER(read_all(stores_path("absent.fa"), got, sizeof got), "absent.fa: cannot open");
    CHECK_USER(read_all(stores_folder, got, sizeof got), "is a folder");
}

static int read_text(const char *path, const char *text, char *got, size_t capacity)
{
    write_file(path, "wb", text, strlen(text));
    return read_all(path, got, capacity);
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
                               "{\"record\": null, \"id\": 7, \"text\": \"TT\"}";
    static const char wanted[] = ">one ACGT>two acgtNN>5 >7 TT";
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
        {"", "a.jsonl: has no record"},
        {"\n \n", "a.jsonl: has no record"},
        {">x\nACGT\n", "a.jsonl:1: is not JSON"},
        {"{\"text\": \"A\"}\n{\"text\": \"C\"\n", "a.jsonl:2: is not JSON"},
        {"{\"text\": \"A\"}\n\n{\"text\": \"C\"} x\n", "a.jsonl:3: is not JSON"},
        {"{\"text\": \"A\"}{\"text\": \"A\"}\n", "a.jsonl:1: is not JSON"},
        {"{\"text\": \"A\nC\"}\n", "a.jsonl:1: is not JSON"},
        {"{\"text\": \"A\xff\"}\n", "a.jsonl:1: is not JSON"},
        {"{\"text\": \"A\\u0000\"}\n", "a.jsonl:1: is not JSON"},
        {"[\"ACGT\"]\n", "a.jsonl:1: is not a JSON object"},
        {"{\"text\": \"A\"}\n{\"seq\": \"A\"}\n", "a.jsonl:2: has no field \"text\""},
        {"{\"text\": 5}\n", "a.jsonl:1: field \"text\" is not a string"},
        {"{\"text\": NaN}\n", "a.jsonl:1: field \"text\" is not a string"},
        {"{\"text\": \"A\"}\n{\"text\": null}\n", "a.jsonl:2: field \"text\" is null; --skip-bad"},
        {"{\"text\": \"A\", \"te\\u0078t\": \"C\"}\n", "a.jsonl:1: has member \"text\" 2 times"},
        {"{\"text\": \"A\", \"id\": 1, \"id\": 2}\n", "a.jsonl:1: has member \"id\" 2 times"},
        {"{\"text\": \"A\", \"id\": 1.5}\n",
         "a.jsonl:1: member \"id\" is the record's name: it must be a string or an"},
        {"{\"text\": \"A\", \"id\": 1e3}\n", "a.jsonl:1: member \"id\" is"},
        {"{\"text\": \"A\", \"id\": true}\n", "a.jsonl:1: member \"id\" is"},
        {"{\"text\": \"A\", \"record\": {\"id\": 1}}\n", "a.jsonl:1: member \"record\" is"},
        {"{\"text\": \"A\", \"id\": [1]}\n", "a.jsonl:1: member \"id\" is"},
        {"{\"text\": \"A\\ud800\"}\n", "a.jsonl:1: is not JSON"},
        {"{\"text\": \"A\\x\"}\n", "a.jsonl:1: is not JSON: invalid escape (column 13)"},
        {"{\"text\": \"A\", \"n\": 01}\n", "a.jsonl:1: is not JSON: ',' or '}' is expected (column 21)"},
        {"{\"text\": \"A\", \"n\": nul}\n", "a.jsonl:1: is not JSON: a value is expected"},
        {"{\"text\": \"A\", \"n\": -}\n", "a.jsonl:1: is not JSON"},
        {"{\"text\": \"A\", \"n\": [1}\n", "a.jsonl:1: is not JSON: ',' or ']' is expected"},
        {"{\"text\": \"A\",}\n", "a.jsonl:1: is not JSON: a member's name is expected"},
        {"{\"text\": \"A\", \"n\": \"\\\"}\n", "a.jsonl:1: is not JSON: a string does not end"},
        {"{\"text\": \"AC\xc3\xa9\"}\n", "a.jsonl:1: field \"text\" contains byte 0xc3"},
        {"{\"text\": \"AC\\u0001\"}\n", "a.jsonl:1: field \"text\" contains byte 0x01"},
        {"{\"id\": \"a\\u0007b\", \"text\": \"A\"}\n",
         "a.jsonl:1: the record's name contains the control character 0x07"},
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++)
        CHECK_USER(read_text(path, mistakes[i].text, got, sizeof got), mistakes[i].words);
}

static void check_text(const struct record_settings *settings, const char *file, const char *text, const char *wanted)
{
    char got[512];
    const char *path = stores_path(file);
    write_file(path, "wb", text, strlen(text));
    const int code = records_read(settings, path, got, sizeof got);
    CHECK(code == ERROR_NONE);
    if (code == ERROR_NONE)
        CHECK_STRING(got, wanted);
    else
        fprintf(stderr, "    %s\n", error_message());
    error_clear();
}

static void refuse_text(const struct record_settings *settings, const char *file, const char *text, const char *words)
{
    char got[512];
    const char *path = stores_path(file);
    write_file(path, "wb", text, strlen(text));
    CHECK_USER(records_read(settings, path, got, sizeof got), words);
}

/* Ids are strings or integers, these as they are written; members that nobody asked for may be any JSON, and Python's
 * numbers that are not finite. */
static void test_members(void)
{
    static const struct record_settings bytes = {.content = RECORD_BYTES}, deep = {.field = "a.b.c"};
    check_text(
        &characters, "a.jsonl",
        "{\"id\": 0, \"text\": \"A\"}\n{\"id\": -12, \"text\": \"C\"}\n"
        "{\"id\": 123456789012345678901234567890, \"text\": \"G\"}\n{\"record\": 7, \"id\": 1.5, \"text\": \"T\"}\n"
        "{\"record\": null, \"id\": \" x y\", \"text\": \"A\"}\n{\"id\": null, \"text\": \"C\"}\n",
        ">0 A>-12 C>123456789012345678901234567890 G>7 T>x A>6 C");
    check_text(
        &characters, "a.jsonl",
        "{\"n\": 18446744073709551616, \"m\": -1e999, \"text\": \"A\", \"x\": [NaN, {\"y\": Infinity}, -Infinity]}\n"
        "{\"\\ud800\": \"\\ud83d\", \"t\": \"\\\\\", \"e\": \"a\\\"}\", \"text\": \"C\", \"z\": [], \"o\": {}}\n"
        "{\"z\": \"\xff\", \"z\": 1, \"z\": -0.5E-7, \"\\u0074ext\": \"G\"}",
        ">1 A>2 C>3 G");
    check_text(
        &deep, "a.jsonl",
        "{\"a\": {\"x\": 1e999, \"b\": {\"c\": \"A\"}}}\n{\"a.b.c\": \"C\", \"a\": 1}\n{\"a\": {\"b.c\": \"G\"}}",
        ">1 A>2 C>3 G");
    refuse_text(&deep, "a.jsonl", "{\"a\": {\"b\": 5}}", "a.jsonl:1: has no field \"a.b.c\"");
    refuse_text(&deep, "a.jsonl", "{\"a\": {\"b\": {\"c\": 5}}}", "a.jsonl:1: field \"a.b.c\" is not a string");
    refuse_text(&deep, "a.jsonl", "{\"a\": {}, \"a\": {}}", "a.jsonl:1: has member \"a\" 2 times");
    refuse_text(&bytes, "a.jsonl", "{\"text\": \"\xc3\"}", "a.jsonl:1: is not JSON");
    enum { DEEP = 5000 };
    char *nested = memory_format("{\"x\": %0*d%0*d, \"text\": \"A\"}", DEEP, 0, DEEP, 0);
    memset(nested + 6, '[', DEEP);
    memset(nested + 6 + DEEP, ']', DEEP);
    refuse_text(&characters, "a.jsonl", nested,
                "a.jsonl:1: is not JSON: arrays and objects are nested too deep (column 2054)");
    memset(nested + 6, ' ', DEEP - 2000);
    memset(nested + 6 + DEEP + 2000, ' ', DEEP - 2000);
    check_text(&characters, "a.jsonl", nested, ">1 A");
    free(nested);
}

static void test_array(void)
{
    static const struct record_settings bytes = {.content = RECORD_BYTES}, json = {.format = "json"};
    static const char text[] =
        " [{\"id\": 5, \"text\": \"A,]}C\"},\n {\n\"n\": [1, {}],\n\"text\": \"\\\"\\\\\"}\n,{\"text\": \"G\"} ]\n\n";
    static const char wanted[] = ">5 A,]}C>2 \"\\>3 G";
    check_text(&characters, "a.json", text, wanted);
    check_text(&bytes, "a.json", text, wanted);
    check_text(&bytes, "other", text, wanted);
    check_text(&json, "a.txt", text, wanted);
    check_text(&characters, "a.json", "{\"text\": \"A\"}\n{\"text\": \"C\"}\n",
               ">1 A>2 C"); /* lines, whatever the name */
    static const struct {
        const char *text, *words;
    } mistakes[] = {
        {"[]", "a.json: has no record"},
        {"[\n", "a.json:2: is not a JSON array of objects: the file ends within"},
        {"[{\"text\": \"A\"}", "a.json:1: is not a JSON array of objects: the file ends within"},
        {"[{\"text\": \"A\"},\n{\"text\": \"A]", "a.json:2: is not a JSON array of objects: the file ends within"},
        {"[{\"text\": \"A\"}\n{\"text\": \"A\"}]", "a.json:1: is not JSON: its end is expected"},
        {"[{\"text\": \"A\"},\n]", "a.json:2: is not JSON: a value is expected"},
        {"[{\"text\": \"A\"}}", "a.json:1: is not a JSON array of objects: ',' or ']' is expected"},
        {"[{\"text\": \"A\"}]\n\n[", "a.json:3: is not a JSON array of objects: text follows its end"},
        {"[\n\"ACGT\"]", "a.json:2: is not a JSON object"},
        {"\"ACGT\"", "a.json:1: is not a JSON array of objects: it does not begin with ["},
        {"[{\"text\": \"A\"},\n\n{\n\n\"text\": 5}]", "a.json:3: field \"text\" is not a string"},
        {"[{\n\"text\": \"A\"},\n{\"text\": 5}]", "a.json:3: field \"text\" is not a string"},
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++)
        refuse_text(&characters, "a.json", mistakes[i].text, mistakes[i].words);
    /* elements that end around the end of the reader's buffer */
    enum { BUFFER = 1 << 20 };
    for (int blanks = BUFFER - 24; blanks < BUFFER; blanks++) {
        char *long_text = memory_format("[{\"text\": \"A\", \"x\": \"%*s\\\"\"} ,\n{\"text\": \"C\"}]", blanks, "");
        check_text(&characters, "a.json", long_text, ">1 A>2 C");
        free(long_text);
    }
}

static void test_csv(void)
{
    static const struct record_settings bytes = {.content = RECORD_BYTES}, named = {.format = "csv", .field = "b c"},
                                        seq = {.field = "seq"}, byte_seq = {.field = "seq", .content = RECORD_BYTES},
                                        id = {.field = "id"}, prompts = {.field = "seq", .lines = true};
    check_text(
        &bytes, "a.csv",
        "id,text,more\r\n0,\"one, \"\"two\"\"\r\nthree\",x\r\n\r\n17,plain \"quoted\",\"\"\r\n,,\r\n\"a b\",\xff,",
        ">0 one, \"two\"\r\nthree>17 plain \"quoted\">3 >a \xff");
    check_text(&characters, "a.tsv", "text\tid\nAC,GT\t1\n\"T\"\t2\n", ">1 AC,GT>2 T");
    check_text(&characters, "one.tsv", "text\nAC,GT\nT\n", ">1 AC,GT>2 T"); /* one column shows no delimiter */
    check_text(&characters, "a.csv", "\"text\";id\nAC,GT;1\n", ">1 AC,GT");
    check_text(&characters, "a.csv", "text\nAC\n\nGT", ">1 AC>2 GT");
    check_text(&characters, "a.csv", "text,record,id\nA,r1,i1\nC,,i2\n", ">r1 A>2 C");
    check_text(&named, "other", "a,b c,d\n1,\"A\"\"\"\"C\",3\n", ">1 A\"\"C");
    check_text(&seq, "other", "name\tseq\nx\tACGT\n", ">1 ACGT");
    check_text(&byte_seq, "a.txt", "name,seq\nx,ACGT\n", ">1 ACGT");
    check_text(&prompts, "other", "name,seq\nx,ACGT\n", ">1 ACGT");
    check_text(&id, "a.csv", "id,x\nACGT,1\n", ">ACGT ACGT");
    static const struct {
        const char *text, *words;
    } mistakes[] = {
        {"", "a.csv: has no record"},
        {"text,id\n", "a.csv: has no record"},
        {"id,seq,\"a\"\"b\"\nx,y,z\n",
         "a.csv: has no column \"text\"; name the column of the sequence with --field. It has: id, seq, a\"b"},
        {"text,id,text\nA,B,C\n", "a.csv: has two columns \"text\""},
        {"text,id,id\nA,B,C\n", "a.csv: has two columns \"id\""},
        {"text,id\nA,1\nC\n", "a.csv:3: has 1 cells, the header has 2; --skip-bad"},
        {"text,id\n\"A\n\",1\nC,2,\n", "a.csv:4: has 3 cells, the header has 2"},
        {"text,id\nA,1\n\"C,2\nG,3\n", "a.csv:3: a cell that begins with a quote here does not end"},
        {"text,id\n\"A\"C,2\n", "a.csv:2: text follows a quoted cell"},
        {"text,id\n\"A\"\rC,2\n", "a.csv:2: text follows a quoted cell"},
        {"text,id\nA\x01,2\n", "a.csv:2: column \"text\" contains byte 0x01, so it is not a sequence"},
        {"text,id\nA,a\x01\n", "a.csv:2: the record's name contains the control character 0x01"},
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++)
        refuse_text(&characters, "a.csv", mistakes[i].text, mistakes[i].words);
    char got[64];
    write_file(stores_path("a.csv"), "wb", "text\nA\0C\n", 9);
    CHECK_USER(records_read(&bytes, stores_path("a.csv"), got, sizeof got),
               "a.csv:2: column \"text\" contains byte 0x00, so it is not a text");
    /* quotes, delimiters and line ends around the end of the reader's buffer */
    enum { BUFFER = 1 << 20 };
    for (int first = BUFFER - 24; first < BUFFER; first++) {
        char *text = memory_format("x,text\n%*s,\"A\"\"\"\r\n\"\r\n\"", first, "");
        text[strlen(text) - 1] = '\0'; /* a row of one cell, x: too few */
        refuse_text(&characters, "a.csv", text, "a.csv:3: a cell that begins with a quote");
        free(text);
        text = memory_format("x,text\n%*s,\"A\"\"\"\r\n\"\r\n\",C", first, "");
        check_text(&characters, "a.csv", text, ">1 A\">2 C");
        free(text);
    }
}

/* Records without the field are left out and counted where that is asked for; a file with none but these has no record.
 */
static void test_skipped(void)
{
    int64_t skipped = 0;
    const struct record_settings skips = {.skipped = &skipped};
    check_text(&skips, "a.jsonl", "{\"text\": null}\n{\"text\": \"A\"}\n{\"id\": 1.5}\n{\"text\": \"C\"}\n",
               ">2 A>4 C");
    CHECK(skipped == 2);
    check_text(&skips, "a.json", "[{\"text\": null}, {\"text\": \"A\"}, {}]", ">2 A");
    CHECK(skipped == 4);
    check_text(&skips, "a.csv", "id,text\n1\n2,A\n3,C,T\n", ">2 A");
    CHECK(skipped == 6);
    refuse_text(&skips, "a.jsonl", "{\"text\": 5}", "a.jsonl:1: field \"text\" is not a string");
    refuse_text(&skips, "a.jsonl", "{\"text\": null", "a.jsonl:1: is not JSON");
    refuse_text(&skips, "a.jsonl", "{}\n{}\n", "a.jsonl: none of 2 records has field \"text\"; name the field");
    /* files without a record, where they may be */
    const struct record_settings any = {.may_be_empty = true},
                                 field = {.field = "x", .content = RECORD_BYTES, .may_be_empty = true};
    static const char *const files[] = {"a.jsonl", "a.json", "a.csv", "a.fa", "a.gb"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        check_text(&any, files[i], "", "");
        check_text(&any, files[i], " \n\n", "");
        check_text(&field, files[i], "", "");
        refuse_text(&characters, files[i], "\n", "has no record");
    }
}

/* A byte order mark is never data; what is not UTF-8 is named; text has no fields. */
static void test_marks(void)
{
    static const struct record_settings bytes = {.content = RECORD_BYTES},
                                        text = {.format = "text", .content = RECORD_BYTES},
                                        lines = {.format = "lines", .content = RECORD_BYTES};
    check_text(&characters, "a.fa", "\xef\xbb\xbf>x\nAC\n", ">x AC");
    check_text(&characters, "a.jsonl", "\xef\xbb\xbf{\"text\": \"A\"}\n", ">1 A");
    check_text(&bytes, "other", "\xef\xbb\xbf{\"text\": \"A\"}\n", ">1 A");
    check_text(&bytes, "a.json", "\xef\xbb\xbf[{\"text\": \"A\"}]\n", ">1 A");
    check_text(&bytes, "a.csv", "\xef\xbb\xbftext,id\nA,b\n", ">b A");
    check_text(&bytes, "a.csv", "\xef\xbb\xbf\"text\",id\nA,b\n", ">b A");
    check_text(&bytes, "a.txt", "\xef\xbb\xbftext", ">a.txt text");
    check_text(&text, "a.txt", "\xef\xbb\xbf@HD\ttext", ">a.txt @HD\ttext");
    check_text(&lines, "a.txt",
               "\xef\xbb\xbf"
               "a\n\xef\xbb\xbf"
               "b\n",
               ">1 a>2 \xef\xbb\xbf"
               "b");
    static const struct {
        const char *head;
        size_t bytes;
        const char *words;
    } wide[] = {{"\xff\xfe{\0\"\0", 6, "is UTF-16, but must be UTF-8; convert it: iconv -f UTF-16 -t UTF-8"},
                {"\xfe\xff\0{\0\"", 6, "is UTF-16, but must be UTF-8"},
                {"\xff\xfe\0\0{\0\0\0", 8, "is UTF-32, but must be UTF-8"},
                {"\0\0\xfe\xff\0\0\0{", 8, "is UTF-32, but must be UTF-8"},
                {"{\0\"\0a\0\"\0:\0", 10, "is UTF-16LE, but must be UTF-8"},
                {"\0{\0\"\0a\0\"\0:", 10, "is UTF-16BE, but must be UTF-8; convert it: iconv -f UTF-16BE"}};
    const struct record_settings *const ways[] = {&characters, &bytes, &text};
    char got[64];
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        for (int way = 0; way < 3; way++) {
            write_file(stores_path("wide"), "wb", wide[i].head, wide[i].bytes);
            CHECK_USER(records_read(ways[way], stores_path("wide"), got, sizeof got), wide[i].words);
        }
    static const struct record_settings field = {.field = "x", .content = RECORD_BYTES},
                                        text_field = {.format = "text", .field = "x", .content = RECORD_BYTES},
                                        prompts = {.field = "x", .lines = true};
    refuse_text(&field, "a.txt", "some text", "a.txt: --field x: plain text has no fields; --input-format names");
    refuse_text(&field, "other", "some text", "other: --field x: plain text has no fields");
    refuse_text(&text_field, "other", "{\"x\": \"A\"}", "other: --field x: plain text has no fields");
    refuse_text(&prompts, "other", "ACGT", "other: --field x: plain text has no fields");
}

/* Kinds of files that are not read, by whatever name and format but text. */
static void test_foreign(void)
{
    static const struct record_settings bytes = {.content = RECORD_BYTES},
                                        text = {.format = "text", .content = RECORD_BYTES}, fasta = {.format = "fasta"};
    static const struct {
        const char *text, *words;
    } kinds[] = {
        {"@read 1\nACGTN\n+\nIIIII\n", "is a FASTQ file, which only models of bases and residues read"},
        {"@read 1\r\nACGTN\r\n+read 1\r\nIIIII\r\n", "is a FASTQ file"},
        {"@HD\tVN:1.6\n", "is a SAM file"},
        {"@SQ\tSN:x\tLN:5\n", "is a SAM file"},
        {"LOCUS       NC_000913  4641652 bp    DNA     circular CON 09-MAR-2022\n", "is a GenBank file"},
        {"ID   X56734; SV 1; linear; mRNA; STD; PLN; 1859 BP.\n", "is an EMBL or UniProt flat file"},
        {"ID   001R_FRG3G              Reviewed;         256 AA.\n", "is an EMBL or UniProt flat file"},
        {"HEADER    OXYGEN TRANSPORT                        22-JUL-98   1A3N\n", "is a PDB file"},
        {"ATOM      1  N   VAL A   1       6.204  16.869   4.854\n", "is a PDB file"},
        {"data_1A3N\n# \n_entry.id   1A3N \n", "is an mmCIF file"},
        {"data_x\nloop_\n", "is an mmCIF file"},
        {"# STOCKHOLM 1.0\n", "is a Stockholm alignment"},
        {"CLUSTAL W (1.82)", "is a Clustal alignment"},
        {"BZh91AY&SYabc", "is a bzip2 file"},
        {"PK\3\4abc", "is a zip archive"},
        {"##fileformat=VCFv4.2\n", "is a VCF file"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const bool sequences = strstr(kinds[i].words, "FASTQ") || strstr(kinds[i].words, "GenBank") ||
                               strstr(kinds[i].words, "EMBL"); /* read, where characters are wanted */
        if (!sequences)
            refuse_text(&characters, "other", kinds[i].text, kinds[i].words);
        refuse_text(&bytes, "a.txt", kinds[i].text, kinds[i].words);
        refuse_text(&fasta, "a.fa", kinds[i].text, kinds[i].words);
        char *wanted = memory_format(">other %s", kinds[i].text);
        check_text(&text, "other", kinds[i].text, wanted);
        free(wanted);
    }
    char *read = memory_format("@read\n%05000d", 0);
    memset(read + 6, 'A', 5000);
    refuse_text(&bytes, "other", read, "is a FASTQ file"); /* a read longer than what is looked at */
    free(read);
    static const char *const texts[] = {"@someone\nhello\n",
                                        "@someone\nhello you\n+1\n",
                                        "ID   NAME\n",
                                        "data_ is plural\n",
                                        "data_x\nis a name\n",
                                        "LOCUS\n",
                                        "@",
                                        "@\n",
                                        "data_x"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char *wanted = memory_format(">other %s", texts[i]);
        check_text(&bytes, "other", texts[i], wanted);
        free(wanted);
    }
}

/* Where bytes are wanted they stay as they are, and a name tells more than a first character does. */
static void test_bytes(void)
{
    char got[256];
    const struct record_settings bytes = {.content = RECORD_BYTES},
                                 member = {.field = "a.text", .content = RECORD_BYTES};
    const struct record_settings text = {.format = "text"}, lines = {.format = "lines", .content = RECORD_BYTES};
    const char *plain = stores_path("a b.txt"), *other = stores_path("other");
    static const char odd[] = "> it said\r\n\n\xff{\xc3\xa9\t\n";
    write_file(plain, "wb", odd, strlen(odd));
    CHECK(records_read(&bytes, plain, got, sizeof got) == ERROR_NONE);
    CHECK_STRING(got, ">a_b.txt > it said\r\n\n\xff{\xc3\xa9\t\n");
    CHECK(records_read(&lines, plain, got, sizeof got) == ERROR_NONE);
    CHECK_STRING(got, ">1 > it said>2 >3 \xff{\xc3\xa9\t");
    write_file(other, "wb", "{\"a\": {\"text\": \"\\u00e9 \\n\\u0000z\"}}\n", 36);
    CHECK(records_read(&member, other, got, sizeof got) == ERROR_NONE);
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
    CHECK_USER(records_read(&text, other, got, sizeof got), "other: contains byte 0x00");
    write_file(other, "wb", "AC\nG\0\n", 6);
    CHECK_USER(records_read(&lines, other, got, sizeof got), "other:2: contains byte 0x00, so it is not a text");
    write_file(other, "wb", "", 0);
    CHECK(records_read(&text, other, got, sizeof got) == ERROR_NONE);
    CHECK_STRING(got, ">other ");
    CHECK_USER(records_read(&lines, other, got, sizeof got), "other: has no record");
    CHECK_USER(records_read(&(struct record_settings){.format = "xml"}, other, got, sizeof got),
               "must be one of fasta, fastq, genbank, embl, 2bit, jsonl, json, csv");
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
    enum { BUFFER = 1 << 20, CAPACITY = BUFFER + 64 };
    const char *path = stores_path("seams");
    char *bytes = memory_grow(NULL, CAPACITY);
    for (int at = BUFFER - 3; at <= BUFFER + 1; at++) {
        memset(bytes, 'x', CAPACITY);
        memcpy(bytes + at, "\r\ny\r", 4);
        write_file(path, "wb", bytes, (size_t)at + 4);
        struct record_source *source;
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
        struct record_source *source;
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

/* A header may be longer than the reader's buffer, wherever the buffer ends in it and in its line end; of a name that
 * is longer than any is the start is kept. */
static void test_long_headers(void)
{
    enum { BUFFER = 1 << 20, LONGEST = 3 * BUFFER };
    const char *path = stores_path("long.fa");
    char *header = memory_grow(NULL, LONGEST + 1), got[8192];
    static const int lengths[] = {BUFFER - 2, BUFFER - 1, BUFFER, BUFFER + 1, 2 * BUFFER - 1, LONGEST};
    static const char *const ends[] = {"\n", "\r\n", "\r\r\n"};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (size_t e = 0; e < sizeof ends / sizeof *ends; e++) {
            memset(header, 'x', LONGEST);
            memcpy(header, ">name x>", 8);
            FILE *file = fopen(path, "wb");
            fprintf(file, "%.*s%sACGT\n>two\nAA\n%.*s%sT", lengths[i], header, ends[e], lengths[i], header, ends[e]);
            fclose(file);
            CHECK(read_all(path, got, sizeof got) == ERROR_NONE);
            CHECK_STRING(got, ">name ACGT>two AA>name T");
            file = fopen(path, "wb");
            fprintf(file, "%.*s\rACGT\n", lengths[i], header);
            fclose(file);
            CHECK_USER(read_all(path, got, sizeof got), "long.fa:1: a carriage return within the line");
            memset(header + 5, 'x', 1);
            file = fopen(path, "wb");
            fprintf(file, "%.*s%sACGT", lengths[i], header, ends[e]);
            fclose(file);
            CHECK(read_all(path, got, sizeof got) == ERROR_NONE);
            CHECK(strlen(got) == 1 + 4096 + 5 && strncmp(got, header, 1 + 4096) == 0);
            CHECK_STRING(got + 1 + 4096, " ACGT");
        }
    free(header);
}

int main(void)
{
    stores_begin();
    test_tokenizer();
    test_protein_tokenizers();
    test_fasta();
    test_long_headers();
    test_jsonl();
    test_members();
    test_array();
    test_csv();
    test_skipped();
    test_marks();
    test_foreign();
    test_bytes();
    test_text_seams();
    test_long_lines();
    stores_end();
    return check_end();
}
