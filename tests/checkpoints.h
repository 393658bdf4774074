/* For tests of checkpoints on several ranks: a folder of files, and checkpoints of a tiny training. */
#ifndef TESTS_CHECKPOINTS_H
#define TESTS_CHECKPOINTS_H

#include "check.h"
#include "rank_folder.h"
#include "tiny_training.h"

#include "base/error.h"
#include "checkpoint/checkpoint_private.h"
#include "file/hdf5_file.h"
#include "state/initialise.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static struct comm *world;
static char *folder;

/* Runs a shell command on rank 0; format gets the folder and the name. Returns its exit status on all ranks. */
static inline int shell(const char *format, const char *name)
{
    int64_t status = 0;
    if (world->rank == 0) {
        char *command = memory_format(format, folder, name);
        int result = system(command);
        status = WIFEXITED(result) ? WEXITSTATUS(result) : 255;
        free(command);
    }
    comm_broadcast(world, &status, sizeof status, 0);
    return (int)status;
}

static inline char *in_folder(const char *name)
{
    return memory_format("%s/%s", folder, name);
}

static inline bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static inline int64_t file_bytes(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 ? status.st_size : -1;
}

/* Flips a bit (0x20) of one byte on rank 0, between barriers. */
static inline void flip(const char *path, int64_t offset)
{
    comm_barrier(world);
    if (world->rank == 0) {
        unsigned char byte = 0;
        int descriptor = open(path, O_RDWR);
        bool good = descriptor >= 0 && pread(descriptor, &byte, 1, offset) == 1;
        byte ^= 0x20;
        CHECK(good && pwrite(descriptor, &byte, 1, offset) == 1);
        close(descriptor);
    }
    comm_barrier(world);
}

static const char deck_text[] = "model: { preset = \"tiny\"; };\n# a comment with \"quotes\" and a µ\n";

static inline struct checkpoint_meta meta_of(struct training *t)
{
    static int64_t epoch[] = {3}, window[] = {5000000000}, before[] = {4}, key[] = {9};
    struct checkpoint_meta meta = {.deck_text = (char *)deck_text,
                                   .version = "0.0-test",
                                   .step = engine_updates(&t->toy.engine),
                                   .tokens = 123456789012345,
                                   .seed = 42,
                                   .position = {1, epoch, window, before, key, 7},
                                   .tokenizer = "nucleotide",
                                   .vocabulary = 256,
                                   .validation_step = 70,
                                   .best_step = 60,
                                   .best_loss = 1.0 / 3};
    return meta;
}

static inline int save(struct training *t, const char *path, bool with_optimizer)
{
    struct checkpoint_meta meta = meta_of(t);
    return checkpoint_write(world, &t->toy.engine, &meta, path, with_optimizer);
}

static inline char *save_step(struct training *t)
{
    char *path = checkpoint_path(folder, engine_updates(&t->toy.engine));
    CHECK(save(t, path, true) == ERROR_NONE);
    return path;
}

/* Returns on all ranks whether a checkpoint has a dataset. */
static inline bool file_has(const char *path, const char *dataset)
{
    int64_t has = 0;
    if (world->rank == 0) {
        hid_t file;
        CHECK(hdf5_open(&file, path) == ERROR_NONE);
        has = hdf5_has(file, dataset);
        H5Fclose(file);
    }
    comm_broadcast(world, &has, sizeof has, 0);
    return has != 0;
}

/* Trains to step 3, with checkpoints of steps 2 (before) and 3 (path). The paths are freed with free(). */
static inline void save_two(struct training *t, char **before, char **path)
{
    struct model_settings settings = toy_settings(TOY_LLAMA);
    training_create(t, world, &settings, DTYPE_F32);
    engine_initialise(&t->toy.engine, 5);
    train(t, 2);
    *before = save_step(t);
    train(t, 1);
    *path = save_step(t);
}

/* Checks that a flipped bit in the byte at `at` of the file `damaged` is noticed. */
static inline void check_noticed(const char *path, const char *damaged, int64_t at)
{
    flip(damaged, at);
    CHECK(checkpoint_examine(world, path, true) == ERROR_USER);
    CHECK(strstr(error_message(), damaged) != NULL);
    error_clear();
    flip(damaged, at);
}

#endif
