/* Checkpoints: verified, then read into a toy model. The first input is the file as it was written. A later one stands,
 * as its bytes decide, beside the side file of the first (then nothing at all may crash, and no other bytes pass),
 * beside one made for it, or beside none: in these two HDF5 opens a damaged file, and where the library itself crashes
 * is told apart (doc/formats_checkpoints.md: that is what side files are for). */
#include "base/error.h"
#include "base/memory.h"
#include "fuzz/fuzz.h"
#include "file/block.h"
#include "checkpoint/carried.h"
#include "checkpoint/checkpoint_private.h"
#include "checkpoint/tuned_kernels.h"
#include "file/file.h"
#include "checkpoint/inspect.h"
#include "engine/engine.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

/* after HDF5's headers: both name tests' things */
#include "tiny_training.h"

const char *const fuzz_target_words[] = {
    "\x89HDF\r\n\x1a\n", "TREE", "HEAP", "SNOD", "OHDR", "GCOL", "\xff\xff\xff\xff\xff\xff\xff\xff", NULL};

static struct comm *world;
static struct training training;
static uint64_t written; /* hash of the file as it was written */

/* A right side file for what stands at path. */
static void write_side(const char *path, const char *side, size_t size)
{
    struct block_list list = {NULL, 0, 0};
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (block_list_complete(&list, file, path, (int64_t)size) != ERROR_NONE ||
        block_list_write(&list, side, (int64_t)size) != ERROR_NONE)
        error_fatal("%s: cannot be written", side);
    close(file);
    block_list_destroy(&list);
}

/* A checkpoint of the toy; its bytes are freed with free(). */
static void *write_checkpoint(bool with_optimizer, size_t *size)
{
    const char *path = fuzz_path("seed.h5");
    struct checkpoint_meta meta = {.deck_text = "model = { layers = 1; };\n", .version = "0", .step = 3, .seed = 42};
    struct carried_files carried = {0};
    const struct carried_tensor like = {.name = "head", .dtype = "F32", .dims = 2, .shape = {3, 2}, .bytes = 24};
    if (carried_add(&carried, path, &like) != ERROR_NONE)
        error_fatal("%s", error_message());
    meta.carried = &carried;
    meta.tuned_kernels = "choices";
    meta.tuned_kernels_bytes = 7;
    if (checkpoint_write(world, &training.toy.engine, &meta, path, with_optimizer) != ERROR_NONE)
        error_fatal("cannot write %s", path);
    carried_destroy(&carried);
    return fuzz_read(path, size);
}

/* The smallest model: most of its file is what HDF5 adds. */
static void begin(void)
{
    if (world != NULL)
        return;
    struct model_settings settings = toy_settings(true);
    settings.layers = 1;
    settings.hidden = settings.ffn = settings.vocabulary = 8;
    settings.heads = 2;
    settings.kv_heads = 1;
    settings.head_dim = 4;
    settings.precision = toy_precision(DECK_RECIPE_DELAYED); /* whose state is in the file too */
    world = comm_self();
    training_create(&training, world, &settings, DTYPE_F32);
    size_t size;
    void *data = write_checkpoint(true, &size);
    written = XXH3_64bits(data, size);
    write_side(fuzz_path("seed.h5"), fuzz_path("old.xxh3"), size);
    free(data);
}

void fuzz_target_seeds(void (*add)(const void *data, size_t size))
{
    begin();
    for (int with_optimizer = 1; with_optimizer >= 0; with_optimizer--) {
        size_t size;
        void *data = write_checkpoint(with_optimizer, &size);
        add(data, size);
        free(data);
    }
}

enum beside { BESIDE_OLD, BESIDE_NEW, BESIDE_NONE };

static int read_all(const char *path)
{
    struct checkpoint_meta meta;
    int code = checkpoint_read_meta(world, path, &meta);
    if (code == ERROR_NONE) {
        FUZZ_CHECK(strlen(meta.version) < sizeof meta.version);
        FUZZ_CHECK(meta.step >= 0 && meta.updates >= 0 && meta.tokens >= 0 && meta.step + 1 > 0 &&
                   meta.tokens * 2 >= 0);
        checkpoint_meta_destroy(&meta);
        code = checkpoint_read(world, &training.toy.engine, path, true);
    }
    struct carried_files carried;
    if (carried_read(path, &carried) == ERROR_NONE)
        FUZZ_CHECK(carried_bytes(&carried) >= 0 && carried_bytes(&carried) <= CARRIED_MOST_BYTES);
    carried_destroy(&carried);
    void *tuned_kernels;
    int64_t tuned_kernels_bytes;
    if (tuned_kernels_read(path, &tuned_kernels, &tuned_kernels_bytes) == ERROR_NONE)
        FUZZ_CHECK((tuned_kernels == NULL) == (tuned_kernels_bytes == 0));
    memory_free(tuned_kernels);
    inspect_run(path, false, false);
    return code;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint64_t hash = XXH3_64bits(data, size);
    const char *path = fuzz_path("input.h5"), *side = fuzz_path("input.h5.xxh3");
    begin();
    fuzz_write(path, data, size);
    enum beside beside = (enum beside)(hash % 3);
    file_remove(side);
    if (beside == BESIDE_OLD && link(fuzz_path("old.xxh3"), side) != 0)
        error_fatal("%s: cannot be made", side);
    if (beside == BESIDE_NEW)
        write_side(path, side, size);
    fuzz_hdf5_may_crash = beside != BESIDE_OLD && hash != written;
    error_clear();
    int code = checkpoint_examine(world, path, true);
    FUZZ_CHECK(code == ERROR_NONE || (code == ERROR_USER && error_message()[0] != '\0'));
    FUZZ_CHECK(code != ERROR_NONE || beside != BESIDE_OLD || hash == written);
    FUZZ_CHECK(code == ERROR_NONE || beside != BESIDE_NEW);
    error_clear();
    if (code == ERROR_NONE)
        code = read_all(path);
    FUZZ_CHECK(code == ERROR_NONE || hash != written);
    fuzz_accepted += code == ERROR_NONE;
    return 0;
}
