#include "train/tuning.h"
#include "base/clock.h"
#include "file/disk.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "file/shipped.h"
#include "core/tuned_kernels.h"
#include "checkpoint/tuned_kernels.h"
#include "train/shared_batch.h"
#include "train/tuning_file.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static struct tuning_bytes copy_of(struct executor *executor)
{
    struct tuning_bytes copy;
    const void *from = executor->tuning->table(executor->owner, &copy.count);
    copy.data = memory_allocate(copy.count);
    memcpy(copy.data, from, (size_t)copy.count);
    return copy;
}

/* -- The tuning files (rank 0) ----------------------------------------------------------------------------------- */

/* Returns the path of the tuning file in a folder, which has one file for each kind of device and library. */
static char *file_in(const char *folder, struct executor *executor)
{
    int64_t bytes;
    const void *own = executor->tuning->table(executor->owner, &bytes);
    char identity[TUNING_IDENTITY_BYTES];
    tuning_table_identity(identity, own, bytes);
    for (char *c = identity; *c != '\0'; c++)
        if (!isalnum((unsigned char)*c) && *c != '.')
            *c = '-';
    return memory_format("%s/tuning-%s", folder, identity);
}

/* NULL: the user has no home. */
static char *default_path(struct executor *executor)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *folder = NULL, *path = NULL;
    if (cache != NULL && cache[0] == '/')
        folder = memory_format("%s/cistron", cache);
    else if (home != NULL && home[0] == '/')
        folder = memory_format("%s/.cache/cistron", home);
    if (folder != NULL)
        path = file_in(folder, executor);
    free(folder);
    return path;
}

static bool has_files(const struct setup *setup)
{
    return !setup->device.deterministic && strcmp(setup->tuning_file, "none") != 0;
}

static char *shipped_path(struct executor *executor)
{
    char *folder = shipped_folder("tuning"), *path = file_in(folder, executor);
    free(folder);
    return path;
}

/* The user's own file; NULL: none. */
static char *own_path(struct executor *executor, const struct setup *setup)
{
    const char *key = setup->tuning_file;
    return key[0] != '\0' ? memory_string(key) : default_path(executor);
}

/* Saves the tuned kernels. A failure is only a warning: then the next run has to time again. */
static bool write_file(const char *path, bool in_cache, const struct tuning_bytes *made)
{
    char *folder = in_cache ? disk_folder(path) : NULL;
    if (folder != NULL)
        disk_make_folder(folder, NULL);
    free(folder);
    if (tuning_file_add(path, made) == ERROR_NONE)
        return true;
    log_warn("tuning: %s; each run will time its kernels again (device.tuning_file names a file, or is \"none\")",
             error_message());
    error_clear();
    return false;
}

/* -- What is known (rank 0) --------------------------------------------------------------------------------------- */

static bool add(struct executor *executor, const struct tuning_bytes *bytes, const char *where)
{
    const int64_t count = tuning_table_count(bytes->data, bytes->count);
    const bool fits = count > 0 && executor->tuning->add(executor->owner, bytes->data, bytes->count);
    if (fits)
        log_info("# tuning: %lld tuned kernels from %s", (long long)count, where);
    return fits;
}

static bool add_file(struct executor *executor, const char *path)
{
    struct tuning_bytes bytes = tuning_file_read(path);
    bool fits = add(executor, &bytes, path);
    memory_free(bytes.data);
    return fits;
}

/* Adds the known tuned kernels; later ones take precedence. kept: those of the checkpoint. */
static bool add_known(struct executor *executor, const struct setup *setup, const struct tuning_bytes *kept)
{
    bool known = false;
    if (has_files(setup)) {
        char *paths[] = {shipped_path(executor), own_path(executor, setup)};
        for (int i = 0; i < 2; i++) {
            known |= paths[i] != NULL && add_file(executor, paths[i]);
            free(paths[i]);
        }
    }
    const bool fits = add(executor, kept, "the checkpoint");
    if (kept->count > 0 && !fits)
        log_info("# tuning: the checkpoint's tuned kernels are for another device or library, and are ignored");
    return known || fits;
}

/* -- Timing (all ranks) ------------------------------------------------------------------------------------------ */

/* Assigns the timings to the ranks whose device is of rank 0's kind. Each pipeline stage does its own, since stages
 * have different GEMMs. If ranks may share a device, rank 0 times everything: concurrent timings on one device are
 * wrong. */
static struct tuning_share assign_timings(struct comm *world, struct executor *executor, int stage, bool sharing)
{
    int64_t bytes;
    const void *from = executor->tuning->table(executor->owner, &bytes);
    char own[TUNING_IDENTITY_BYTES], first[TUNING_IDENTITY_BYTES];
    tuning_table_identity(own, from, bytes);
    memcpy(first, own, sizeof first);
    comm_broadcast(world, first, sizeof first, 0);
    const bool times = world->rank == 0 || (!sharing && strcmp(own, first) == 0);
    const int timed = times ? stage : -1;
    int before = 0, ranks = 0, *all = memory_allocate((int64_t)sizeof *all * world->size);
    comm_all_gather(world, &timed, all, sizeof timed);
    for (int r = 0; r < world->size; r++) {
        before += r < world->rank && all[r] == stage;
        ranks += all[r] == stage;
    }
    memory_free(all);
    return (struct tuning_share){times ? before : -1, ranks > 0 ? ranks : 1};
}

static void run_tuning_pass(struct comm *world, const struct setup *setup, struct engine *engine, struct loader *loader)
{
    struct batch batch;
    shared_batch_create(&batch, world, engine, loader);
    engine->executor->share =
        assign_timings(world, engine->executor, group_rank(engine->groups.stages), setup->device.share);
    engine_tuning_pass(engine, &batch, loader_micro_batches(loader) > 1);
    batch_destroy(&batch);
}

/* Adds the tuned kernels that the other ranks have made, which are the differences from `before`, to those of rank 0.
 */
static void join(struct comm *world, struct executor *executor, const struct tuning_bytes *before)
{
    struct tuning_bytes after = copy_of(executor);
    struct tuning_table *own = memory_allocate(sizeof *own);
    const int64_t ranks = world->rank == 0 ? world->size : 0;
    int64_t bytes, *sizes = memory_allocate((int64_t)sizeof *sizes * (ranks + 1));
    tuning_table_create_new(own, after.data, after.count, before->data, before->count);
    tuning_table_bytes(own, &bytes);
    comm_gather(world, &bytes, sizes, sizeof bytes);
    const int64_t most = comm_max_i64(world, bytes);
    char *all = memory_allocate(most * ranks + 1);
    comm_gather(world, own, all, most);
    for (int64_t r = 1; r < ranks; r++)
        executor->tuning->add(executor->owner, all + most * r, sizes[r]);
    memory_free(all);
    memory_free(sizes);
    memory_free(own);
    memory_free(after.data);
}

/* -- Saving (rank 0) -------------------------------------------------------------------------------------------- */

/* seconds: duration of the tuning pass. */
static void keep(const struct setup *setup, struct executor *executor, const struct tuning_bytes *before,
                 double seconds)
{
    struct tuning_bytes after = copy_of(executor), made;
    struct tuning_table *table = memory_allocate(sizeof *table);
    tuning_table_create_new(table, after.data, after.count, before->data, before->count);
    made.data = (void *)tuning_table_bytes(table, &made.count);
    char *path = has_files(setup) && table->head.count > 0 ? own_path(executor, setup) : NULL;
    const bool written = path != NULL && write_file(path, setup->tuning_file[0] == '\0', &made);
    log_info("# tuning: %lld kernels tuned in %.1f s%s%s", (long long)table->head.count, seconds,
             written ? ", kept in " : "", written ? path : "");
    memory_free(table);
    memory_free(after.data);
    free(path);
}

/* -- All ranks --------------------------------------------------------------------------------------------------- */

/* Sends rank 0's tuned kernels to all ranks; returns the number of ranks that could not accept them. */
static int64_t share(struct comm *world, struct executor *executor)
{
    struct tuning_bytes bytes = {NULL, 0};
    if (world->rank == 0)
        bytes = copy_of(executor);
    comm_broadcast(world, &bytes.count, sizeof bytes.count, 0);
    if (world->rank != 0)
        bytes.data = memory_allocate(bytes.count);
    comm_broadcast(world, bytes.data, bytes.count, 0);
    int64_t refused = world->rank != 0 && !executor->tuning->load(executor->owner, bytes.data, bytes.count);
    memory_free(bytes.data);
    return comm_sum_i64(world, refused);
}

int tuning_take(struct comm *world, struct executor *executor, const struct setup *setup, const char *checkpoint)
{
    if (executor->tuning == NULL)
        return ERROR_NONE;
    struct tuning_bytes kept = {NULL, 0};
    int code = ERROR_NONE;
    if (world->rank == 0 && checkpoint != NULL)
        code = tuned_kernels_read(checkpoint, &kept.data, &kept.count);
    code = comm_agree(world, code);
    bool known = code == ERROR_NONE && world->rank == 0 && add_known(executor, setup, &kept);
    memory_free(kept.data);
    comm_broadcast(world, &known, sizeof known, 0);
    if (known)
        share(world, executor); /* a rank that rejects these will also reject the complete table */
    return code;
}

void tuning_complete(struct comm *world, const struct setup *setup, struct engine *engine, struct loader *loader)
{
    if (engine->executor->tuning == NULL)
        return;
    if (!setup->device.deterministic) {
        struct tuning_bytes before = copy_of(engine->executor);
        const double start = clock_seconds();
        run_tuning_pass(world, setup, engine, loader);
        join(world, engine->executor, &before);
        if (world->rank == 0)
            keep(setup, engine->executor, &before, clock_seconds() - start);
        memory_free(before.data);
    }
    int64_t refused = share(world, engine->executor);
    if (refused > 0 && world->rank == 0)
        log_warn("tuning: %lld ranks have another kind of GPU or other libraries than rank 0, and use the kernels that "
                 "their libraries name first",
                 (long long)refused);
}
