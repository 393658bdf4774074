/* Records become token stores: prepare, split, the mistakes that a store refuses, and the figures of the recipes'
 * data. */
#include "base/random.h"
#include "prepare/prepare.h"
#include "prepare/split.h"
#include "data/token_store.h"
#include "data_files.h"
#include "records.h"

#include <hdf5.h>
#include <sys/stat.h>
#include <unistd.h>

static int prepare(const char *output, const char *split, const char *input)
{
    return records_prepare(NULL, false, output, split, input);
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
    CHECK_USER(prepare_run(&unknown), "tokenizer words: unknown");
    CHECK_USER(prepare(stores_path("p.h5/x.h5"), NULL, input), "its folder cannot be created: Not a directory");
    CHECK(files_in_folder() == before);
    CHECK(token_store_open(&store, output) == ERROR_NONE);
    token_store_close(store);
}

static void set_attribute(const char *path, const char *object, const char *name, uint64_t value)
{
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    hid_t owner = H5Oopen(file, object, H5P_DEFAULT), attribute = H5Aopen(owner, name, H5P_DEFAULT);
    CHECK(attribute >= 0 && H5Awrite(attribute, H5T_NATIVE_UINT64, &value) >= 0);
    H5Aclose(attribute);
    H5Oclose(owner);
    H5Fclose(file);
}

static void test_store_refusals(void)
{
    const char *path = stores_path("bad.h5");
    struct token_store *store;
    CHECK_USER(token_store_open(&store, stores_path("absent.h5")), "cannot open");
    write_file(path, "wb", ">a\nACGT\n", 8);
    CHECK_USER(token_store_open(&store, path), "not an HDF5 file");
    H5Fclose(H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    CHECK_USER(token_store_open(&store, path), "cistron_store");
    stores_write_periodic(path);
    CHECK(token_store_open(&store, path) == ERROR_NONE);
    token_store_close(store);
    struct stat status;
    stat(path, &status);
    CHECK(truncate(path, status.st_size - 8) == 0);
    CHECK_USER(token_store_open(&store, path), "truncated");
    CHECK(truncate(path, 3000) == 0);
    CHECK_USER(token_store_open(&store, path), "truncated");
    CHECK(unlink(path) == 0 && mkfifo(path, 0600) == 0);
    CHECK_USER(token_store_open(&store, path), "not a regular file"); /* and is not waited for */
    CHECK(unlink(path) == 0);

    /* a checksum, and the digests that it is of */
    stores_write_periodic(path);
    set_attribute(path, "/", "checksum", 5);
    CHECK_USER(token_store_open(&store, path), "its checksum does not match the hashes of its arrays");
    stores_write_periodic(path);
    set_attribute(path, "/offsets", "xxh3", 5);
    CHECK_USER(token_store_open(&store, path), "its checksum does not match the hashes of its arrays");
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    CHECK(H5Adelete(file, "checksum") >= 0 && H5Fclose(file) >= 0);
    CHECK(token_store_open(&store, path) == ERROR_NONE && !store->has_checksum && store->checksum == 0); /* warns */
    CHECK_USER(token_store_verify(store), "has no checksum");
    token_store_close(store);
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

int main(void)
{
    stores_begin();
    test_prepare();
    test_store_refusals();
    test_split();
    test_shared();
    stores_end();
    return check_end();
}
