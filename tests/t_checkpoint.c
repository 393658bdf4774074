/* Checkpoints written on 4 ranks are read on 1, 2 and 3, by ranks that own shards, and by h5py; writes in a step and in
 * the background give the same file. A failed write leaves the file before.
 *
 * ranks: 4 */
#include "checkpoints.h"
#include "shard_view.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "checkpoint/checkpoint_private.h"
#include "checkpoint/inspect.h"
#include "state/snapshot.h"

#include <fcntl.h>
#include <hdf5.h>
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

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

/* Gives attributes of /data the names that they had before version 0.3. */
static void use_old_names(const char *path)
{
    static const char *const names[][2] = {{"checksum", "store"}, {"checksums", "content"}, {"path_hashes", "path"}};
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        CHECK(H5Arename_by_name(file, "data", names[i][0], names[i][1], H5P_DEFAULT) >= 0);
    CHECK(H5Fclose(file) >= 0);
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
    wanted.store = UINT64_MAX - 5;
    wanted.provenance = provenance_create(BLEND_STORES);
    for (int64_t d = 0; d < BLEND_STORES; d++) {
        wanted.provenance.content[d] = (int64_t)((uint64_t)d << 54 | 3);
        wanted.provenance.path[d] = -d;
    }
    CHECK(checkpoint_write(world, &saved->toy.engine, &wanted, many, false) == ERROR_NONE);
    CHECK(checkpoint_read_meta(world, many, &meta) == ERROR_NONE && meta.position.stores == BLEND_STORES);
    for (int64_t d = 0; d < meta.position.stores; d++)
        wrong +=
            meta.position.epoch[d] != wanted.position.epoch[d] || meta.position.window[d] != wanted.position.window[d];
    const size_t bytes = BLEND_STORES * sizeof(int64_t);
    CHECK(memcmp(meta.position.before, wanted.position.before, bytes) == 0 &&
          memcmp(meta.position.key, wanted.position.key, bytes) == 0 && meta.provenance.stores == BLEND_STORES &&
          memcmp(meta.provenance.content, wanted.provenance.content, bytes) == 0 &&
          memcmp(meta.provenance.path, wanted.provenance.path, bytes) == 0);
    CHECK(wrong == 0);
    checkpoint_meta_destroy(&meta);

    if (world->rank == 0)
        use_old_names(many);
    comm_barrier(world);
    CHECK(checkpoint_load_meta(many, &meta) == ERROR_NONE && meta.store == wanted.store &&
          meta.provenance.stores == BLEND_STORES &&
          memcmp(meta.provenance.content, wanted.provenance.content, bytes) == 0 &&
          memcmp(meta.provenance.path, wanted.provenance.path, bytes) == 0);
    checkpoint_meta_destroy(&meta);
    provenance_destroy(&wanted.provenance);
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

/* Written and read by ranks that hold one of so many cuts each: whole.h5 to the byte. */
static void test_sharded(struct training *saved, int shards, uint64_t digest)
{
    struct training t;
    struct view view;
    char *path = in_folder("sharded.h5");
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
}

static int add_digest(void *self, const struct fetched_elements *fetched, const void *content)
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
    CHECK(checkpoint_matches(world, later, digest) &&
          checkpoint_matches(world, beside, checkpoint_digest(world, &saved->toy.engine)));
    snapshot_destroy(&snapshot);
    training_destroy(&t);
    free(beside);
    free(later);
}

/* The digest sees a changed bit of any kind, exchanged elements and exchanged tensors. */
static void test_digest(struct training *t, uint64_t digest)
{
    struct unit *unit = &t->toy.model.units[1];
    struct store_shard shard = t->toy.engine.store->class->shard(t->toy.engine.store, unit, STORAGE_MATRIX);
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
    struct store_shard x =
        saved->toy.engine.store->class->shard(saved->toy.engine.store, &saved->toy.model.units[1], STORAGE_MATRIX);
    struct store_shard y = t.toy.engine.store->class->shard(t.toy.engine.store, &t.toy.model.units[1], STORAGE_MATRIX);
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
            struct store_shard shard = engine->store->class->shard(engine->store, unit, p->storage);
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

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    world = comm_open_mpi();
    log_open(world->rank);
    signal(SIGXFSZ, SIG_IGN);
    folder = rank_folder_create(world, "t_checkpoint");

    struct training saved;
    char *before, *path, *whole = in_folder("whole.h5");
    save_two(&saved, &before, &path);
    CHECK(save(&saved, whole, true) == ERROR_NONE);
    sleep(1); /* a file does not depend on when it is written */
    uint64_t digest = checkpoint_digest(world, &saved.toy.engine);

    test_meta(&saved, path);
    test_other_ranks(&saved, path, digest);
    test_digest(&saved, digest);
    test_sharded(&saved, 4, digest);
    test_sharded(&saved, 3, digest); /* ranks 0 and 3 hold the same */
    test_beside(&saved, path, 1, digest);
    test_beside(&saved, path, 3, digest);
    test_shapes(&saved, path);
    test_final(&saved);
    test_failures(&saved, path);
    test_python(&saved, path, digest);
    test_inspect(path);
    test_large();
    test_restart(&saved, path);

    free(whole);
    free(path);
    free(before);
    training_destroy(&saved);
    rank_folder_remove(world, folder);
    int failed = check_end();
    comm_destroy(world);
    MPI_Finalize();
    return failed;
}
