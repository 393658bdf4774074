/* 200 damaged checkpoints are set aside, and the checkpoint before each is used: flipped bits in the superblock,
 * headers, trees, heaps and tensors of the HDF5 file and in the side file, and truncated files. HDF5 never reads a
 * damaged byte, so nothing crashes, also under the sanitizer (t_sanitizer.sh). */
#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"
#include "check.h"
#include "checkpoint/checkpoint_private.h"
#include "tiny_training.h"

#include <fcntl.h>
#include <hdf5.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DAMAGES = 200, SUPERBLOCK_BYTES = 48, STRUCTURE_BYTES = 64, SIGNATURE_BYTES = 4 };

static char folder[4096];
static struct comm *self;

struct content {
    char *bytes; /* owned */
    int64_t count;
};

static struct content read_whole(const char *path)
{
    struct stat status;
    struct content content = {NULL, 0};
    int descriptor = open(path, O_RDONLY);
    if (descriptor < 0 || fstat(descriptor, &status) != 0)
        error_fatal("%s: cannot read it", path);
    content.count = status.st_size;
    content.bytes = memory_allocate(content.count);
    CHECK(read(descriptor, content.bytes, (size_t)content.count) == content.count);
    close(descriptor);
    return content;
}

static void write_whole(const char *path, const char *bytes, int64_t count)
{
    int descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    CHECK(descriptor >= 0 && write(descriptor, bytes, (size_t)count) == count);
    close(descriptor);
}

struct draws {
    struct random_key key;
    uint64_t next;
};

static int64_t draw(struct draws *draws, int64_t below)
{
    return (int64_t)(random_bits(&draws->key, draws->next++) % (uint64_t)below);
}

/* -- Where ------------------------------------------------------------------------------------------------------- */

enum json_place { PLACE_SUPERBLOCK, PLACE_HEADER, PLACE_TREE, PLACE_HEAP, PLACE_TENSORS, PLACE_SIDE, PLACES };

static const char *const place_names[PLACES] = {"superblock", "object header", "tree", "heap", "tensors", "side file"};

/* What starts a structure of HDF5 (File Format Specification 3.0): object headers and their continuations; version 2
 * B-trees (header, leaf, internal node); fractal heaps (header, direct and indirect block). */
static const struct {
    enum json_place place;
    char signature[SIGNATURE_BYTES + 1];
} structures[] = {{PLACE_HEADER, "OHDR"}, {PLACE_HEADER, "OCHK"}, {PLACE_TREE, "BTHD"}, {PLACE_TREE, "BTLF"},
                  {PLACE_TREE, "BTIN"},   {PLACE_HEAP, "FRHP"},   {PLACE_HEAP, "FHDB"}, {PLACE_HEAP, "FHIB"}};

enum { STRUCTURES = sizeof structures / sizeof structures[0] };

/* Whether a structure of the place starts there. */
static bool starts(const struct content *file, int64_t at, enum json_place place)
{
    for (int s = 0; s < STRUCTURES; s++)
        if (structures[s].place == place && at + SIGNATURE_BYTES <= file->count &&
            memcmp(file->bytes + at, structures[s].signature, SIGNATURE_BYTES) == 0)
            return true;
    return false;
}

/* A byte of the place, -1 if the file has no such structure. */
static int64_t byte_in(struct draws *draws, const struct content *file, enum json_place place)
{
    if (place == PLACE_SUPERBLOCK)
        return draw(draws, SUPERBLOCK_BYTES);
    if (place == PLACE_TENSORS || place == PLACE_SIDE)
        return draw(draws, file->count);
    int64_t count = 0, at = 0;
    for (int64_t i = 0; i < file->count; i++)
        count += starts(file, i, place);
    if (count == 0)
        return -1;
    for (int64_t chosen = draw(draws, count); chosen >= 0; at++)
        chosen -= starts(file, at, place);
    at += draw(draws, STRUCTURE_BYTES) - 1;
    return at < file->count ? at : file->count - 1;
}

/* -- Damage ------------------------------------------------------------------------------------------------------ */

struct files {
    char *newest, *newest_side, *before;
    struct content file, side; /* of the newest, as they were written */
};

/* Puts the newest checkpoint back, but for one thing; says what. */
static char *damage(struct draws *draws, const struct files *files, enum json_place place, bool truncation)
{
    const struct content *whole = place == PLACE_SIDE ? &files->side : &files->file;
    char *bytes = memory_allocate(whole->count), *said;
    int64_t count = whole->count, at = byte_in(draws, whole, place);
    CHECK(at >= 0);
    memcpy(bytes, whole->bytes, (size_t)count);
    if (truncation) {
        count = at;
        said = memory_format("%s: cut off at byte %lld", place_names[place], (long long)at);
    } else {
        int bit = (int)draw(draws, 8);
        bytes[at] = (char)(bytes[at] ^ 1 << bit);
        said = memory_format("%s: bit %d of byte %lld", place_names[place], bit, (long long)at);
    }
    write_whole(files->newest, files->file.bytes, files->file.count);
    write_whole(files->newest_side, files->side.bytes, files->side.count);
    write_whole(place == PLACE_SIDE ? files->newest_side : files->newest, bytes, count);
    memory_free(bytes);
    return said;
}

/* The damaged file stands aside, the one before is found, and is what was saved. */
static bool survived(const struct files *files, struct training *reader, uint64_t digest)
{
    char *found = NULL, *bad = memory_format("%s.bad", files->newest);
    char *bad_side = memory_format("%s.bad", files->newest_side);
    bool good = checkpoint_find(self, folder, &found) == ERROR_NONE && found != NULL &&
                strcmp(found, files->before) == 0 && access(bad, F_OK) == 0 && access(bad_side, F_OK) == 0 &&
                access(files->newest, F_OK) != 0 && access(files->newest_side, F_OK) != 0;
    good = good && checkpoint_read(self, &reader->toy.engine, files->before, true) == ERROR_NONE &&
           checkpoint_digest(self, &reader->toy.engine) == digest;
    unlink(bad);
    unlink(bad_side);
    free(found);
    free(bad);
    free(bad_side);
    return good;
}

static char *save(struct training *t)
{
    struct checkpoint_meta meta = {
        .deck_text = "# none\n", .version = "0.0-test", .step = engine_updates(&t->toy.engine)};
    char *path = checkpoint_path(folder, meta.step);
    CHECK(checkpoint_write(self, &t->toy.engine, &meta, path, true) == ERROR_NONE);
    return path;
}

int main(void)
{
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/t_damage.XXXXXX", base == NULL || *base == '\0' ? "." : base);
    if (mkdtemp(folder) == NULL)
        error_fatal("cannot make the folder %s", folder);
    self = comm_self();
    struct model_settings settings = toy_settings(TOY_LLAMA);
    struct training t, reader;
    struct files files;
    training_create(&t, self, &settings, DTYPE_F32);
    training_create(&reader, self, &settings, DTYPE_F32);
    train(&t, 1);
    files.before = save(&t);
    const uint64_t digest = checkpoint_digest(self, &t.toy.engine);
    train(&t, 1);
    files.newest = save(&t);
    CHECK(checkpoint_digest(self, &t.toy.engine) != digest);
    files.newest_side = memory_format("%s.xxh3", files.newest);
    files.file = read_whole(files.newest);
    files.side = read_whole(files.newest_side);

    char *found = NULL;
    CHECK(checkpoint_find(self, folder, &found) == ERROR_NONE && found != NULL);
    CHECK_STRING(found, files.newest);
    free(found);

    int done[PLACES] = {0};
    for (int i = 0; i < DAMAGES; i++) {
        struct draws draws = {{17, RANDOM_TEST, (uint64_t)i}, 0};
        enum json_place place = (enum json_place)(i % PLACES);
        char *said = damage(&draws, &files, place, i / PLACES % 4 == 3);
        if (!CHECK(survived(&files, &reader, digest)))
            fprintf(stderr, "    damage %d, %s\n", i, said);
        done[place]++;
        free(said);
    }
    for (int p = 0; p < PLACES; p++)
        printf("%s%s %d", p == 0 ? "damaged: " : ", ", place_names[p], done[p]);
    printf("\n");

    /* whole, but of a place in no store: not from this program */
    write_whole(files.newest, files.file.bytes, files.file.count);
    hid_t file = H5Fopen(files.newest, H5F_ACC_RDWR, H5P_DEFAULT);
    CHECK(H5Adelete_by_name(file, "data", "epoch", H5P_DEFAULT) >= 0);
    CHECK(H5Fclose(file) >= 0);
    struct checkpoint_meta meta;
    CHECK(checkpoint_load_meta(files.newest, &meta) == ERROR_USER);
    CHECK(strstr(error_message(), "an attribute of /meta or /data is missing or wrong") != NULL);
    error_clear();

    training_destroy(&reader);
    training_destroy(&t);
    memory_free(files.file.bytes);
    memory_free(files.side.bytes);
    free(files.newest);
    free(files.newest_side);
    free(files.before);
    comm_destroy(self);
    char *command = memory_format("rm -r '%s'", folder);
    CHECK(system(command) == 0);
    free(command);
    return check_end();
}
