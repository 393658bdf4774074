/* Models written in the safetensors format (bridge/safetensors_writer.h) are read back, as one file and as shards; a
 * writer that fails leaves no file.
 *
 * With a folder as the argument, the test only writes three models there, for t_safetensors_python.sh. */
#include "bridge/safetensors_writer.h"
#include "safetensors_files.h"
#include "stores.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* Types of all sizes, so that order and alignment show; a scalar, empty ones, a name to be escaped. */
static const struct safetensors_entry written[] = {
    {.name = "b.weight", .dtype = SAFETENSORS_BF16, .dims = 2, .shape = {3, 5}},
    {.name = "a.weight", .dtype = SAFETENSORS_F32, .dims = 2, .shape = {4, 6}},
    {.name = "mask", .dtype = SAFETENSORS_BOOL, .dims = 1, .shape = {3}},
    {.name = "half", .dtype = SAFETENSORS_F16, .dims = 1, .shape = {7}},
    {.name = "none", .dtype = SAFETENSORS_F32, .dims = 2, .shape = {0, 4}},
    {.name = "position", .dtype = SAFETENSORS_I64, .dims = 0},
    {.name = "n\xc3\xa4me \"x\\", .dtype = SAFETENSORS_F64, .dims = 1, .shape = {2}},
    {.name = "e4m3", .dtype = SAFETENSORS_F8_E4M3, .dims = 3, .shape = {1, 3, 3}},
};

enum { WRITTEN = sizeof written / sizeof written[0], LARGEST = 96 /* bytes of a tensor above */ };

static int64_t written_bytes(int64_t i)
{
    return safetensors_dtype_bytes(written[i].dtype, written[i].dims, written[i].shape);
}

/* Byte k of tensor i; read_safetensors.py has it too. */
static uint8_t byte_of(int64_t i, int64_t k)
{
    return (uint8_t)(written[i].dtype == SAFETENSORS_BOOL ? k % 2 : (37 * i + 11 * k + 5) % 251);
}

/* The tensors in turns, their last bytes first, in pieces of 7. */
static int write_pieces(struct safetensors_writer *writer)
{
    int code = ERROR_NONE;
    for (int64_t end = LARGEST; end > 0; end -= 7)
        for (int64_t i = WRITTEN - 1; i >= 0 && code == ERROR_NONE; i--) {
            int64_t last = end < written_bytes(i) ? end : written_bytes(i), first = end > 7 ? end - 7 : 0;
            uint8_t piece[7];
            for (int64_t k = first; k < last; k++)
                piece[k - first] = byte_of(i, k);
            if (first < last)
                code = safetensors_writer_write(writer, i, first, last - first, piece);
        }
    return code;
}

static struct safetensors_writer *begin_model(const char *folder, int64_t shard_bytes)
{
    struct safetensors_writer *writer;
    error_clear();
    if (safetensors_writer_create(&writer, folder, written, WRITTEN, shard_bytes, 0) != ERROR_NONE)
        error_fatal("%s", error_message());
    return writer;
}

static void write_written(const char *folder, int64_t shard_bytes)
{
    struct safetensors_writer *writer = begin_model(folder, shard_bytes);
    if (write_pieces(writer) != ERROR_NONE || safetensors_writer_commit(writer) != ERROR_NONE)
        error_fatal("%s", error_message());
    safetensors_writer_destroy(writer);
}

/* What transformers asks for stands at the front of the file. */
static bool has_format(const char *path)
{
    static const char format[] = "{\"__metadata__\":{\"format\":\"pt\"}";
    char front[8 + sizeof format] = "";
    FILE *file = fopen(path, "rb");
    bool good = file != NULL && fread(front, sizeof front - 1, 1, file) == 1 && strcmp(front + 8, format) == 0;
    if (file != NULL)
        fclose(file);
    return good;
}

static void check_written(const char *folder, int files)
{
    struct safetensors *st = open_good(folder);
    CHECK(st->count == WRITTEN && st->file_count == files);
    for (int64_t i = 0; i < WRITTEN; i++) {
        const struct safetensors_entry *entry = safetensors_find(st, written[i].name);
        CHECK(entry != NULL && entry->dtype == written[i].dtype && entry->dims == written[i].dims);
        CHECK(has_format(safetensors_path(st, entry)));
        CHECK(memcmp(entry->shape, written[i].shape, sizeof entry->shape) == 0);
        CHECK(entry->bytes == written_bytes(i) && entry->position % safetensors_dtype_size(entry->dtype) == 0);
        uint8_t *data = read_whole(st, entry), byte;
        int64_t wrong = 0;
        for (int64_t k = 0; k < entry->bytes; k++) {
            CHECK(safetensors_read(st, entry, k, 1, &byte) == ERROR_NONE);
            wrong += data[k] != byte_of(i, k) || byte != data[k];
        }
        CHECK(wrong == 0);
        free(data);
    }
    safetensors_close(st);
}

/* The names in a folder, sorted, with a space behind each; good until the next call. */
static const char *names_in(const char *folder)
{
    static char names[1000];
    struct dirent **entries;
    int count = scandir(folder, &entries, NULL, alphasort);
    names[0] = '\0';
    for (int i = 0; i < count; i++) {
        if (entries[i]->d_name[0] != '.')
            strcat(strcat(names, entries[i]->d_name), " ");
        free(entries[i]);
    }
    free(entries);
    return names;
}

#define SHARDS3                                                                                                        \
    "model-00001-of-00003.safetensors model-00002-of-00003.safetensors "                                               \
    "model-00003-of-00003.safetensors "
static const char single[] = "model.safetensors ", sharded[] = SHARDS3 "model.safetensors.index.json ";

enum { IN_ONE = 1 << 20, IN_THREE = 99 /* 30, 96 + 3, 14 + 8 + 16 + 9 bytes */ };

static void test_round_trip(void)
{
    const char *folder = stores_path("written");
    CHECK(mkdir(folder, 0777) == 0);
    write_file(in_folder(folder, "config.json"), "{}", 2);
    write_written(folder, IN_ONE);
    check_written(folder, 1);
    CHECK_STRING(names_in(folder), "config.json model.safetensors ");
    /* the length of a header is a multiple of 8 */
    uint8_t first[16];
    int file = open(in_folder(folder, SAFETENSORS_SINGLE), O_RDONLY);
    CHECK(read(file, first, 16) == 16 && first[0] % 8 == 0 && first[8] == '{');
    close(file);

    /* one model takes another's place, and what is not of a model stays */
    write_file(in_folder(folder, "model-1-of-2.txt"), "", 0);
    write_file(in_folder(folder, "model-00001-of-00007.safetensors"), "", 0);
    write_file(in_folder(folder, "model-00001-of-00007.safetensors.old"), "", 0);
    write_written(folder, IN_THREE);
    check_written(folder, 3);
    CHECK_STRING(names_in(folder), "config.json model-00001-of-00003.safetensors model-00001-of-00007.safetensors.old "
                                   "model-00002-of-00003.safetensors model-00003-of-00003.safetensors model-1-of-2.txt "
                                   "model.safetensors.index.json ");
    write_written(folder, IN_THREE);
    check_written(folder, 3);
    write_written(folder, 1); /* a tensor of its own for each file that has bytes */
    check_written(folder, 7);
    write_written(folder, IN_ONE);
    check_written(folder, 1);
    CHECK_STRING(names_in(folder),
                 "config.json model-00001-of-00007.safetensors.old model-1-of-2.txt model.safetensors ");

    struct safetensors_writer *writer;
    CHECK(safetensors_writer_create(&writer, folder, NULL, 0, IN_ONE, 0) == ERROR_NONE);
    CHECK(safetensors_writer_commit(writer) == ERROR_NONE);
    safetensors_writer_destroy(writer);
    struct safetensors *st = open_good(folder);
    CHECK(st->count == 0);
    safetensors_close(st);
}

/* A shard's header says what the index says; total_size counts data alone. */
static void test_index(void)
{
    const char *folder = stores_path("indexed");
    CHECK(mkdir(folder, 0777) == 0);
    write_written(folder, IN_THREE);
    char text[2000] = "";
    FILE *file = fopen(in_folder(folder, SAFETENSORS_INDEX), "r");
    CHECK(fread(text, 1, sizeof text - 1, file) > 0);
    fclose(file);
    CHECK(strstr(text, "\"total_size\": 176") != NULL);
    CHECK(strstr(text, "\"mask\": \"model-00002-of-00003.safetensors\"") != NULL);
    CHECK(strstr(text, "\"b.weight\": \"model-00001-of-00003.safetensors\"") != NULL);
    CHECK(strstr(text, "\"e4m3\": \"model-00003-of-00003.safetensors\"") != NULL);
}

/* A writer that is given up, or fails, leaves the folder as it was. */
static void test_failures(void)
{
    const char *folder = stores_path("failed");
    struct safetensors_writer *writer;
    CHECK(mkdir(folder, 0777) == 0);
    for (int shards = 0; shards < 2; shards++) {
        writer = begin_model(folder, shards ? IN_THREE : IN_ONE);
        CHECK(write_pieces(writer) == ERROR_NONE && strstr(names_in(folder), ".tmp-") != NULL);
        safetensors_writer_destroy(writer);
        CHECK_STRING(names_in(folder), "");
    }
    error_clear();
    CHECK(safetensors_writer_create(&writer, stores_path("no/folder"), written, WRITTEN, IN_ONE, 0) == ERROR_USER);
    CHECK(writer == NULL && strstr(error_message(), "no/folder/model.safetensors") != NULL);
    error_clear();
    struct safetensors_entry twice[2] = {written[0], written[0]};
    CHECK(safetensors_writer_create(&writer, folder, twice, 2, IN_ONE, 0) == ERROR_USER);
    CHECK(strstr(error_message(), "two tensors have the name b.weight") != NULL);
    error_clear();
    twice[1].name = "__metadata__";
    CHECK(safetensors_writer_create(&writer, folder, twice, 2, IN_ONE, 0) == ERROR_USER);
    CHECK(strstr(error_message(), "__metadata__") != NULL);
    error_clear();
    twice[1].name = "\xff";
    CHECK(safetensors_writer_create(&writer, folder, twice, 2, IN_ONE, 0) == ERROR_USER);
    CHECK(strstr(error_message(), "not UTF-8") != NULL);
    CHECK_STRING(names_in(folder), "");

    /* the system takes no more bytes: in the header, in the data */
    struct rlimit before, limit;
    struct stat status;
    write_written(folder, IN_ONE);
    CHECK(stat(in_folder(folder, SAFETENSORS_SINGLE), &status) == 0);
    CHECK(unlink(in_folder(folder, SAFETENSORS_SINGLE)) == 0);
    getrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_IGN);
    for (int data = 0; data < 2; data++) {
        limit = before;
        limit.rlim_cur = data ? (rlim_t)status.st_size - 1 : 20;
        setrlimit(RLIMIT_FSIZE, &limit);
        error_clear();
        int code = safetensors_writer_create(&writer, folder, written, WRITTEN, IN_ONE, 0);
        CHECK(code == (data ? ERROR_NONE : ERROR_ENVIRONMENT) && (writer != NULL) == data);
        if (writer != NULL)
            code = write_pieces(writer);
        setrlimit(RLIMIT_FSIZE, &before);
        CHECK(code == ERROR_ENVIRONMENT && strstr(error_message(), "cannot write") != NULL);
        CHECK(strstr(error_message(), "failed/model.safetensors") != NULL);
        safetensors_writer_destroy(writer);
        CHECK_STRING(names_in(folder), "");
    }

    /* the last shard's place is taken by a folder: those before it go again */
    CHECK(mkdir(in_folder(folder, "model-00003-of-00003.safetensors"), 0777) == 0);
    writer = begin_model(folder, IN_THREE);
    CHECK(write_pieces(writer) == ERROR_NONE && safetensors_writer_commit(writer) == ERROR_ENVIRONMENT);
    CHECK(strstr(error_message(), "model-00003-of-00003.safetensors") != NULL);
    safetensors_writer_destroy(writer);
    CHECK_STRING(names_in(folder), "model-00003-of-00003.safetensors ");
    CHECK(rmdir(in_folder(folder, "model-00003-of-00003.safetensors")) == 0);

    /* while the files of a sharded model take their places, no index names them */
    write_written(folder, IN_THREE);
    CHECK_STRING(names_in(folder), sharded);
    CHECK(unlink(in_folder(folder, "model-00002-of-00003.safetensors")) == 0);
    CHECK(mkdir(in_folder(folder, "model-00002-of-00003.safetensors"), 0777) == 0);
    writer = begin_model(folder, IN_THREE);
    CHECK(write_pieces(writer) == ERROR_NONE && safetensors_writer_commit(writer) == ERROR_ENVIRONMENT);
    CHECK(access(in_folder(folder, SAFETENSORS_INDEX), F_OK) != 0);
    safetensors_writer_destroy(writer);
    error_clear();

    /* a writer that is given up leaves the model before it */
    CHECK(rmdir(in_folder(folder, "model-00002-of-00003.safetensors")) == 0);
    write_written(folder, IN_ONE);
    writer = begin_model(folder, IN_THREE);
    CHECK(write_pieces(writer) == ERROR_NONE);
    safetensors_writer_destroy(writer);
    CHECK_STRING(names_in(folder), single);
    check_written(folder, 1);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        static const int64_t shard_bytes[] = {IN_ONE, IN_THREE, 1};
        static const char *const folders[] = {"one", "three", "each"};
        for (int i = 0; i < 3; i++) {
            const char *folder = in_folder(argv[1], folders[i]);
            CHECK(mkdir(folder, 0777) == 0);
            write_written(folder, shard_bytes[i]);
        }
        return check_end();
    }
    stores_begin();
    test_round_trip();
    test_index();
    test_failures();
    stores_end();
    return check_end();
}
