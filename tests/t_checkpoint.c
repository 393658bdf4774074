/* Checkpoints: written on 4 ranks and read on 1, 2 and 3; every fault is noticed and the file before is used; failures
 * leave what was there. Files go to TMPDIR (or .), below a folder that is removed at the end. */
#include "check.h"
#include "shard_view.h"
#include "tiny_training.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "io/checkpoint_private.h"
#include "io/inspect.h"
#include "step/slab.h"
#include "step/snapshot.h"
#include "step/initialise.h"

#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static struct comm *world;
static char *folder;

static const char deck_text[] = "model: { preset = \"tiny\"; };\n# a comment with \"quotes\" and a µ\n";

/* -- Files ------------------------------------------------------------------------------------------------------- */

/* Runs a command with the files of this test on rank 0; all get its exit status. */
static int shell(const char *format, const char *name)
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

static char *in_folder(const char *name)
{
    return memory_format("%s/%s", folder, name);
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static int64_t file_bytes(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 ? status.st_size : -1;
}

/* Exclusive-or of one byte with 0x20, on rank 0. Between barriers. */
static void flip(const char *path, int64_t offset)
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

static struct checkpoint_meta meta_of(struct training *t)
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

static int save(struct training *t, const char *path, bool with_optimizer)
{
    struct checkpoint_meta meta = meta_of(t);
    return checkpoint_write(world, &t->toy.engine, &meta, path, with_optimizer);
}

static char *save_step(struct training *t)
{
    char *path = checkpoint_path(folder, engine_updates(&t->toy.engine));
    CHECK(save(t, path, true) == ERROR_NONE);
    return path;
}

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

/* -- Cases ------------------------------------------------------------------------------------------------------- */

/* Elements of the part before it in a row-major walk through the global tensor. */
static int64_t place_in_part(const struct parameter *p, int64_t row, int64_t col)
{
    const int64_t below = row - p->part.row, piece = p->apart > 0 ? below / p->apart : 0;
    return (below - piece * (p->apart - p->height)) * p->part.cols + col - p->part.col;
}

/* Rectangles cover a slab's elements in order, once each, inside of the part. */
static bool rectangles_right(const struct parameter *p, struct slab slab)
{
    struct rectangle r[SLAB_RECTANGLES];
    int64_t next = slab.first;
    const int rectangles = slab_rectangles(p, slab, r);
    bool right = rectangles <= SLAB_RECTANGLES;
    for (int i = 0; i < rectangles; i++) {
        right &= place_in_part(p, r[i].row, r[i].col) == next && (r[i].rows == 1 || r[i].cols == p->part.cols);
        right &= place_in_part(p, r[i].row + r[i].rows - 1, p->part.col) < p->part.rows * p->part.cols;
        right &= r[i].col >= p->part.col && r[i].col + r[i].cols <= p->part.col + p->part.cols;
        next += r[i].rows * r[i].cols;
    }
    return right && next == slab.first + slab.count;
}

/* So do runs, each as long as it can be. */
static bool runs_right(const struct parameter *p, struct slab slab)
{
    bool right = true;
    int64_t end = -1; /* of the run before, in the global tensor */
    while (slab.count > 0 && right) {
        const struct run run = slab_run(p, slab);
        const int64_t last = run.first + run.count - 1;
        right = run.count > 0 && run.first != end &&
                place_in_part(p, run.first / p->cols, run.first % p->cols) == slab.first;
        right &= place_in_part(p, last / p->cols, last % p->cols) == slab.first + run.count - 1;
        end = run.first + run.count;
        slab = (struct slab){slab.first + run.count, slab.count - run.count};
    }
    return right && slab.count == 0;
}

/* For every slab of a small tensor, whole or a part of a larger one, of one piece or of two. */
static void test_slabs(void)
{
    enum { SHARD_FIRST = 90, OFFSET = 100, MOST = 5 };
    bool right = true;
    for (int64_t shape = 0; shape < MOST * MOST * 6; shape++) {
        const int64_t rows = shape / 6 / MOST + 1, cols = shape / 6 % MOST + 1, around = shape % 3;
        const bool two = shape / 3 % 2 == 1;
        struct parameter p = {.part = {0, 0, rows, cols}, .height = rows, .offset = OFFSET};
        if (two && (rows % 2 != 0 || around == 0))
            continue;
        p.height = two ? rows / 2 : rows;
        p.apart = two ? rows / 2 + around : 0;
        parameter_place(&p, rows + 2 * around, cols + (around == 2 ? 3 : 0), around, around == 2);
        for (int64_t first = SHARD_FIRST; first <= OFFSET + rows * cols; first++) {
            for (int64_t count = 0; count <= rows * cols + 12; count++) {
                struct slab slab = slab_of(&p, first, count);
                int64_t wanted = 0;
                for (int64_t e = first; e < first + count; e++)
                    wanted += e >= OFFSET && e < OFFSET + rows * cols;
                right &= slab.count == wanted;
                right &= wanted == 0 || slab.first == (first > OFFSET ? first - OFFSET : 0);
                right &= rectangles_right(&p, slab) && runs_right(&p, slab);
            }
        }
    }
    CHECK(right);
}

/* Read on a group of `ranks` of the world; the training there must be the one that was saved. */
static void read_on(struct comm *comm, const char *path, struct training *saved, uint64_t digest, enum dtype compute)
{
    struct training t;
    char *found;
    CHECK(checkpoint_find(comm, path, &found) == ERROR_NONE);
    free(found);
    training_create(&t, comm, &saved->toy.model.settings, compute);
    CHECK(checkpoint_read(comm, &t.toy.engine, path, true) == ERROR_NONE);
    CHECK(engine_updates(&t.toy.engine) == engine_updates(&saved->toy.engine));
    CHECK(checkpoint_digest(comm, &t.toy.engine) == digest);
    if (compute == saved->toy.engine.settings.memory.compute)
        CHECK(same_bits(&saved->toy.engine, &t.toy.engine));
    training_destroy(&t);
}

static void test_other_ranks(struct training *saved, const char *path, uint64_t digest)
{
    for (int ranks = 1; ranks <= 3; ranks++) {
        struct comm *comm = comm_split(world, world->rank / ranks);
        read_on(comm, path, saved, digest, ranks == 2 ? DTYPE_BF16 : DTYPE_F32);
        comm_destroy(comm);
    }
}

static void test_meta(struct training *saved, const char *path)
{
    struct checkpoint_meta wanted = meta_of(saved), meta;
    CHECK(checkpoint_read_meta(world, path, &meta) == ERROR_NONE);
    CHECK_STRING(meta.deck_text, wanted.deck_text);
    CHECK_STRING(meta.version, wanted.version);
    CHECK(meta.step == wanted.step && meta.tokens == wanted.tokens && meta.seed == 42 && meta.ranks == world->size);
    CHECK(meta.position.stores == 1 && meta.position.epoch[0] == 3 && meta.position.window[0] == 5000000000 &&
          meta.position.offset == 7 && meta.position.before[0] == 4 && meta.position.key[0] == 9);
    CHECK_STRING(meta.tokenizer, "nucleotide");
    CHECK(meta.vocabulary == 256 && meta.validation_step == 70 && meta.best_step == 60 && meta.best_loss == 1.0 / 3);
    checkpoint_meta_destroy(&meta);

    /* the place in as many stores as there may be */
    char *many = memory_format("%s/many.h5", folder);
    int64_t wrong = 0;
    wanted.position = blend_position_create(BLEND_STORES);
    for (int64_t d = 0; d < BLEND_STORES; d++) {
        wanted.position.epoch[d] = 1000000 + d;
        wanted.position.window[d] = 5000000000 - d;
        wanted.position.before[d] = 7000000 + 3 * d;
        wanted.position.key[d] = 2 * d + 1;
    }
    wanted.lineage = lineage_create(BLEND_STORES);
    for (int64_t d = 0; d < BLEND_STORES; d++) {
        wanted.lineage.content[d] = (int64_t)((uint64_t)d << 54 | 3);
        wanted.lineage.path[d] = -d;
    }
    CHECK(checkpoint_write(world, &saved->toy.engine, &wanted, many, false) == ERROR_NONE);
    CHECK(checkpoint_read_meta(world, many, &meta) == ERROR_NONE && meta.position.stores == BLEND_STORES);
    for (int64_t d = 0; d < meta.position.stores; d++)
        wrong +=
            meta.position.epoch[d] != wanted.position.epoch[d] || meta.position.window[d] != wanted.position.window[d];
    const size_t bytes = BLEND_STORES * sizeof(int64_t);
    CHECK(memcmp(meta.position.before, wanted.position.before, bytes) == 0 &&
          memcmp(meta.position.key, wanted.position.key, bytes) == 0 && meta.lineage.stores == BLEND_STORES &&
          memcmp(meta.lineage.content, wanted.lineage.content, bytes) == 0 &&
          memcmp(meta.lineage.path, wanted.lineage.path, bytes) == 0);
    CHECK(wrong == 0);
    checkpoint_meta_destroy(&meta);
    lineage_destroy(&wanted.lineage);
    blend_position_destroy(&wanted.position);
    free(many);
}

/* Going on after a restart equals going on without one, bit for bit. */
static void test_restart(struct training *saved, const char *path)
{
    struct training t;
    training_create(&t, world, &saved->toy.model.settings, DTYPE_F32);
    CHECK(checkpoint_read(world, &t.toy.engine, path, true) == ERROR_NONE);
    double resumed = train(&t, 2), straight = train(saved, 2);
    CHECK(resumed == straight);
    CHECK(same_bits(&saved->toy.engine, &t.toy.engine));
    training_destroy(&t);
}

/* Written and read by ranks that hold one of so many cuts each. */
static void test_sharded(struct training *saved, int shards, uint64_t digest)
{
    struct training t;
    struct view view;
    char *path = in_folder("sharded.h5"), *whole = in_folder("whole.h5");
    CHECK(save(saved, whole, true) == ERROR_NONE);
    sleep(1); /* a file does not depend on when it is written */
    view_open(&view, &saved->toy.engine, world, shards);
    CHECK(checkpoint_digest(world, &saved->toy.engine) == digest);
    CHECK(save(saved, path, true) == ERROR_NONE);
    view_close(&view, &saved->toy.engine);
    CHECK(shell("cmp '%1$s/sharded.h5' '%1$s/whole.h5'", "") == 0);
    training_create(&t, world, &saved->toy.model.settings, DTYPE_F32);
    view_open(&view, &t.toy.engine, world, shards);
    CHECK(checkpoint_verify(world, path) == ERROR_NONE);
    CHECK(checkpoint_read(world, &t.toy.engine, path, true) == ERROR_NONE);
    CHECK(checkpoint_digest(world, &t.toy.engine) == digest);
    view_close(&view, &t.toy.engine);
    training_destroy(&t);
    free(path);
    free(whole);
}

static int add_digest(void *self, const struct fetched *fetched, const void *content)
{
    *(uint64_t *)self += checkpoint_digest_run(fetched, content);
    return ERROR_NONE;
}

/* Written beside steps by ranks that hold one of so many cuts each: a snapshot keeps what it has taken, and the file is
 * that of a save in the step, to the bit. A second save with the same snapshot has what is there then. */
static void test_beside(struct training *saved, const char *path, int shards, uint64_t digest)
{
    struct training t;
    struct view view;
    struct snapshot snapshot;
    struct checkpoint_save *save;
    struct checkpoint_written written = {0};
    char *beside = in_folder("beside.h5"), *later = in_folder("later.h5");
    struct checkpoint_meta meta = meta_of(saved);
    training_create(&t, world, &saved->toy.model.settings, DTYPE_F32);
    CHECK(checkpoint_read(world, &t.toy.engine, path, true) == ERROR_NONE);

    view_open(&view, &t.toy.engine, world, shards);
    snapshot_create(&snapshot, &t.toy.engine);
    snapshot_take(&snapshot);
    CHECK(snapshot_taken(&snapshot, true));
    view_close(&view, &t.toy.engine);
    train(&t, 1);
    uint64_t own = 0;
    CHECK(snapshot_visit(&snapshot, add_digest, &own) == ERROR_NONE);
    CHECK(checkpoint_digest_sum(world, own) == digest && checkpoint_digest(world, &t.toy.engine) != digest);

    CHECK(checkpoint_read(world, &t.toy.engine, path, true) == ERROR_NONE);
    CHECK(checkpoint_begin(&save, world, &t.toy.engine, &meta, beside, true, &snapshot) == ERROR_NONE);
    train(&t, 2);
    while (!checkpoint_ready(save))
        usleep(1000);
    CHECK(checkpoint_end(save, &written) == ERROR_NONE && written.digest == digest);
    CHECK(written.bytes > 0 && written.bytes < file_bytes(beside) && written.seconds > 0);
    CHECK(shell("cmp '%1$s/beside.h5' '%1$s/whole.h5'", "") == 0);
    digest = checkpoint_digest(world, &t.toy.engine);
    CHECK(checkpoint_begin(&save, world, &t.toy.engine, &meta, later, true, &snapshot) == ERROR_NONE);
    CHECK(checkpoint_end(save, &written) == ERROR_NONE && written.digest == digest);
    CHECK(checkpoint_holds(world, later, digest) &&
          checkpoint_holds(world, beside, checkpoint_digest(world, &saved->toy.engine)));
    snapshot_destroy(&snapshot);
    training_destroy(&t);
    free(beside);
    free(later);
}

/* The digest sees a changed bit of any kind, exchanged elements and exchanged tensors. */
static void test_digest(struct training *t, uint64_t digest)
{
    struct unit *unit = &t->toy.model.units[1];
    struct shard shard = t->toy.engine.store->class->shard(t->toy.engine.store, unit, STORAGE_MATRIX);
    float *const arrays[] = {shard.weight.value.data, shard.m.data, shard.v.data};
    for (int k = 0; k < 3; k++) {
        float old[2] = {arrays[k][0], arrays[k][1]};
        arrays[k][0] = old[1];
        arrays[k][1] = old[0];
        CHECK(old[0] != old[1] && checkpoint_digest(world, &t->toy.engine) != digest);
        arrays[k][0] = nextafterf(old[0], 1e30f);
        arrays[k][1] = old[1];
        CHECK(checkpoint_digest(world, &t->toy.engine) != digest);
        arrays[k][0] = old[0];
    }
    float old = arrays[1][0];
    arrays[1][0] = arrays[2][0];
    arrays[2][0] = old;
    CHECK(checkpoint_digest(world, &t->toy.engine) != digest);
    arrays[2][0] = arrays[1][0];
    arrays[1][0] = old;
    CHECK(checkpoint_digest(world, &t->toy.engine) == digest);
}

/* One bit of the file at `at` differs: is it noticed? */
static void check_noticed(const char *path, const char *damaged, int64_t at)
{
    flip(damaged, at);
    CHECK(checkpoint_examine(world, path, true) == ERROR_USER);
    CHECK(strstr(error_message(), damaged) != NULL);
    error_clear();
    flip(damaged, at);
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
        const struct block *block = &list.blocks[i];
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

/* Shapes that do not fit are named; so is what is not in the file or not in the model. */
static void test_shapes(struct training *saved, const char *path)
{
    struct model_settings wider = saved->toy.model.settings, deeper = wider;
    wider.ffn += 8;
    deeper.layers++;
    const struct model_settings settings[] = {wider, deeper};
    for (int i = 0; i < 2; i++) {
        struct training t;
        training_create(&t, world, &settings[i], DTYPE_F32);
        CHECK(checkpoint_read(world, &t.toy.engine, path, true) == ERROR_USER);
        CHECK(engine_updates(&t.toy.engine) == 0);
        training_destroy(&t);
    }
    struct training tied;
    struct model_settings with_tied_head = toy_settings(saved->toy.model.settings.tied ? TOY_LLAMA : TOY_LLAMA_TIED);
    training_create(&tied, world, &with_tied_head, DTYPE_F32);
    CHECK(checkpoint_read(world, &tied.toy.engine, path, false) == ERROR_USER);
    training_destroy(&tied);
}

/* The final model: weights alone. */
static void test_final(struct training *saved)
{
    struct training t;
    char *path = in_folder("model.h5");
    CHECK(save(saved, path, false) == ERROR_NONE);
    CHECK(save(saved, path, false) == ERROR_NONE); /* over an old one */
    CHECK(checkpoint_verify(world, path) == ERROR_NONE);
    training_create(&t, world, &saved->toy.model.settings, DTYPE_F32);
    CHECK(checkpoint_read(world, &t.toy.engine, path, true) == ERROR_USER);
    CHECK(checkpoint_read(world, &t.toy.engine, path, false) == ERROR_NONE);
    CHECK(engine_updates(&t.toy.engine) == 0);
    struct shard x =
        saved->toy.engine.store->class->shard(saved->toy.engine.store, &saved->toy.model.units[1], STORAGE_MATRIX);
    struct shard y = t.toy.engine.store->class->shard(t.toy.engine.store, &t.toy.model.units[1], STORAGE_MATRIX);
    CHECK(memcmp(x.weight.value.data, y.weight.value.data, (size_t)tensor_extent(&x.weight.value)) == 0);
    training_destroy(&t);
    free(path);
}

/* By a thread, which fails first. */
static int save_beside(struct training *t, const char *path)
{
    struct checkpoint_meta meta = meta_of(t);
    struct checkpoint_save *save;
    struct checkpoint_written written;
    struct snapshot snapshot;
    snapshot_create(&snapshot, &t->toy.engine);
    int code = checkpoint_begin(&save, world, &t->toy.engine, &meta, path, true, &snapshot);
    if (code == ERROR_NONE)
        code = checkpoint_end(save, &written);
    snapshot_destroy(&snapshot);
    return code;
}

/* Failures on all ranks, on rank 0 and on another one: the same code everywhere, nothing left, the old file as it was.
 */
static void test_failures(struct training *t, const char *path)
{
    char *nowhere = in_folder("no/such/folder/step_00000001.h5"), *temporary = memory_format("%s.tmp", path);
    CHECK(save(t, nowhere, true) == ERROR_ENVIRONMENT);
    int64_t bytes = file_bytes(path);
    for (int failing = 0; failing < world->size; failing += 2) {
        struct rlimit old, small = {4096, RLIM_INFINITY};
        getrlimit(RLIMIT_FSIZE, &old);
        small.rlim_max = old.rlim_max;
        if (world->rank == failing)
            setrlimit(RLIMIT_FSIZE, &small); /* writes beyond fail as on a full disk */
        CHECK(save(t, path, true) == ERROR_ENVIRONMENT);
        CHECK(save_beside(t, path) == ERROR_ENVIRONMENT);
        setrlimit(RLIMIT_FSIZE, &old);
        CHECK(!exists(temporary) && file_bytes(path) == bytes);
        CHECK(checkpoint_verify(world, path) == ERROR_NONE);
    }
    free(nowhere);
    free(temporary);
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

/* Other programs read the file, and what h5py writes in its own layout and types is read. */
static void test_python(struct training *saved, const char *path, uint64_t digest)
{
    if (shell("/usr/bin/python3 -c 'import h5py' 2>/dev/null", "") != 0) {
        if (world->rank == 0)
            printf("h5py is not there: not tried\n");
        return;
    }
    const char *root = getenv("abs_top_srcdir");
    char *command = memory_format("/usr/bin/python3 '%s/tests/interop/read_checkpoint.py' '%%s/%%s' >/dev/null",
                                  root == NULL ? "." : root);
    CHECK(shell(command, strrchr(path, '/') + 1) == 0);
    free(command);
    command = memory_format("/usr/bin/python3 '%s/tests/interop/read_checkpoint.py' --final '%%s/%%s' >/dev/null",
                            root == NULL ? "." : root);
    CHECK(shell(command, "model.h5") == 0);
    free(command);
    CHECK(shell("/usr/bin/python3 - '%1$s/%2$s' '%1$s/rewritten.h5' <<'END'\n"
                "import h5py, sys\n"
                "def copy(name, item):\n"
                "    if isinstance(item, h5py.Dataset):\n"
                "        new.create_dataset(name, data=item[()].astype('f8'), chunks=True, compression='gzip')\n"
                "    else:\n"
                "        new.require_group(name)\n"
                "    for key, value in item.attrs.items():\n"
                "        new[name].attrs[key] = value.decode() if isinstance(value, bytes) else value\n"
                "with h5py.File(sys.argv[1]) as old, h5py.File(sys.argv[2], 'w') as new:\n"
                "    old.visititems(copy)\n"
                "    new.attrs['cistron_checkpoint'] = old.attrs['cistron_checkpoint']\n"
                "END",
                strrchr(path, '/') + 1) == 0);
    char *rewritten = in_folder("rewritten.h5");
    struct training t;
    struct view view;
    training_create(&t, world, &saved->toy.model.settings, DTYPE_F32);
    view_open(&view, &t.toy.engine, world, world->size);
    CHECK(checkpoint_verify(world, rewritten) == ERROR_NONE);
    CHECK(checkpoint_read(world, &t.toy.engine, rewritten, true) == ERROR_NONE);
    CHECK(checkpoint_digest(world, &t.toy.engine) == digest);
    view_close(&view, &t.toy.engine);
    training_destroy(&t);
    test_meta(saved, rewritten);

    CHECK(shell("/usr/bin/python3 - '%s/rewritten.h5' <<'END'\n"
                "import h5py, sys\n"
                "with h5py.File(sys.argv[1], 'r+') as file:\n"
                "    file['model/alien'] = [1.0]\n"
                "    del file['optim/v/model.norm.weight']\n"
                "with h5py.File(sys.argv[1] + '.other', 'w') as file:\n"
                "    file['x'] = 1\n"
                "END",
                "") == 0);
    CHECK(checkpoint_read(world, &saved->toy.engine, rewritten, true) == ERROR_USER);
    char *other = in_folder("rewritten.h5.other"), *text = in_folder("notes.txt");
    struct checkpoint_meta meta;
    CHECK(shell("echo hello > '%s/notes.txt'", "") == 0);
    CHECK(checkpoint_read_meta(world, other, &meta) == ERROR_USER);
    CHECK(checkpoint_read_meta(world, text, &meta) == ERROR_USER);
    CHECK(inspect_run(other, false, false) == ERROR_USER);
    error_clear();
    CHECK(inspect_run(text, true, false) == ERROR_USER);
    error_clear();
    free(other);
    free(text);
    free(rewritten);
}

/* Are the masters the values that the model says, at every element? */
static void check_initial(struct engine *engine, uint64_t seed)
{
    int64_t wrong = 0;
    for (int u = 0; u < engine->model->unit_count; u++) {
        struct unit *unit = &engine->model->units[u];
        for (int i = 0; i < unit->parameter_count; i++) {
            const struct parameter *p = &unit->parameters[i];
            struct shard shard = engine->store->class->shard(engine->store, unit, p->storage);
            const float *weights = (float *)shard.weight.value.data + p->offset - shard.first;
            const int64_t count = p->part.rows * p->part.cols;
            double values[1001]; /* other pieces than those of the engine */
            for (int64_t e = 0; e < count; e++) {
                if (e % 1001 == 0)
                    parameter_initial_values(p, seed, e, count - e < 1001 ? count - e : 1001, values);
                wrong += weights[e] != (float)values[e % 1001];
            }
        }
    }
    CHECK(wrong == 0);
}

/* Tensors beyond a staging buffer, whose pieces end inside rows. */
static void test_large(void)
{
    struct model_settings settings = toy_settings(TOY_LLAMA_TIED);
    struct training t, back;
    char *path = in_folder("large.h5");
    settings.layers = 1;
    settings.vocabulary = 2 * PIECE_BYTES / 4 / settings.hidden + 1000;
    training_create(&t, world, &settings, DTYPE_F32);
    engine_initialise(&t.toy.engine, 6);
    check_initial(&t.toy.engine, 6);
    CHECK(save(&t, path, false) == ERROR_NONE);
    CHECK(checkpoint_verify(world, path) == ERROR_NONE);
    training_create(&back, world, &settings, DTYPE_F32);
    CHECK(checkpoint_read(world, &back.toy.engine, path, false) == ERROR_NONE);
    CHECK(same_bits(&t.toy.engine, &back.toy.engine));
    training_destroy(&back);
    training_destroy(&t);
    free(path);
}

/* -- Delayed scaling --------------------------------------------------------------------------------------------- */

static bool same_scales(struct engine *a, struct engine *b)
{
    struct delayed_scaling x = delayed_scaling_fetch(&a->scaling, &a->streams[STREAM_COMPUTE]);
    struct delayed_scaling y = delayed_scaling_fetch(&b->scaling, &b->streams[STREAM_COMPUTE]);
    const bool same = memcmp(x.history.data, y.history.data, (size_t)tensor_extent(&x.history)) == 0 &&
                      memcmp(x.scale.data, y.scale.data, (size_t)tensor_extent(&x.scale)) == 0;
    delayed_scaling_host_destroy(&x);
    delayed_scaling_host_destroy(&y);
    return same;
}

/* Is the scaling as it was made? */
static bool anew(struct training *t)
{
    struct training fresh;
    training_create(&fresh, world, &t->toy.model.settings, DTYPE_F32);
    const bool same = same_scales(&t->toy.engine, &fresh.toy.engine);
    training_destroy(&fresh);
    return same;
}

/* A training with other settings takes the checkpoint's weights and moments, and begins its histories anew. */
static void check_other_recipe(const struct precision *other, struct training *saved, const char *path)
{
    struct model_settings settings = saved->toy.model.settings;
    struct training t;
    settings.precision = *other;
    training_create(&t, world, &settings, DTYPE_F32);
    CHECK(checkpoint_read(world, &t.toy.engine, path, true) == ERROR_NONE);
    CHECK(!t.toy.engine.scaling.restored && (!precision_delays(other) || anew(&t)));
    CHECK(engine_updates(&t.toy.engine) == engine_updates(&saved->toy.engine));
    training_destroy(&t);
}

/* Where the file has the scales, in bytes. */
static int64_t place_of_scales(const char *path)
{
    hid_t file, dataset;
    CHECK(hdf5_open(&file, path) == ERROR_NONE);
    dataset = hdf5_open_dataset(file, "state/precision/scale");
    const int64_t place = (int64_t)H5Dget_offset(dataset);
    H5Dclose(dataset);
    H5Fclose(file);
    return place;
}

static void test_scales(void)
{
    struct model_settings settings = toy_settings(TOY_LLAMA);
    struct training saved, same, forgetful;
    struct checkpoint_meta meta;
    char *path = in_folder("scales.h5"), *final = in_folder("scales_final.h5");
    settings.precision = toy_precision(DECK_RECIPE_DELAYED);
    training_create(&saved, world, &settings, DTYPE_F32);
    engine_initialise(&saved.toy.engine, 5);
    train(&saved, 3);
    CHECK(!anew(&saved) && !saved.toy.engine.scaling.restored);
    CHECK(save(&saved, path, true) == ERROR_NONE && save(&saved, final, false) == ERROR_NONE);
    CHECK(checkpoint_verify(world, path) == ERROR_NONE);
    check_noticed(path, path, place_of_scales(path) + 5);
    CHECK(checkpoint_read_meta(world, path, &meta) == ERROR_NONE && meta.scales);
    checkpoint_meta_destroy(&meta);
    CHECK(checkpoint_read_meta(world, final, &meta) == ERROR_NONE && !meta.scales);
    checkpoint_meta_destroy(&meta);

    struct precision others[] = {settings.precision, settings.precision, toy_precision(DECK_RECIPE_BLOCK),
                                 toy_precision(DECK_RECIPE_NONE)};
    others[0].history = 5;
    others[1].kinds[PRECISION_EIGHT].rules[OPERAND_GRADIENT].format ^= FORMAT_E4M3 ^ FORMAT_E5M2;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        check_other_recipe(&others[i], &saved, path);

    training_create(&same, world, &settings, DTYPE_F32);
    training_create(&forgetful, world, &settings, DTYPE_F32); /* the planted fault: scales that start anew */
    CHECK(checkpoint_read(world, &same.toy.engine, path, true) == ERROR_NONE);
    CHECK(checkpoint_read(world, &forgetful.toy.engine, path, true) == ERROR_NONE);
    CHECK(same.toy.engine.scaling.restored && same_scales(&saved.toy.engine, &same.toy.engine));
    struct delayed_scaling *scaling = &forgetful.toy.engine.scaling;
    LAUNCH(&forgetful.toy.engine.streams[STREAM_COMPUTE], FILL, fill, .x = scaling->history, .value = 0);
    LAUNCH(&forgetful.toy.engine.streams[STREAM_COMPUTE], FILL, fill, .x = scaling->scale, .value = 1);
    engine_weights_written(&forgetful.toy.engine);
    double straight = train(&saved, 2), resumed = train(&same, 2), forgotten = train(&forgetful, 2);
    CHECK(resumed == straight && forgotten != straight);
    CHECK(same_bits(&saved.toy.engine, &same.toy.engine) && same_scales(&saved.toy.engine, &same.toy.engine));
    CHECK(!same_bits(&saved.toy.engine, &forgetful.toy.engine));

    struct comm *alone = comm_split(world, world->rank); /* on other ranks */
    struct training one;
    training_create(&one, alone, &settings, DTYPE_BF16);
    CHECK(checkpoint_read(alone, &one.toy.engine, path, true) == ERROR_NONE && one.toy.engine.scaling.restored);
    training_destroy(&one);
    comm_destroy(alone);
    training_destroy(&forgetful);
    training_destroy(&same);
    training_destroy(&saved);
    free(final);
    free(path);
}

/* A run folder is its newest checkpoint; what it prints names the tensors and holds the deck. */
static void test_inspect(const char *path)
{
    char *output = in_folder("inspect.txt");
    if (world->rank == 0) {
        fflush(stdout);
        int standard = dup(STDOUT_FILENO), file = open(output, O_WRONLY | O_CREAT, 0666);
        dup2(file, STDOUT_FILENO);
        CHECK(inspect_run(folder, false, false) == ERROR_NONE);
        fflush(stdout);
        dup2(standard, STDOUT_FILENO);
        close(standard);
        close(file);
    }
    CHECK(shell("cd '%1$s' && grep -q '^%1$s/%2$s: checkpoint$' inspect.txt && grep -q 'f32 .*model.norm.weight .32.$' "
                "inspect.txt && grep -q 'optim/v tensors .* elements' inspect.txt && grep -q 'a comment with .*quotes' "
                "inspect.txt",
                strrchr(path, '/') + 1) == 0);
    free(output);
}

static void make_folder(void)
{
    const char *base = getenv("TMPDIR");
    char path[4096] = "";
    if (world->rank == 0) {
        snprintf(path, sizeof path, "%s/t_checkpoint.XXXXXX", base == NULL || *base == '\0' ? "." : base);
        if (mkdtemp(path) == NULL)
            error_fatal("cannot make the folder %s", path);
    }
    comm_broadcast(world, path, sizeof path, 0);
    folder = memory_string(path);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    world = comm_open_mpi();
    log_open(world->rank);
    signal(SIGXFSZ, SIG_IGN);
    make_folder();

    struct model_settings settings = toy_settings(TOY_LLAMA);
    struct training saved;
    training_create(&saved, world, &settings, DTYPE_F32);
    engine_initialise(&saved.toy.engine, 5);
    train(&saved, 2);
    char *before = save_step(&saved);
    train(&saved, 1);
    char *path = save_step(&saved);
    uint64_t digest = checkpoint_digest(world, &saved.toy.engine);

    test_slabs();
    test_meta(&saved, path);
    test_other_ranks(&saved, path, digest);
    test_digest(&saved, digest);
    test_sharded(&saved, 4, digest);
    test_sharded(&saved, 3, digest); /* ranks 0 and 3 hold the same */
    test_beside(&saved, path, 1, digest);
    test_beside(&saved, path, 3, digest);
    test_shapes(&saved, path);
    test_final(&saved);
    test_load(&saved, path, digest);
    test_damage(path, before);
    test_failures(&saved, path);
    test_python(&saved, path, digest);
    test_prune(&saved);
    test_inspect(path);
    test_large();
    test_scales();
    test_restart(&saved, path);

    free(before);
    free(path);
    training_destroy(&saved);
    CHECK(shell("rm -r '%s'", "") == 0);
    free(folder);
    int failed = check_end();
    comm_destroy(world);
    MPI_Finalize();
    return failed;
}
