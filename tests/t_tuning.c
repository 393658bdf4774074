/* Tuned kernels are chosen once for all ranks, on an executor with two ways for each product that gives different
 * results: each product is timed on one rank, later runs use the file, a restart uses its checkpoint. Deterministic
 * runs time nothing; damaged, foreign and endless files are refused; two writers lose nothing; the tuning pass changes
 * no bit.
 *
 * ranks: 2 */
#include "check.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "file/shipped.h"
#include "comm/comm.h"
#include "core/tuned_kernels.h"
#include "cpu/cpu.h"
#include "checkpoint/tuned_kernels.h"
#include "ref/toy.h"
#include "ref/wrapper.h"
#include "stores.h"
#include "train/run.h"
#include "train/session.h"
#include "train/tuning.h"
#include "train/tuning_file.h"

#include <hdf5.h>
#include <mpi.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FIRST = 1, STEPS = 6, MOST = 64 };

static struct comm *world;

/* What makes two products the same. */
struct product {
    int64_t rows, cols, inner, kind;
};

static struct {
    struct wrapper wrapper;
    struct executor_class class;
    struct executor *cpu;
    struct tuning_table table;
    const char *device;            /* NULL: it has no choices */
    int64_t fastest;               /* what timing finds today */
    bool tells;                    /* by results, which way was taken */
    bool assigns;                  /* ranks are of one kind and share nothing */
    int64_t timed;                 /* in one run, by this rank */
    struct product products[MOST]; /* these */
    int64_t unknown;               /* products planned in one run before their way was known */
} fake;

static int micro_batch = 2;
static bool sharing;
static char *shipped; /* the folder of files that come with the program */

char *shipped_folder(const char *name)
{
    (void)name;
    return memory_string(shipped);
}

static struct product product_of(const struct gemm_args *gemm)
{
    return (struct product){gemm->d.rows, gemm->d.cols, gemm->a.cols,
                            gemm->transpose_a + 2 * gemm->transpose_b + 4 * gemm->accumulate};
}

static void choose(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    wrapper_pass(wrapper, stream, op, args);
    if (op != OP_GEMM || fake.device == NULL)
        return;
    const struct gemm_args *gemm = args;
    const struct product product = product_of(gemm);
    int64_t way = FIRST;
    if (!tuning_table_find(&fake.table, 1, &product, sizeof product, &way, sizeof way)) {
        const struct executor *own = &wrapper->executor;
        const bool times = own->tuning_pass && tuning_share_has(&own->share, 1, &product, sizeof product);
        if (times && CHECK(fake.timed < MOST)) {
            way = fake.fastest;
            fake.products[fake.timed++] = product;
        }
        if (times || !own->tuning_pass)
            tuning_table_keep(&fake.table, 1, &product, sizeof product, &way, sizeof way);
    }
    if (fake.tells)
        ((float *)gemm->d.data)[0] += 1e-4f * (float)way;
}

/* Asked for what is planned: where an executor makes ready what it may take. */
static int64_t workspace(struct executor *executor, enum op op, const void *args)
{
    int64_t way;
    (void)executor;
    if (op == OP_GEMM && fake.device != NULL) {
        const struct product product = product_of(args);
        fake.unknown += !tuning_table_find(&fake.table, 1, &product, sizeof product, &way, sizeof way);
    }
    return fake.wrapper.inner->class->workspace(fake.wrapper.inner, op, args);
}

static const void *tuned_table(struct executor *executor, int64_t *bytes)
{
    (void)executor;
    return tuning_table_bytes(&fake.table, bytes);
}

static bool load_tuned(struct executor *executor, const void *from, int64_t bytes)
{
    (void)executor;
    return tuning_table_load(&fake.table, from, bytes);
}

static bool add_tuned(struct executor *executor, const void *from, int64_t bytes)
{
    (void)executor;
    return tuning_table_add(&fake.table, from, bytes);
}

static int make_executor(struct executor **executor, const struct device_request *request)
{
    static const struct executor_tuning tuning = {.table = tuned_table, .load = load_tuned, .add = add_tuned};
    fake.cpu = cpu_executor_create(request->threads);
    fake.timed = fake.unknown = 0;
    wrapper_create(&fake.wrapper, fake.cpu, choose, NULL);
    fake.class = *fake.wrapper.executor.class;
    if (fake.device != NULL) {
        tuning_table_create(&fake.table, fake.device);
        fake.class.workspace = workspace;
        fake.wrapper.executor.tuning = &tuning;
    }
    fake.wrapper.executor.class = &fake.class;
    *executor = &fake.wrapper.executor;
    return ERROR_NONE;
}

/* -- Runs -------------------------------------------------------------------------------------------------------- */

/* Each product was timed by one rank, its choice is that of all, and each rank had some to time. */
static void check_timed(void)
{
    struct product all[2 * MOST];
    int64_t counts[2], total = comm_sum_i64(world, fake.timed), way;
    comm_all_gather(world, fake.products, all, sizeof fake.products);
    comm_all_gather(world, &fake.timed, counts, sizeof fake.timed);
    CHECK(total == 0 || (counts[0] > 0 && counts[1] > 0));
    for (int r = 0; r < world->size; r++)
        for (int64_t i = 0; i < counts[r]; i++) {
            const struct product *one = &all[r * MOST + i];
            CHECK(tuning_table_find(&fake.table, 1, one, sizeof *one, &way, sizeof way) && way == fake.fastest);
            for (int64_t j = 0; j < counts[1 - r]; j++)
                CHECK(memcmp(one, &all[(1 - r) * MOST + j], sizeof *one) != 0);
        }
}

/* Trains to a step with that tuning file, going on where the folder has a checkpoint. Of each run: what was timed was
 * assigned to ranks, and all end with the same choices. */
static void train(const char *name, int steps, const char *tuning_file, bool deterministic, char digest[32])
{
    char folder[500], file[600], length[40], exact[60], rows[60], share[60];
    char *overrides[] = {folder, file, length, exact, rows, share};
    snprintf(folder, sizeof folder, "output.folder=%s", stores_path(name));
    snprintf(file, sizeof file, "device.tuning_file=%s", tuning_file);
    snprintf(length, sizeof length, "train.steps=%d", steps);
    snprintf(exact, sizeof exact, "device.deterministic=%s", deterministic ? "true" : "false");
    snprintf(rows, sizeof rows, "train.micro_batch=%d", micro_batch);
    snprintf(share, sizeof share, "device.share=%s", sharing ? "true" : "false");
    CHECK(run_train(world, stores_path("deck.cfg"), NULL, overrides, 6, make_executor) == ERROR_NONE);
    fake.cpu->class->destroy(fake.cpu);
    comm_barrier(world);
    stores_digest(name, steps, digest);
    CHECK(digest[0] != '\0');
    if (fake.device == NULL || !fake.assigns)
        return;
    check_timed();
    struct tuning_table *all = memory_allocate((int64_t)sizeof *all * world->size);
    int64_t bytes;
    tuning_table_bytes(&fake.table, &bytes);
    comm_all_gather(world, &fake.table, all, sizeof *all);
    for (int r = 1; r < world->size; r++)
        CHECK(all[0].head.count > 0 && memcmp(all, &all[r], (size_t)bytes) == 0);
    memory_free(all);
}

static int64_t timed(void)
{
    return comm_sum_i64(world, fake.timed);
}

static int64_t unknown(void)
{
    return comm_sum_i64(world, fake.unknown);
}

/* The choices of a file of a run; -1: it has none. */
static int64_t kept_in(const char *name, const char *file)
{
    char path[500];
    void *data;
    int64_t bytes;
    snprintf(path, sizeof path, "%s/%s", stores_path(name), file);
    CHECK(tuned_kernels_read(path, &data, &bytes) == ERROR_NONE);
    int64_t count = data == NULL ? -1 : tuning_table_count(data, bytes);
    memory_free(data);
    return count;
}

static bool there(const char *path)
{
    comm_barrier(world);
    return access(path, F_OK) == 0;
}

static void set_cache(const char *cache, const char *home)
{
    if (cache != NULL)
        setenv("XDG_CACHE_HOME", cache, 1);
    else
        unsetenv("XDG_CACHE_HOME");
    setenv("HOME", home, 1);
}

/* Overwrites a byte in the middle of a file; rank 0. */
static void spoil(const char *path)
{
    comm_barrier(world);
    FILE *file = world->rank == 0 ? fopen(path, "r+") : NULL;
    if (file != NULL) {
        fseek(file, 300, SEEK_SET);
        int byte = fgetc(file);
        fseek(file, 300, SEEK_SET);
        fputc(byte ^ 1, file);
        fclose(file);
    }
    comm_barrier(world);
}

/* -- Cases ------------------------------------------------------------------------------------------------------- */

static void test_tuning_pass(void)
{
    char plain[32], tuned[32];
    fake.tells = false;
    fake.assigns = true;
    fake.fastest = 7;
    fake.device = NULL;
    train("plain", STEPS, "none", false, plain);
    fake.device = "Fake GPU, library 1";
    train("timed_first", STEPS, "none", false, tuned);
    CHECK(timed() > 5);
    CHECK_STRING(tuned, plain);
    CHECK(kept_in("plain", "step_00000006.h5") == -1);
    CHECK(kept_in("timed_first", "step_00000006.h5") == fake.table.head.count);
    CHECK(kept_in("timed_first", "final_model.h5") == -1);
    fake.tells = true;
}

/* The state after two steps, with a tuning pass of another batch before each. Freed with free(). */
static char *state_after(struct executor *cpu, enum toy_kind kind, const struct parallel_groups *groups,
                         enum shard_level level, bool tunes, int64_t *bytes)
{
    struct toy toy;
    struct batch batches[2], other;
    struct toy_options options = toy_options(cpu);
    struct schedule schedule = schedule_create(2, 1, false);
    options.settings = toy_settings(kind);
    options.groups = groups;
    options.sharding.level = level;
    toy_create(&toy, &options);
    toy_batch(&batches[0], 2, 48, 1);
    toy_batch(&batches[1], 2, 48, 2);
    toy_batch(&other, 2, 48, 3);
    for (int step = 0; step < 2; step++) {
        if (tunes)
            engine_tuning_pass(&toy.engine, &other, step > 0);
        engine_step(&toy.engine, &schedule, batches, 1e-2);
    }
    char *state = toy_state(&toy, bytes);
    for (int i = 0; i < 2; i++)
        batch_destroy(&batches[i]);
    batch_destroy(&other);
    schedule_destroy(&schedule);
    toy_destroy(&toy);
    return state;
}

static void test_store(struct executor *cpu, enum toy_kind kind, const struct parallel_groups *groups,
                       enum shard_level level)
{
    int64_t bytes, others;
    char *plain = state_after(cpu, kind, groups, level, false, &bytes);
    char *tuned = state_after(cpu, kind, groups, level, true, &others);
    CHECK(bytes == others && memcmp(plain, tuned, (size_t)bytes) == 0);
    free(plain);
    free(tuned);
}

static void test_engine(void)
{
    struct executor *cpu = cpu_executor_create(1);
    struct group *group = comm_group_create(world, cpu, "data");
    const struct parallel_groups whole = groups_replicated(group),
                                 cut = {.all = group, .data = group, .gather = group, .reduce = group};
    for (enum toy_kind kind = TOY_LLAMA; kind < TOY_KINDS; kind++) {
        test_store(cpu, kind, NULL, SHARD_NONE);
        test_store(cpu, kind, &whole, SHARD_NONE);
        test_store(cpu, kind, &cut, SHARD_FULL);
    }
    comm_group_destroy(group);
    cpu->class->destroy(cpu);
}

/* A session whose weights are cut over the ranks, so that all must run the tuning pass; with a step of one micro-batch,
 * of which rank 1 has no row. */
static void test_sharded(void)
{
    struct deck deck;
    struct session s;
    char *notes;
    char file[] = "device.tuning_file=none", rows[] = "train.global_batch=2", batch[] = "train.micro_batch=2";
    char shard[] = "parallel.shard=full";
    char *overrides[] = {file, rows, batch, shard};
    CHECK(deck_read(&deck, stores_path("deck.cfg"), overrides, 4, &notes) == ERROR_NONE);
    free(notes);
    CHECK(session_create(&s, &deck, world, NULL, make_executor) == ERROR_NONE);
    tuning_complete(world, &s.setup, &s.engine, s.train);
    CHECK(timed() > 5);
    check_timed();
    session_destroy(&s);
    fake.cpu->class->destroy(fake.cpu);
}

/* Ranks that may share a device, or have another, time nothing beside rank 0. */
static void test_alone(void)
{
    char digest[32];
    fake.assigns = false;
    sharing = true;
    train("sharing", STEPS, "none", false, digest);
    CHECK(world->rank == 0 ? fake.timed > 5 : fake.timed == 0);
    sharing = false;
    fake.device = world->rank == 0 ? "Fake GPU, library 1" : "Fake GPU, library 2";
    train("mixed", STEPS, "none", false, digest);
    CHECK(world->rank == 0 ? fake.timed > 5 : fake.timed == 0);
    fake.device = "Fake GPU, library 1";
    fake.assigns = true;
}

static void test_file(void)
{
    char first[32], again[32], none[32];
    char *file = memory_string(stores_path("tuned"));
    fake.fastest = 7;
    train("first", STEPS, file, false, first);
    const int64_t all = timed(), planned = unknown();
    CHECK(all > 5 && planned > 0 && there(file));
    fake.fastest = 9; /* another day's timing */
    train("again", STEPS, file, false, again);
    CHECK(timed() == 0 && unknown() == 0);
    CHECK_STRING(again, first);
    train("none", STEPS, "none", false, none);
    CHECK(timed() == all && strcmp(none, first) != 0 && !there("none"));
    CHECK(unknown() == planned);

    spoil(file);
    train("spoilt", STEPS, file, false, again);
    CHECK(timed() == all);
    CHECK_STRING(again, none);
    train("mended", STEPS, file, false, again);
    CHECK(timed() == 0);

    fake.device = "Fake GPU, library 2";
    train("other", STEPS, file, false, again);
    CHECK(timed() == all);
    fake.device = "Fake GPU, library 1";

    /* a folder that is not there: the run does without */
    train("unwritable", STEPS, stores_path("not/here"), false, again);
    CHECK(timed() == all);
    CHECK_STRING(again, none);
    free(file);
}

static void test_default_file(void)
{
    char digest[32], path[500];
    char *cache = memory_string(stores_path("cache")), *home = memory_string(stores_path("home"));
    set_cache(cache, home);
    train("in_cache", STEPS, "", false, digest);
    snprintf(path, sizeof path, "%s/cistron/tuning-Fake-GPU--library-1", cache);
    CHECK(timed() > 5 && there(path));
    train("from_cache", STEPS, "", false, digest);
    CHECK(timed() == 0);
    set_cache(NULL, home);
    train("at_home", STEPS, "", false, digest);
    snprintf(path, sizeof path, "%s/.cache/cistron/tuning-Fake-GPU--library-1", home);
    CHECK(timed() > 5 && there(path));
    set_cache(NULL, "");
    train("homeless", STEPS, "", false, digest);
    CHECK(timed() > 5);
    free(cache);
    free(home);
}

/* A table with choices of products numbered from `first` on, of the fake device; memory_free. */
static struct tuning_bytes make_tuned(int64_t first, int64_t count)
{
    struct tuning_bytes bytes;
    struct tuning_table *made = memory_allocate(sizeof *made);
    tuning_table_create(made, "Fake GPU, library 1");
    for (int64_t i = first; i < first + count; i++)
        tuning_table_keep(made, 1, &i, sizeof i, &i, sizeof i);
    tuning_table_bytes(made, &bytes.count);
    bytes.data = made;
    return bytes;
}

static int64_t count_in(const char *path)
{
    struct tuning_bytes bytes = tuning_file_read(path);
    int64_t count = tuning_table_count(bytes.data, bytes.count);
    memory_free(bytes.data);
    return count;
}

/* Is the file neither read nor changed? */
static void check_refused(const char *path, const struct tuning_bytes *more, const char *why)
{
    CHECK(count_in(path) == -1);
    CHECK(tuning_file_add(path, more) != ERROR_NONE && strstr(error_message(), why) != NULL);
    error_clear();
}

/* Rank 0. */
static void test_trust(void)
{
    char *file = memory_string(stores_path("trusted")), *other = memory_string(stores_path("elsewhere"));
    struct tuning_bytes few = make_tuned(0, 3), more = make_tuned(2, 3);
    CHECK(count_in(file) == -1);
    CHECK(tuning_file_add(file, &few) == ERROR_NONE && count_in(file) == 3);
    CHECK(symlink(file, other) == 0);
    check_refused(other, &more, "it is a link");
    unlink(other);
    CHECK(mkfifo(other, 0600) == 0);
    check_refused(other, &more, "not a regular file");
    unlink(other);
    if (geteuid() == 0 && chown(file, 54321, 54321) == 0) { /* not in every container */
        check_refused(file, &more, "belongs to another user");
        CHECK(chown(file, 0, 0) == 0);
    }
    CHECK(count_in(file) == 3);
    CHECK(tuning_file_add(file, &more) == ERROR_NONE && count_in(file) == 5);

    /* cut off, longer than any table, of another device: as if nothing were there */
    CHECK(truncate(file, few.count - 1) == 0 && count_in(file) == -1);
    CHECK(tuning_file_add(file, &few) == ERROR_NONE && count_in(file) == 3);
    CHECK(truncate(file, (off_t)1 << 40) == 0 && count_in(file) == -1);
    CHECK(tuning_file_add(file, &few) == ERROR_NONE && count_in(file) == 3);
    strcpy(((struct tuning_table *)more.data)->head.identity, "Fake GPU, library 2");
    tuning_table_bytes(more.data, &more.count);
    CHECK(tuning_file_add(file, &more) == ERROR_NONE && count_in(file) == 3);

    /* a slip of the user's in device.tuning_file costs no other file */
    FILE *deck = fopen(other, "w");
    CHECK(deck != NULL && fputs("train = {};", deck) > 0 && fclose(deck) == 0);
    check_refused(other, &few, "is not a tuning file");
    CHECK(truncate(other, 0) == 0 && tuning_file_add(other, &few) == ERROR_NONE && count_in(other) == 3);
    memory_free(few.data);
    memory_free(more.data);
    free(file);
    free(other);
}

/* A checkpoint with /state/choices of a type and shape; rank 0. */
static void write_tuned(const char *path, hid_t type, int dimensions, hsize_t rows)
{
    const hsize_t extent[] = {rows, 2}, chunk[] = {1024, 2};
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t group = H5Gcreate2(file, "state", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    hid_t space = H5Screate_simple(dimensions, extent, NULL), plan = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(plan, dimensions, chunk);
    hid_t dataset = H5Dcreate2(group, "choices", type, space, H5P_DEFAULT, plan, H5P_DEFAULT);
    CHECK(dataset >= 0);
    H5Dclose(dataset);
    H5Pclose(plan);
    H5Sclose(space);
    H5Gclose(group);
    H5Fclose(file);
}

/* What a checkpoint holds may be of any type and size; rank 0. */
static void test_checkpoint_tuned(void)
{
    const struct {
        hid_t type;
        int dimensions;
        hsize_t rows;
        bool good;
    } cases[] = {{H5T_STD_U8LE, 1, 5000, true},     {H5T_IEEE_F64LE, 1, 5000, false},
                 {H5T_STD_I64LE, 1, 5000, false},   {H5T_STD_U8LE, 2, 5000, false},
                 {H5T_STD_U8LE, 1, 1 << 20, false}, {H5T_STD_U8LE, 1, (hsize_t)1 << 40, false}};
    char *path = memory_string(stores_path("choices.h5"));
    void *data;
    int64_t bytes;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_tuned(path, cases[i].type, cases[i].dimensions, cases[i].rows);
        CHECK(tuned_kernels_read(path, &data, &bytes) == (cases[i].good ? ERROR_NONE : ERROR_USER));
        CHECK((data != NULL) == cases[i].good && tuning_table_count(data, bytes) == -1);
        memory_free(data);
        error_clear();
    }
    write_tuned(path, H5T_STD_U8LE, 1, 5000);
    CHECK(truncate(path, 700) == 0 && tuned_kernels_read(path, &data, &bytes) == ERROR_USER && data == NULL);
    error_clear();
    free(path);
}

/* Runs that end at the same time: each adds choices of its own, and none is lost. */
static void test_two_writers(void)
{
    enum { TIMES = 25, EACH = 3 };
    char *file = memory_string(stores_path("written"));
    comm_barrier(world);
    for (int64_t i = 0; i < TIMES; i++) {
        struct tuning_bytes own = make_tuned((world->size * i + world->rank) * EACH, EACH);
        CHECK(tuning_file_add(file, &own) == ERROR_NONE);
        memory_free(own.data);
    }
    comm_barrier(world);
    CHECK(count_in(file) == TIMES * EACH * world->size);
    free(file);
}

/* What the user's own file lacks comes from the program's. */
static void test_shipped(void)
{
    char seven[32], nine[32], digest[32];
    char *own = memory_string(stores_path("own")), *empty = memory_string(stores_path("empty"));
    char *installed = memory_format("%s/tuning-Fake-GPU--library-1", shipped);
    if (world->rank == 0)
        CHECK(mkdir(shipped, 0700) == 0);
    comm_barrier(world);
    fake.fastest = 7;
    train("makes_seven", STEPS, installed, false, seven);
    const int64_t all = timed();
    CHECK(all > 5);
    fake.fastest = 9;
    if (world->rank == 0)
        CHECK(rename(installed, empty) == 0);
    train("makes_nine", STEPS, own, false, nine);
    CHECK(timed() == all && strcmp(nine, seven) != 0);
    if (world->rank == 0)
        CHECK(rename(empty, installed) == 0);
    fake.fastest = 11;
    train("by_installed", STEPS, empty, false, digest);
    CHECK(timed() == 0 && unknown() == 0 && !there(empty));
    CHECK_STRING(digest, seven);
    train("by_own", STEPS, own, false, digest);
    CHECK(timed() == 0);
    CHECK_STRING(digest, nine);
    train("by_none", STEPS, "none", false, digest);
    CHECK(timed() == all);
    if (world->rank == 0)
        CHECK(unlink(installed) == 0);
    comm_barrier(world);
    free(own);
    free(empty);
    free(installed);
}

static void test_restart(void)
{
    char whole[32], resumed[32], plain[32];
    char *file = memory_string(stores_path("restart"));
    fake.fastest = 7;
    train("whole", STEPS, "none", false, whole);
    train("halves", STEPS / 2, "none", false, resumed);
    fake.fastest = 9;
    train("halves", STEPS, file, false, resumed);
    CHECK(timed() == 0 && unknown() == 0 && !there(file));
    CHECK_STRING(resumed, whole);

    micro_batch = 4; /* new shapes */
    train("halves", STEPS + 1, file, false, resumed);
    CHECK(timed() > 5 && there(file));
    micro_batch = 2;

    /* of another device: chosen again */
    train("moved", STEPS / 2, "none", false, resumed);
    fake.device = "Fake GPU, library 2";
    train("moved", STEPS, "none", false, resumed);
    CHECK(timed() > 5);

    /* from an executor with choices to one without and back */
    fake.device = NULL;
    train("across", STEPS / 2, "none", false, plain);
    fake.device = "Fake GPU, library 1";
    train("across", STEPS - 1, "none", false, plain);
    CHECK(timed() > 5 && kept_in("across", "step_00000003.h5") == -1 && kept_in("across", "step_00000005.h5") > 5);
    fake.device = NULL;
    train("across", STEPS, "none", false, plain);
    CHECK(kept_in("across", "step_00000006.h5") == -1);
    fake.device = "Fake GPU, library 1";
    free(file);
}

static void test_deterministic(void)
{
    char exact[32], again[32];
    char *file = memory_string(stores_path("unused"));
    fake.fastest = 7;
    train("exact", STEPS, file, true, exact);
    CHECK(timed() == 0 && !there(file));
    CHECK(kept_in("exact", "step_00000006.h5") > 5);
    fake.fastest = 9;
    train("exact_too", STEPS, file, true, again);
    CHECK_STRING(again, exact);
    train("exact_still", STEPS, stores_path("tuned"), true, again); /* not read */
    CHECK(unknown() > 0 && there(stores_path("tuned")));
    CHECK_STRING(again, exact);
    /* what a run chose by timing, a deterministic one takes over */
    train("timed", STEPS / 2, "none", false, again);
    train("timed", STEPS, "none", true, again);
    CHECK(timed() == 0 && kept_in("timed", "step_00000006.h5") == fake.table.head.count);
    int64_t way = 0;
    memcpy(&way, fake.table.entries[0].value, sizeof way);
    CHECK(way == 9);
    free(file);
}

static void write_files(void)
{
    stores_write_periodic(stores_path("five.h5"));
    FILE *deck = fopen(stores_path("deck.cfg"), "w");
    fprintf(deck,
            "model = { layers = 1; hidden = 16; ffn = 32; heads = 2; };\n"
            "data = { train = \"%s\"; row_tokens = 32; };\n"
            "train = { global_batch = 8; };\n"
            "schedule = { kind = \"constant\"; };\ncheckpoint = { keep = 20; };\nlog = { tensorboard = false; };\n"
            "device = { threads = 1; };\n",
            stores_path("five.h5"));
    fclose(deck);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    world = comm_open_mpi();
    log_open(world->rank);
    stores_begin_on_ranks(world, write_files);

    shipped = memory_string(stores_path("shipped"));
    test_tuning_pass();
    test_engine();
    test_sharded();
    test_alone();
    test_file();
    test_default_file();
    if (world->rank == 0) {
        test_trust();
        test_checkpoint_tuned();
    }
    test_two_writers();
    test_shipped();
    test_restart();
    test_deterministic();

    free(shipped);
    comm_barrier(world);
    if (world->rank == 0)
        stores_end();
    int failed = check_end();
    comm_destroy(world);
    MPI_Finalize();
    return failed;
}
