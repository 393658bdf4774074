#include "train/tuning.h"
#include "base/clock.h"
#include "base/disk.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/open.h"
#include "core/choice.h"
#include "io/choices.h"
#include "io/draft.h"
#include "io/file.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of choices; owned. */
struct bytes {
    void *data;
    int64_t count;
};

static struct bytes copy_of(struct executor *executor)
{
    struct bytes copy;
    const void *from = executor->class->choices(executor, &copy.count);
    copy.data = memory_allocate(copy.count);
    memcpy(copy.data, from, (size_t)copy.count);
    return copy;
}

static bool take(struct executor *executor, const struct bytes *bytes)
{
    return bytes->count > 0 && executor->class->take_choices(executor, bytes->data, bytes->count);
}

/* -- The tuning file (rank 0) ------------------------------------------------------------------------------------ */

/* In the user's cache one file for each kind of device and libraries, by what the executor's choices are good for; NULL
 * where the user has no home. */
static char *default_path(struct executor *executor)
{
    int64_t bytes;
    const void *own = executor->class->choices(executor, &bytes);
    char identity[CHOICE_IDENTITY_BYTES];
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    choice_identity(identity, own, bytes);
    for (char *c = identity; *c != '\0'; c++)
        if (!isalnum((unsigned char)*c) && *c != '.')
            *c = '-';
    if (cache != NULL && cache[0] == '/')
        return memory_format("%s/cistron/tuning-%s", cache, identity);
    return home != NULL && home[0] == '/' ? memory_format("%s/.cache/cistron/tuning-%s", home, identity) : NULL;
}

/* NULL: there is to be none. */
static char *path_of(struct executor *executor, const struct deck *deck)
{
    const char *key = deck->device.tuning_file;
    if (deck->device.deterministic || strcmp(key, "none") == 0)
        return NULL;
    return key[0] != '\0' ? memory_string(key) : default_path(executor);
}

/* What a file holds that may be one of choices; nothing when there is none. */
static struct bytes read_file(const char *path)
{
    struct bytes bytes = {memory_allocate(sizeof(struct choice_table)), 0};
    FILE *file = open_stream(path);
    if (file != NULL) {
        bytes.count = (int64_t)fread(bytes.data, 1, sizeof(struct choice_table), file);
        fclose(file);
    }
    return bytes;
}

static int write_whole(const char *path, const struct bytes *bytes)
{
    struct draft draft;
    int code = draft_open(&draft, path);
    if (code != ERROR_NONE)
        return code;
    fwrite(bytes->data, 1, (size_t)bytes->count, draft.file); /* a failure is found when it is flushed */
    return draft_close(&draft, ERROR_NONE);
}

/* A run does not end because its next one will have to time again. */
static bool write_file(const char *path, bool in_cache, const struct bytes *bytes)
{
    char *slash = in_cache ? strrchr(path, '/') : NULL;
    if (slash != NULL) {
        char *folder = memory_format("%.*s", (int)(slash - path), path);
        disk_make_folder(folder, NULL);
        free(folder);
    }
    if (write_whole(path, bytes) == ERROR_NONE)
        return true;
    log_warn("tuning: %s; each run will time its kernels again (device.tuning_file names a file, or is \"none\")",
             error_message());
    error_clear();
    return false;
}

/* -- What is known (rank 0) --------------------------------------------------------------------------------------- */

static enum tuning_source take_known(struct executor *executor, const struct deck *deck, const struct bytes *kept)
{
    if (take(executor, kept))
        return TUNING_CHECKPOINT;
    if (kept->count > 0)
        log_info("# tuning: the checkpoint's choices of kernels are for another device or library, and are left");
    char *path = path_of(executor, deck);
    if (path == NULL)
        return TUNING_NONE;
    struct bytes file = read_file(path);
    bool fits = take(executor, &file);
    memory_free(file.data);
    free(path);
    return fits ? TUNING_FILE : TUNING_NONE;
}

/* -- Timing (all ranks) ------------------------------------------------------------------------------------------ */

/* Ranks whose device is of rank 0's kind deal out what is to be timed. Where they may share a device, rank 0 times all:
 * times that are taken side by side on one are wrong. */
static struct choice_share deal(struct comm *world, struct executor *executor, bool sharing)
{
    int64_t bytes;
    const void *from = executor->class->choices(executor, &bytes);
    char own[CHOICE_IDENTITY_BYTES], first[CHOICE_IDENTITY_BYTES];
    choice_identity(own, from, bytes);
    memcpy(first, own, sizeof first);
    comm_broadcast(world, first, sizeof first, 0);
    const bool times = world->rank == 0 || (!sharing && strcmp(own, first) == 0);
    bool *all = memory_allocate((int64_t)sizeof *all * world->size);
    comm_all_gather(world, &times, all, sizeof times);
    int before = 0, ranks = 0;
    for (int r = 0; r < world->size; r++) {
        before += r < world->rank && all[r];
        ranks += all[r];
    }
    memory_free(all);
    return (struct choice_share){times ? before : -1, ranks};
}

/* A copy, on all ranks, of a micro-batch that rank 0 will learn from: a rank may have no row of its own. The middle one
 * of its first step, for the first may have the longest segments (data/deal.h). */
static void share_batch(struct batch *batch, struct comm *world, const struct engine *engine, struct loader *loader)
{
    const struct memory_settings *m = &engine->settings.memory;
    struct blend_position position = loader_position(loader);
    const int64_t step = loader_step(loader);
    const struct batch *next = loader_next(loader) + (loader_micro_batches(loader) - 1) / 2;
    batch_create(batch, m->rows, m->row_tokens, m->max_segments);
    CHECK_BUG(batch_bytes(next) == batch_bytes(batch));
    memcpy(batch->tokens, next->tokens, (size_t)batch_bytes(batch));
    comm_broadcast(world, batch->tokens, batch_bytes(batch), 0);
    loader_seek(loader, &position, step);
    blend_position_destroy(&position);
}

static void rehearse(struct comm *world, const struct deck *deck, struct engine *engine, struct loader *loader)
{
    struct batch batch;
    share_batch(&batch, world, engine, loader);
    engine->executor->share = deal(world, engine->executor, deck->device.share);
    engine_rehearse(engine, &batch);
    batch_destroy(&batch);
}

/* Rank 0 adds to its choices those that others have made, which are what differs from `before`. */
static void join(struct comm *world, struct executor *executor, const struct bytes *before)
{
    struct bytes after = copy_of(executor);
    struct choice_table *own = memory_allocate(sizeof *own);
    int64_t bytes, most = 0, *sizes = memory_allocate((int64_t)sizeof *sizes * world->size);
    choice_table_create_new(own, after.data, after.count, before->data, before->count);
    choice_table_bytes(own, &bytes);
    comm_all_gather(world, &bytes, sizes, sizeof bytes);
    for (int r = 0; r < world->size; r++)
        most = sizes[r] > most ? sizes[r] : most;
    char *all = memory_allocate(most * world->size);
    comm_all_gather(world, own, all, most);
    for (int r = 1; r < world->size && world->rank == 0; r++)
        executor->class->add_choices(executor, all + most * r, sizes[r]);
    memory_free(all);
    memory_free(sizes);
    memory_free(own);
    memory_free(after.data);
}

/* -- Keeping (rank 0) -------------------------------------------------------------------------------------------- */

static void tell(const char *source, int64_t known, int64_t made, double seconds, const char *written)
{
    char *more = source != NULL ? memory_format("%lld choices of kernels from %s, %lld more", (long long)known, source,
                                                (long long)made)
                                : memory_format("%lld choices of kernels", (long long)made);
    log_info("# tuning: %s made in %.1f s%s%s", more, seconds, written != NULL ? ", kept in " : "",
             written != NULL ? written : "");
    free(more);
}

/* timed: there was a rehearsal, of so many seconds. */
static void keep(enum tuning_source source, const struct deck *deck, struct executor *executor,
                 const struct bytes *before, bool timed, double seconds)
{
    struct bytes after = copy_of(executor);
    int64_t made = choice_count_new(after.data, after.count, before->data, before->count);
    char *path = path_of(executor, deck);
    const char *const sources[] = {[TUNING_NONE] = NULL, [TUNING_CHECKPOINT] = "the checkpoint", [TUNING_FILE] = path};
    /* a checkpoint has the choices of one model, the file may have those of many */
    bool writes = made > 0 && path != NULL && source != TUNING_CHECKPOINT;
    bool written = writes && write_file(path, deck->device.tuning_file[0] == '\0', &after);
    if (timed || source != TUNING_NONE)
        tell(sources[source], choice_count(before->data, before->count), made, seconds, written ? path : NULL);
    memory_free(after.data);
    free(path);
}

/* -- All ranks --------------------------------------------------------------------------------------------------- */

/* All take rank 0's choices; how many could not. */
static int64_t share(struct comm *world, struct executor *executor)
{
    struct bytes bytes = {NULL, 0};
    if (world->rank == 0)
        bytes = copy_of(executor);
    comm_broadcast(world, &bytes.count, sizeof bytes.count, 0);
    if (world->rank != 0)
        bytes.data = memory_allocate(bytes.count);
    comm_broadcast(world, bytes.data, bytes.count, 0);
    int64_t refused = world->rank != 0 && !take(executor, &bytes);
    memory_free(bytes.data);
    return comm_sum_i64(world, refused);
}

int tuning_take(enum tuning_source *source, struct comm *world, struct executor *executor, const struct deck *deck,
                const char *checkpoint)
{
    *source = TUNING_NONE;
    if (executor->class->choices == NULL)
        return ERROR_NONE;
    struct bytes kept = {NULL, 0};
    int code = ERROR_NONE;
    if (world->rank == 0 && checkpoint != NULL)
        code = choices_read(checkpoint, &kept.data, &kept.count);
    code = comm_agree(world, code);
    if (code == ERROR_NONE && world->rank == 0)
        *source = take_known(executor, deck, &kept);
    memory_free(kept.data);
    comm_broadcast(world, source, sizeof *source, 0);
    if (*source != TUNING_NONE)
        share(world, executor); /* who cannot take these cannot take the complete ones, which is told then */
    return code;
}

void tuning_complete(enum tuning_source source, struct comm *world, const struct deck *deck, struct engine *engine,
                     struct loader *loader, bool trains)
{
    if (engine->executor->class->choices == NULL)
        return;
    const bool times = trains && !deck->device.deterministic;
    struct bytes before = copy_of(engine->executor);
    const double start = clock_seconds();
    if (times) {
        rehearse(world, deck, engine, loader);
        join(world, engine->executor, &before);
    }
    if (world->rank == 0)
        keep(source, deck, engine->executor, &before, times, clock_seconds() - start);
    memory_free(before.data);
    int64_t refused = share(world, engine->executor);
    if (refused > 0 && world->rank == 0)
        log_warn(
            "tuning: %lld ranks have another kind of GPU or other libraries than rank 0, and take the kernels that "
            "their libraries name first",
            (long long)refused);
}
