/* From text to windows: tokenizer, FASTA, prepare, split, store, windows, shuffle, count models. */
#include "base/random.h"
#include "check.h"
#include "data/baseline.h"
#include "data/prepare.h"
#include "data/record_reader.h"
#include "data/shuffle.h"
#include "data/source.h"
#include "data/split.h"
#include "data/token_store.h"
#include "data/windows.h"
#include "signalling.h"
#include "stores.h"

#include <dirent.h>
#include <hdf5.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

static void write_file(const char *path, const char *mode, const void *data, size_t bytes)
{
    FILE *file = fopen(path, mode);
    if (file == NULL || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0)
        error_fatal("cannot write %s", path);
}

/* The code must be an error of the user whose message holds the words. */
static void check_user_error(int line, int code, const char *words)
{
    if (!check_report(__FILE__, line, code == ERROR_USER && strstr(error_message(), words) != NULL, "user error"))
        fprintf(stderr, "    code %d, message \"%s\", wanted \"%s\"\n", code, error_message(), words);
    error_clear();
}

#define CHECK_USER(code, words) check_user_error(__LINE__, code, words)

static int prepare(const char *output, const char *split, const char *input)
{
    struct prepare_settings settings = {.tokenizer = "nucleotide",
                                        .output = output,
                                        .split = split,
                                        .seed = 42,
                                        .field = "text",
                                        .inputs = &input,
                                        .input_count = 1};
    return prepare_run(&settings);
}

static int files_in_folder(void)
{
    int count = 0;
    DIR *folder = opendir(stores_folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

static void test_tokenizer(void)
{
    const struct tokenizer *tokenizer = tokenizer_find("nucleotide");
    CHECK(tokenizer != NULL && tokenizer_find("nothing") == NULL);
    CHECK(tokenizer->vocabulary == 256);
    CHECK(tokenizer->eos == 0 && tokenizer->pad == 1 && tokenizer->bos == 2 && tokenizer->unk == 3);
    static const uint8_t golden[] = {65, 67, 71, 84, 78, 82, 89, 97, 99, 103, 116, 64, 35};
    uint8_t ids[256];
    tokenizer->encode("ACGTNRYacgt@#", sizeof golden, ids);
    CHECK(memcmp(ids, golden, sizeof golden) == 0);
    char all[256];
    for (int i = 0; i < 256; i++)
        all[i] = (char)i;
    tokenizer->encode(all, 256, ids);
    int wrong = 0;
    for (int i = 0; i < 256; i++)
        wrong += ids[i] != (i < 4 ? 3 : i);
    CHECK(wrong == 0);
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
    tokenizer->encode(all, 256, ids);
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
    tokenizer_find("esm2")->encode("MKLVZOJXBU*.-a", sizeof golden, ids);
    CHECK(memcmp(ids, golden, sizeof golden) == 0);
}

/* All names ('>' in front) and sequences of a file of records in one string. */
static int read_all(const char *path, char *text, size_t room)
{
    struct source *source;
    struct record_reader *reader;
    int code = source_open(&source, path);
    if (code != ERROR_NONE)
        return code;
    code = record_reader_create(&reader, source, "text");
    struct record_piece piece = {.kind = RECORD_NAME};
    size_t used = 0;
    while (code == ERROR_NONE && piece.kind != RECORD_END) {
        code = record_reader_next(reader, &piece);
        if (code == ERROR_NONE && piece.kind != RECORD_END && used + (size_t)piece.length + 3 < room)
            used += (size_t)snprintf(text + used, room - used, piece.kind == RECORD_NAME ? ">%.*s " : "%.*s",
                                     (int)piece.length, piece.text);
    }
    text[used] = '\0';
    record_reader_destroy(reader);
    source_close(source);
    return code;
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
        CHECK(record_reader_create(&reader, source, "text") == ERROR_NONE);
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

static void test_prepare(void)
{
    const char *input = stores_path("p.fa"), *output = stores_path("p.h5");
    static const char text[] = ">a x\nACGTN\nacgt\n>empty\n>b\nTTT\n";
    write_file(input, "wb", text, strlen(text));
    int before = files_in_folder();
    CHECK(prepare(output, NULL, input) == ERROR_NONE);
    CHECK(files_in_folder() == before + 1);
    struct token_store *store;
    CHECK(token_store_open(&store, output) == ERROR_NONE);
    CHECK(store->sequences == 2 && store->token_count == 12 && store->vocabulary == 256 && store->token_bytes == 1);
    CHECK(token_store_offset(store, 1) == 9 && token_store_offset(store, 2) == 12);
    CHECK(memcmp(store->tokens, "ACGTNacgtTTT", 12) == 0);
    int64_t cursor = 0, length;
    const char *name = token_store_next_name(store, &cursor, &length);
    CHECK(length == 1 && name[0] == 'a');
    name = token_store_next_name(store, &cursor, &length);
    CHECK(length == 1 && name[0] == 'b');
    CHECK(token_store_next_name(store, &cursor, &length) == NULL);
    uint64_t checksum = store->checksum;
    token_store_close(store);

    /* the checksum is of content: another file with the same records has it, an edit has not */
    static const char same[] = ">a\nACGTNacgt\n>b\nTT\nT\n", other[] = ">a\nACGTNacgt\n>c\nTTT\n";
    write_file(input, "wb", same, strlen(same));
    CHECK(prepare(output, NULL, input) == ERROR_NONE && token_store_open(&store, output) == ERROR_NONE);
    CHECK(store->checksum == checksum);
    token_store_close(store);
    write_file(input, "wb", other, strlen(other));
    CHECK(prepare(output, NULL, input) == ERROR_NONE && token_store_open(&store, output) == ERROR_NONE);
    CHECK(store->checksum != checksum);
    token_store_close(store);

    const char *lines = stores_path("p.jsonl");
    static const char json[] = "{\"record\": \"a\", \"text\": \"ACGTNacgt\"}\n{\"text\": \"\"}\n"
                               "{\"id\": \"b\", \"text\": \"TTT\"}\n";
    write_file(lines, "wb", json, strlen(json));
    CHECK(prepare(output, NULL, lines) == ERROR_NONE && token_store_open(&store, output) == ERROR_NONE);
    CHECK(store->checksum == checksum);
    token_store_close(store);

    /* failures leave the old store alone and nothing else behind */
    before = files_in_folder();
    write_file(input, "wb", ">a\nAC\x01GT\n", 9);
    CHECK_USER(prepare(output, NULL, input), "p.fa:2: byte 0x01");
    write_file(input, "wb", ">a\n>b\n", 6);
    CHECK_USER(prepare(output, NULL, input), "no record has a sequence");
    CHECK_USER(prepare(input, NULL, input), "is an input and the output");
    CHECK_USER(prepare(output, NULL, stores_path("absent.fa")), "cannot open");
    struct prepare_settings unknown = {
        .tokenizer = "words", .output = output, .field = "text", .inputs = &input, .input_count = 1};
    CHECK_USER(prepare_run(&unknown), "--tokenizer words");
    CHECK(prepare(stores_path("absent/x.h5"), NULL, input) == ERROR_USER);
    error_clear();
    CHECK(files_in_folder() == before);
    CHECK(token_store_open(&store, output) == ERROR_NONE);
    token_store_close(store);
}

static void test_store_refusals(void)
{
    const char *path = stores_path("bad.h5");
    struct token_store *store;
    CHECK_USER(token_store_open(&store, stores_path("absent.h5")), "cannot open");
    write_file(path, "wb", ">a\nACGT\n", 8);
    CHECK_USER(token_store_open(&store, path), "no HDF5 file");
    H5Fclose(H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    CHECK_USER(token_store_open(&store, path), "cistron_store");
    char *sequences[STORES_PERIODIC];
    stores_periodic(sequences);
    stores_write(path, sequences, STORES_PERIODIC);
    stores_free(sequences, STORES_PERIODIC);
    CHECK(token_store_open(&store, path) == ERROR_NONE);
    token_store_close(store);
    struct stat status;
    stat(path, &status);
    CHECK(truncate(path, status.st_size - 8) == 0);
    CHECK_USER(token_store_open(&store, path), "truncated");
    CHECK(truncate(path, 3000) == 0);
    CHECK_USER(token_store_open(&store, path), "truncated");
}

/* Random bases, so that stretches of records can be told apart. */
static char *random_bases(uint64_t stream, int64_t length)
{
    struct random_key key = {7, RANDOM_TEST, stream};
    char *text = memory_grow(NULL, length + 1);
    for (int64_t i = 0; i < length; i++)
        text[i] = "ACGT"[random_bits(&key, (uint64_t)i) >> 62];
    text[length] = '\0';
    return text;
}

/* Every piece of a part, found in its record by its name; marks covered bases and counts tokens. */
static int64_t cover(const char *path, char *const *records, char **covered)
{
    struct token_store *store;
    if (token_store_open(&store, path) != ERROR_NONE)
        error_fatal("%s", error_message());
    int64_t cursor = 0, length, wrong = 0, tokens = store->token_count;
    for (int64_t i = 0; i < store->sequences; i++) {
        const char *name = token_store_next_name(store, &cursor, &length);
        int record;
        long long first = 1, last = 0;
        int fields = sscanf(name, "r%d:%lld-%lld", &record, &first, &last);
        int64_t begin = token_store_offset(store, i), count = token_store_offset(store, i + 1) - begin;
        if (fields == 1)
            last = (long long)strlen(records[record]);
        wrong += last - first + 1 != count;
        wrong += memcmp(store->tokens + begin, records[record] + first - 1, (size_t)count) != 0;
        for (int64_t t = 0; t < count; t++)
            wrong += covered[record][first - 1 + t]++ != 0;
        /* cuts lie at blocks' borders */
        wrong += fields == 3 && (first - 1) % SPLIT_BLOCK != 0;
    }
    CHECK(wrong == 0);
    token_store_close(store);
    return tokens;
}

static void test_split(void)
{
    enum { RECORDS = 4 };
    static const int64_t lengths[RECORDS] = {2345678, 30000, 1000001, 77};
    char *records[RECORDS], *covered[RECORDS];
    const char *input = stores_path("split.fa"), *output = stores_path("split.h5");
    int64_t total = 0;
    FILE *file = fopen(input, "w");
    for (int i = 0; i < RECORDS; i++) {
        records[i] = random_bases((uint64_t)i, lengths[i]);
        covered[i] = memory_allocate(lengths[i]);
        fprintf(file, ">r%d\n%s\n", i, records[i]);
        total += lengths[i];
    }
    fclose(file);
    CHECK(prepare(output, "train:0.85,valid:0.1,test:0.05", input) == ERROR_NONE);
    int64_t train = cover(stores_path("split.train.h5"), records, covered);
    int64_t valid = cover(stores_path("split.valid.h5"), records, covered);
    int64_t test = cover(stores_path("split.test.h5"), records, covered);
    CHECK(train + valid + test == total);
    int64_t missed = 0;
    for (int i = 0; i < RECORDS; i++)
        for (int64_t t = 0; t < lengths[i]; t++)
            missed += covered[i][t] == 0;
    CHECK(missed == 0);
    /* reached, and overshot by less than the largest block, which is the whole record of 30 kb */
    CHECK((double)valid >= 0.1 * (double)total && (double)valid < 0.1 * (double)total + 30000);
    CHECK((double)test >= 0.05 * (double)total && (double)test < 0.05 * (double)total + 30000);
    /* blocks that stay together are one sequence: far fewer than blocks */
    struct token_store *store;
    CHECK(token_store_open(&store, stores_path("split.train.h5")) == ERROR_NONE);
    CHECK(store->sequences < 60);
    uint64_t checksum = store->checksum;
    token_store_close(store);
    CHECK(prepare(output, "train:0.85,valid:0.1,test:0.05", input) == ERROR_NONE);
    CHECK(token_store_open(&store, stores_path("split.train.h5")) == ERROR_NONE && store->checksum == checksum);
    token_store_close(store);

    int before = files_in_folder();
    write_file(input, "wb", ">r\nACGT\n", 8);
    CHECK_USER(prepare(output, "train:0.9,valid:0.1", input), "would be empty");
    CHECK_USER(prepare(output, "train:0.9,valid:0.2", input), "sum to 1.1");
    CHECK_USER(prepare(output, "train:0.9;valid:0.1", input), "write name:fraction");
    CHECK_USER(prepare(output, "train,valid", input), "write name:fraction");
    CHECK_USER(prepare(output, "a:0.5,a:0.5", input), "two parts are named a");
    CHECK_USER(prepare(output, "a/b:0.5,c:0.5", input), "letters");
    CHECK_USER(prepare(output, "train:1.5,valid:-0.5", input), "write name:fraction");
    CHECK(files_in_folder() == before);
    for (int i = 0; i < RECORDS; i++) {
        free(records[i]);
        memory_free(covered[i]);
    }
}

/* All windows of one sequence follow the rule by which they are counted. */
static void check_walk(const struct windows *windows, const struct windows_layout *layout)
{
    int64_t hint = 0, tokens = 0, sequence = -1, end = 0, wrong = 0;
    for (int64_t w = 0; w < windows->header.windows; w++) {
        int64_t far = w * 7 % (windows->store->sequences + 1); /* a wrong hint must not matter */
        struct window window = windows_locate(windows, w, &hint), again = windows_locate(windows, w, &far);
        wrong += window.start != again.start || window.length != again.length || window.sequence != again.sequence;
        int64_t begin = token_store_offset(windows->store, window.sequence);
        int64_t stop = token_store_offset(windows->store, window.sequence + 1);
        tokens += window_length(&window);
        wrong += window_length(&window) > layout->window || window.start + window.length > stop;
        bool first = window.sequence != sequence, last = window.start + window.length == stop && window.has_eos;
        wrong += first && window.start != begin;
        wrong += first && end != (sequence < 0 ? 0 : token_store_offset(windows->store, sequence + 1));
        wrong += !first && window.start != end - layout->overlap && layout->overlap <= window.length;
        wrong += window.has_bos != (first || layout->cut != WINDOWS_ENDS);
        wrong += layout->cut != WINDOWS_ENDS && !window.has_eos;
        wrong += !last && window_length(&window) != layout->window;
        sequence = window.sequence;
        end = window.start + window.length;
    }
    CHECK(wrong == 0);
    CHECK(tokens == windows->header.tokens);
}

static void test_windows(void)
{
    static const int64_t golden[][4] = {{3000, 1000, 800, 12}, {10000, 1000, 800, 47}, {10000, 1000, 500, 20},
                                        {50000, 8192, 200, 7}, {8, 7, 4, 4},           {400, 1000, 200, 1},
                                        {0, 1000, 200, 0}};
    for (size_t i = 0; i < sizeof golden / sizeof *golden; i++) {
        struct windows_layout layout = {golden[i][1], golden[i][2], WINDOWS_EACH};
        CHECK(windows_count(&layout, golden[i][0]) == golden[i][3]);
    }
    CHECK(windows_tokens(&(struct windows_layout){1000, 200, WINDOWS_EACH}, 400) == 402);
    /* truncation: one window, of at most 1022 residues */
    static const int64_t lengths[][2] = {{0, 0}, {1, 3}, {1021, 1023}, {1022, 1024}, {1023, 1024}, {50000, 1024}};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct windows_layout first = {1024, 0, WINDOWS_FIRST};
        CHECK(windows_count(&first, lengths[i][0]) == (lengths[i][0] > 0));
        CHECK(windows_tokens(&first, lengths[i][0]) == lengths[i][1]);
    }
    CHECK_USER(windows_check_layout(&(struct windows_layout){1024, 1, WINDOWS_FIRST}), "data.truncate");

    struct comm *world = comm_self();
    const char *path = stores_path("periodic.h5");
    char *sequences[STORES_PERIODIC + 3];
    stores_periodic(sequences);
    stores_write(path, sequences, STORES_PERIODIC);
    struct token_store *store;
    struct windows *windows;
    CHECK(token_store_open(&store, path) == ERROR_NONE);
    struct windows_layout layout = {256, 200, WINDOWS_EACH};
    CHECK(windows_open(&windows, store, &layout, world) == ERROR_NONE);
    static const int64_t each[STORES_PERIODIC] = {19, 30, 41, 52, 89};
    for (int i = 0; i < STORES_PERIODIC; i++)
        CHECK((int64_t)(windows->first[i + 1] - windows->first[i]) == each[i]);
    CHECK(windows->header.windows == 231 && windows->header.tokens == 59062);
    windows_close(windows);
    layout = (struct windows_layout){1024, 200, WINDOWS_EACH};
    CHECK(windows_open(&windows, store, &layout, world) == ERROR_NONE);
    CHECK(windows->header.windows == 17 && windows->header.tokens == 15834 && windows->map != NULL);
    windows_close(windows);

    /* a side file that is of another store, cut or foreign is made anew */
    const char *side = stores_path("periodic.h5.windows-1024-200-each");
    struct stat made, again;
    CHECK(stat(side, &made) == 0);
    CHECK(windows_open(&windows, store, &layout, world) == ERROR_NONE && stat(side, &again) == 0);
    CHECK(made.st_ino == again.st_ino && made.st_mtim.tv_nsec == again.st_mtim.tv_nsec);
    windows_close(windows);
    CHECK(truncate(side, 90) == 0);
    CHECK(windows_open(&windows, store, &layout, world) == ERROR_NONE && windows->header.windows == 17);
    windows_close(windows);
    token_store_close(store);
    /* a new store with sequences of 0 tokens and of 1 */
    sequences[5] = memory_string("");
    sequences[6] = memory_string("A");
    sequences[7] = memory_string("");
    stores_write(path, sequences, STORES_PERIODIC + 3);
    CHECK(token_store_open(&store, path) == ERROR_NONE);
    CHECK(windows_open(&windows, store, &layout, world) == ERROR_NONE && windows->header.windows == 18);
    CHECK(windows->map != NULL);
    windows_close(windows);
    static const int64_t shapes[][2] = {{4, 0}, {4, 1}, {7, 4}, {16, 0}, {61, 13}, {1202, 0}, {6000, 5000}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int per_sequence = 0; per_sequence < 2; per_sequence++) {
            layout = (struct windows_layout){shapes[i][0], shapes[i][1], per_sequence ? WINDOWS_ENDS : WINDOWS_EACH};
            CHECK(windows_open(&windows, store, &layout, world) == ERROR_NONE);
            check_walk(windows, &layout);
            windows_close(windows);
        }
    /* where the side file cannot be had, here because a folder has its name, a table in memory serves */
    layout = (struct windows_layout){1000, 300, WINDOWS_EACH};
    CHECK(mkdir(stores_path("periodic.h5.windows-1000-300-each"), 0700) == 0);
    CHECK(windows_open(&windows, store, &layout, world) == ERROR_NONE && windows->table != NULL);
    check_walk(windows, &layout);
    windows_close(windows);
    token_store_close(store);
    stores_free(sequences, STORES_PERIODIC + 3);
    comm_destroy(world);
}

static void test_shuffle(void)
{
    static const int64_t counts[] = {1, 2, 3, 4, 5, 7, 8, 13, 64, 97, 127, 128, 129, 1000, 4096, 10007, 65536, 65537};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        int64_t count = counts[i], repeated = 0, fixed = 0, moved = 0;
        for (int64_t epoch = 0; epoch < 3; epoch++) {
            char *seen = memory_allocate(count);
            struct shuffle shuffle = shuffle_create(count, 11, epoch), next = shuffle_create(count, 11, epoch + 1);
            for (int64_t k = 0; k < count; k++) {
                int64_t at = shuffle_at(&shuffle, k);
                repeated += at < 0 || at >= count || seen[at]++ != 0;
                fixed += at == k;
                moved += at != shuffle_at(&next, k);
            }
            memory_free(seen);
        }
        CHECK(repeated == 0);
        if (count >= 64) {
            CHECK(moved > 3 * count * 9 / 10); /* epochs differ nearly everywhere */
            CHECK(fixed < 30);                 /* about 1 expected in each epoch */
        }
    }
    /* beyond 32 bits it still lands inside and comes back nowhere twice in a sample */
    struct shuffle large = shuffle_create((int64_t)1 << 40, 1, 0);
    int64_t low = 0;
    for (int64_t k = 0; k < 1000; k++)
        low += shuffle_at(&large, k) < (int64_t)1 << 39;
    CHECK(low > 400 && low < 600);
    /* places 0 and 1 are uniform over epochs and independent: chi square of 10 and of 90 cells, bounds at p = 1e-6 */
    enum { N = 10, EPOCHS = 9000 };
    double pairs[N * N] = {0}, single[N] = {0}, chi_single = 0, chi_pairs = 0;
    for (int64_t epoch = 0; epoch < EPOCHS; epoch++) {
        struct shuffle shuffle = shuffle_create(N, 3, epoch);
        int64_t a = shuffle_at(&shuffle, 0), b = shuffle_at(&shuffle, 1);
        single[a]++;
        pairs[a * N + b]++;
    }
    for (int a = 0; a < N; a++) {
        chi_single += pow(single[a] - EPOCHS / N, 2) / (EPOCHS / N);
        for (int b = 0; b < N; b++)
            chi_pairs += a == b ? 0 : pow(pairs[a * N + b] - EPOCHS / 90, 2) / (EPOCHS / 90);
    }
    printf("shuffle: chi square %.1f of 9, %.1f of 89 degrees of freedom\n", chi_single, chi_pairs);
    CHECK(chi_single < 45);
    CHECK(chi_pairs < 165);
}

/* What a count model counts, by the characters themselves. */
static const char *residues = "LAGVSERTIDPKQNFYMHWCXBUZO.-"; /* and <null_1>, which no text has */

static int symbol(bool protein, char c)
{
    if (!protein)
        return tokenizer_base((unsigned char)c);
    const char *at = strchr(residues, c);
    return at == NULL ? -1 : (int)(at - residues);
}

/* The count model in its plainest form: for each symbol, count its context in the training text by search. */
static double naive(bool protein, char *const *train, int trains, char *const *valid, int valids, int order,
                    int64_t *symbols)
{
    const int all = protein ? 28 : 4;
    double nats = 0;
    *symbols = 0;
    for (int v = 0; v < valids; v++)
        for (int64_t at = 0; valid[v][at] != '\0'; at++) {
            if (symbol(protein, valid[v][at]) < 0)
                continue;
            int k = 0;
            while (k < order && at - k - 1 >= 0 && symbol(protein, valid[v][at - k - 1]) >= 0)
                k++;
            double hits = 1, sum = all;
            for (int s = 0; s < trains; s++)
                for (int64_t t = k; t < (int64_t)strlen(train[s]); t++) {
                    bool equal = symbol(protein, train[s][t]) >= 0;
                    for (int j = 1; j <= k && equal; j++)
                        equal = symbol(protein, train[s][t - j]) == symbol(protein, valid[v][at - j]);
                    sum += equal;
                    hits += equal && symbol(protein, train[s][t]) == symbol(protein, valid[v][at]);
                }
            nats -= log(hits / sum);
            ++*symbols;
        }
    return nats / (double)*symbols;
}

/* Composition, symbol by symbol: what else its sequence holds, and 100 times the share in the training text. */
static double naive_composition(bool protein, char *const *train, int trains, char *const *valid, int valids)
{
    double nats = 0, symbols = 0;
    for (int v = 0; v < valids; v++)
        for (int64_t at = 0; valid[v][at] != '\0'; at++) {
            int wanted = symbol(protein, valid[v][at]);
            if (wanted < 0)
                continue;
            double hits = 1, sum = protein ? 28 : 4, same = 0, others = 0;
            for (int s = 0; s < trains; s++)
                for (const char *c = train[s]; *c != '\0'; c++) {
                    sum += symbol(protein, *c) >= 0;
                    hits += symbol(protein, *c) == wanted;
                }
            for (int64_t t = 0; valid[v][t] != '\0'; t++) {
                others += t != at && symbol(protein, valid[v][t]) >= 0;
                same += t != at && symbol(protein, valid[v][t]) == wanted;
            }
            nats -= log((same + 100 * hits / sum) / (others + 100));
            symbols++;
        }
    return nats / symbols;
}

/* Both count models on two texts, against their definitions. Orders up to `most`. */
static void check_baseline(const char *tokenizer, char *const *train, int trains, char *const *valid, int valids,
                           int most)
{
    const char *fit = stores_path("fit.h5"), *held = stores_path("held.h5");
    const bool protein = strcmp(tokenizer, "nucleotide") != 0;
    struct token_store *fitted, *held_out;
    double nats;
    int64_t symbols, wanted_symbols;
    stores_write_as(tokenizer, fit, train, trains);
    stores_write_as(tokenizer, held, valid, valids);
    CHECK(token_store_open(&fitted, fit) == ERROR_NONE && token_store_open(&held_out, held) == ERROR_NONE);
    for (int order = 0; order <= most; order++) {
        double wanted = naive(protein, train, trains, valid, valids, order, &wanted_symbols);
        CHECK(baseline_evaluate(fitted, held_out, order, &nats, &symbols) == ERROR_NONE);
        CHECK_NEAR(nats, wanted, 1e-12, 0);
        CHECK(symbols == wanted_symbols);
    }
    CHECK(baseline_composition(fitted, held_out, &nats, &symbols) == ERROR_NONE);
    CHECK_NEAR(nats, naive_composition(protein, train, trains, valid, valids), 1e-12, 0);
    CHECK(symbols == wanted_symbols);
    CHECK(baseline_max_order(fitted->tokenizer) == (protein ? 4 : 12));
    CHECK_USER(baseline_evaluate(fitted, held_out, protein ? 5 : 13, &nats, &symbols), "order");
    CHECK_USER(baseline_evaluate(fitted, held_out, -1, &nats, &symbols), "order");
    token_store_close(fitted);
    token_store_close(held_out);
}

static void test_baseline(void)
{
    char *train[] = {memory_string("ACGTNacgtAAACCCGGGTTTACGATCGAT"), memory_string("TTTTACGT"), memory_string("A")};
    char *valid[] = {memory_string("ACGATNNTGCaaac"), memory_string("GG")};
    char *proteins[] = {memory_string("MKLVVKLVaXUZ*MKKL"), memory_string("LLMK"), memory_string("W")};
    check_baseline("nucleotide", train, 3, valid, 2, 4);
    check_baseline("esm2", proteins, 2, proteins + 1, 2, 3);

    const char *fit = stores_path("fit.h5"), *held = stores_path("held.h5"), *none = stores_path("none.h5");
    struct token_store *fitted, *other, *empty;
    double nats;
    int64_t symbols;
    stores_write(fit, train, 3);
    stores_write_as("esm2", held, proteins, 3);
    memset(train[2], 'N', 1);
    stores_write(none, train + 2, 1);
    CHECK(token_store_open(&fitted, fit) == ERROR_NONE && token_store_open(&other, held) == ERROR_NONE);
    CHECK(token_store_open(&empty, none) == ERROR_NONE);
    CHECK_USER(baseline_evaluate(fitted, other, 1, &nats, &symbols), "has nucleotide tokens");
    CHECK_USER(baseline_composition(fitted, other, &nats, &symbols), "has nucleotide tokens");
    CHECK_USER(baseline_evaluate(fitted, empty, 1, &nats, &symbols), "holds no bases");
    token_store_close(fitted);
    token_store_close(other);
    token_store_close(empty);
    stores_free(train, 3);
    stores_free(valid, 2);
    stores_free(proteins, 3);
}

/* Files of ../shared/data, where it is at hand. */
static void test_shared(void)
{
    const char *shared = getenv("CISTRON_SHARED");
    char path[512];
    snprintf(path, sizeof path, "%s/data/metagenomics.fasta", shared != NULL ? shared : "../shared");
    if (access(path, R_OK) != 0) {
        printf("%s is not at hand: its part is skipped\n", path);
        return;
    }
    struct token_store *store;
    CHECK(prepare(stores_path("m.h5"), NULL, path) == ERROR_NONE);
    CHECK(token_store_open(&store, stores_path("m.h5")) == ERROR_NONE);
    int64_t valid = 0;
    for (int64_t i = 0; i < store->token_count; i++)
        valid += i % 8192 != 0 && tokenizer_base(store->tokens[i]) >= 0;
    CHECK(store->sequences == 100 && store->token_count == 819200 && valid == 819087);
    token_store_close(store);
    snprintf(path, sizeof path, "%s/data/test_genomic_sequences.fasta", shared != NULL ? shared : "../shared");
    CHECK(prepare(stores_path("g.h5"), NULL, path) == ERROR_NONE);
    CHECK(token_store_open(&store, stores_path("g.h5")) == ERROR_NONE);
    char *sequences[STORES_PERIODIC];
    stores_periodic(sequences);
    CHECK(store->sequences == STORES_PERIODIC);
    for (int64_t i = 0; i < STORES_PERIODIC; i++)
        CHECK(memcmp(store->tokens + token_store_offset(store, i), sequences[i], strlen(sequences[i])) == 0);
    stores_free(sequences, STORES_PERIODIC);
    token_store_close(store);
}

/* Flags stand for good, so this comes last. */
static void test_signals(void)
{
    signals_catch();
    CHECK(signals_pending() == SIGNALS_NONE && !signals_take_save() && !signals_stopping());
    signal_send(SIGUSR2, SIGNALS_SAVE);
    CHECK(signals_pending() == SIGNALS_SAVE && !signals_stopping());
    CHECK(signals_take_save() && !signals_take_save());

    /* counting windows goes on through a wish to save, ends at one to stop, and leaves nothing */
    enum { SEQUENCES = 70000 };
    const char *path = stores_path("many.h5");
    static char *sequences[SEQUENCES], bases[] = "ACGT";
    for (int i = 0; i < SEQUENCES; i++)
        sequences[i] = bases;
    stores_write(path, sequences, SEQUENCES);
    struct comm *self = comm_self();
    struct token_store *store;
    struct windows *windows;
    const struct windows_layout layouts[] = {{64, 0, WINDOWS_EACH}, {64, 1, WINDOWS_EACH}};
    CHECK(token_store_open(&store, path) == ERROR_NONE);
    signal_send(SIGUSR2, SIGNALS_SAVE);
    CHECK(windows_open(&windows, store, &layouts[0], self) == ERROR_NONE);
    windows_close(windows);
    signal_send(SIGUSR1, SIGNALS_STOP);
    CHECK(signals_stopping() && signals_pending() == (SIGNALS_STOP | SIGNALS_SAVE));
    int before = files_in_folder();
    CHECK(windows_open(&windows, store, &layouts[1], self) == ERROR_REQUEUE && windows == NULL);
    CHECK(files_in_folder() == before);
    CHECK(windows_open(&windows, store, &layouts[0], self) == ERROR_NONE); /* nothing to count */
    windows_close(windows);
    token_store_close(store);
    comm_destroy(self);
}

int main(void)
{
    stores_begin();
    test_tokenizer();
    test_protein_tokenizers();
    test_fasta();
    test_jsonl();
    test_long_lines();
    test_prepare();
    test_store_refusals();
    test_split();
    test_windows();
    test_shuffle();
    test_baseline();
    test_shared();
    test_signals();
    stores_end();
    return check_end();
}
