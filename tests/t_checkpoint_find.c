/* A run finds the newest checkpoint that is whole: flipped bytes and truncated files are noticed, also while the file
 * is read, and the file before is used. The test also checks which files are kept.
 *
 * ranks: 4 */
#include "checkpoints.h"
#include "shard_view.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"

#include <mpi.h>
#include <stdlib.h>

/* What a run that looks for a checkpoint finds; "" for none, NULL on error. Freed with free(). */
static char *found_in(const char *where)
{
    char *path;
    int code = checkpoint_find(world, where, &path);
    return code != ERROR_NONE ? NULL : path == NULL ? memory_string("") : path;
}

static void check_found(const char *where, const char *wanted)
{
    char *path = found_in(where);
    CHECK(path != NULL);
    if (path != NULL)
        CHECK_STRING(path, wanted);
    free(path);
}

/* Loads a file that find_to_load has taken, on ranks that hold one of so many cuts each; must it be found damaged? */
static void check_loaded(struct comm *comm, const char *path, int shards, struct training *saved, bool damaged,
                         uint64_t digest)
{
    struct training t;
    struct view view;
    bool found = !damaged;
    training_create(&t, comm, &saved->toy.model.settings, DTYPE_F32);
    view_open(&view, &t.toy.engine, comm, shards);
    CHECK(checkpoint_examine(comm, path, false) == ERROR_NONE);
    CHECK(checkpoint_load(comm, &t.toy.engine, path, true, &found) == (damaged ? ERROR_USER : ERROR_NONE));
    CHECK(found == damaged && (strstr(error_message(), "is damaged: bytes ") != NULL) == damaged);
    error_clear();
    CHECK(damaged || checkpoint_digest(comm, &t.toy.engine) == digest);
    view_close(&view, &t.toy.engine);
    training_destroy(&t);
}

/* Hashed while it is loaded: a flipped byte of a tensor is found by ranks of the layout that wrote it and by others;
 * one of what HDF5 parses before it opens the file. */
static void test_load(struct training *saved, const char *path, uint64_t digest)
{
    struct block_list list;
    struct comm *alone = comm_split(world, world->rank), *others = comm_split(world, world->rank / 3);
    struct comm *const comms[] = {world, others, alone};
    const int shards[] = {1, 3, 2};
    int64_t tensors = 0;
    CHECK(checkpoint_share_blocks(world, path, &list) == ERROR_NONE);
    for (int c = 0; c < 3; c++)
        for (int s = 0; s < 3 && shards[s] <= comms[c]->size; s++)
            check_loaded(comms[c], path, shards[s], saved, false, digest);
    for (int64_t i = 0; i < list.count; i++) {
        const struct hash_block *block = &list.blocks[i];
        const int64_t at = block->offset + (i % 3 == 0 ? 0 : i % 3 == 1 ? block->length / 2 : block->length - 1);
        tensors += block->tensor;
        if (block->tensor && tensors % 5 != 1 && i + 2 < list.count)
            continue; /* some of them */
        flip(path, at);
        CHECK((checkpoint_examine(world, path, false) == ERROR_NONE) == block->tensor);
        error_clear();
        const int c = (int)(tensors / 5 % 3);
        if (block->tensor)
            check_loaded(comms[c], path, comms[c]->size > 1 ? shards[tensors / 5 % 2] : 1, saved, true, digest);
        flip(path, at);
    }
    CHECK(tensors > 10 && tensors < list.count);
    block_list_destroy(&list);
    comm_destroy(others);
    comm_destroy(alone);
}

/* A flipped byte at any place, and a missing end, make `path` bad and its forerunner the one that is found. */
static void test_damage(const char *path, const char *before)
{
    char *side = memory_format("%s.xxh3", path), *kept = in_folder("kept.h5");
    int64_t bytes = file_bytes(path), side_bytes = file_bytes(side);
    for (int64_t at = 0; at < bytes; at += at < 16     ? 1
                                           : at < 2000 ? 97
                                                       : bytes / 23) /* superblock, headers, all over */
        check_noticed(path, path, at);
    check_noticed(path, path, bytes - 1);
    for (int64_t at = 0; at < side_bytes; at += at < 30 ? 1 : side_bytes / 29)
        check_noticed(path, side, at);
    for (int64_t back = 1; back <= 21; back++) /* its last line */
        check_noticed(path, side, side_bytes - back);
    CHECK(checkpoint_verify(world, path) == ERROR_NONE);

    check_found(folder, path);
    CHECK(shell("cp '%1$s/%2$s' '%1$s/kept.h5' && cp '%1$s/%2$s.xxh3' '%1$s/kept.h5.xxh3'", strrchr(path, '/') + 1) ==
          0);
    if (world->rank == 0)
        CHECK(truncate(path, bytes - 1) == 0);
    comm_barrier(world);
    CHECK(found_in(path) == NULL); /* named itself, a bad file is an error */
    check_found(folder, before);
    char *bad = memory_format("%s.bad", path);
    CHECK(exists(bad) && !exists(path) && !exists(side));
    comm_barrier(world);

    /* a side file cut short, then none at all */
    CHECK(shell("cp '%1$s/kept.h5' '%1$s/%2$s' && head -c 100 '%1$s/kept.h5.xxh3' > '%1$s/%2$s.xxh3'",
                strrchr(path, '/') + 1) == 0);
    CHECK(checkpoint_verify(world, path) == ERROR_USER);
    CHECK(shell("rm '%s/%s.xxh3'", strrchr(path, '/') + 1) == 0);
    check_found(folder, path);
    if (world->rank == 0)
        CHECK(truncate(path, bytes - 100) == 0);
    comm_barrier(world);
    check_found(folder, before);
    CHECK(shell("cp '%1$s/kept.h5' '%1$s/%2$s' && mv '%1$s/kept.h5.xxh3' '%1$s/%2$s.xxh3' && rm '%1$s/kept.h5' "
                "'%1$s/'*.bad",
                strrchr(path, '/') + 1) == 0);
    check_found(folder, path);
    free(bad);
    free(side);
    free(kept);
}

/* The best and each hundredth stay, whatever the number kept. */
static void test_prune_exempt(struct training *t)
{
    static const struct {
        int64_t step;
        bool stays;
    } files[] = {{100, true}, {130, true}, {140, false}, {200, true}, {250, false}, {260, true}, {270, true}};
    enum { FILES = sizeof files / sizeof files[0] };
    CHECK(shell("cd '%s' && rm -f step_*", "") == 0);
    for (int i = 0; i < FILES; i++) {
        char *path = checkpoint_path(folder, files[i].step);
        CHECK(save(t, path, true) == ERROR_NONE);
        free(path);
    }
    const struct checkpoint_rule rule = {.keep = 2, .keep_every = 100, .best_step = 130};
    CHECK(checkpoint_prune(world, folder, &rule) == ERROR_NONE);
    for (int i = 0; i < FILES; i++) {
        char *path = checkpoint_path(folder, files[i].step);
        CHECK(exists(path) == files[i].stays);
        free(path);
    }
}

static void test_prune(struct training *t)
{
    char *sub = in_folder("prune"), *whole = folder, *paths[5];
    if (world->rank == 0)
        mkdir(sub, 0777);
    comm_barrier(world);
    folder = sub;
    check_found(folder, "");
    for (int i = 0; i < 5; i++) {
        paths[i] = checkpoint_path(folder, 100000000 * (int64_t)i + 7); /* the last ones have nine digits */
        CHECK(save(t, paths[i], true) == ERROR_NONE);
    }
    CHECK(shell("cd '%s' && touch step_00000009.h5.tmp step_00000009.h5.xxh3.tmp step_00000009.h5.xxh3 notes.tmp "
                "step_9.h5 && rm step_300000007.h5.xxh3",
                "") == 0);
    CHECK(checkpoint_prune(world, folder, &(struct checkpoint_rule){.keep = 2}) == ERROR_NONE);
    CHECK(!exists(paths[0]) && !exists(paths[1]) && exists(paths[2]) && exists(paths[3]) && exists(paths[4]));
    CHECK(shell("cd '%s' && test \"$(ls | tr '\\n' ' ')\" = 'notes.tmp step_200000007.h5 step_200000007.h5.xxh3 "
                "step_300000007.h5 step_400000007.h5 step_400000007.h5.xxh3 step_9.h5 '",
                "") == 0);
    check_found(folder, paths[4]);
    CHECK(shell("cd '%s' && rm step_400000007.h5", "") == 0);
    check_found(folder, paths[3]); /* with a warning: it has no side file */
    for (int i = 0; i < 5; i++)
        free(paths[i]);
    test_prune_exempt(t);
    folder = whole;
    free(sub);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    world = comm_open_mpi();
    log_open(world->rank);
    folder = rank_folder_create(world, "t_checkpoint_find");

    struct training saved;
    char *before, *path;
    save_two(&saved, &before, &path);

    test_load(&saved, path, checkpoint_digest(world, &saved.toy.engine));
    test_damage(path, before);
    test_prune(&saved);

    free(before);
    free(path);
    training_destroy(&saved);
    rank_folder_remove(world, folder);
    int failed = check_end();
    comm_destroy(world);
    MPI_Finalize();
    return failed;
}
