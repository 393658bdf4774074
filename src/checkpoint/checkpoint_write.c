/* Writes a checkpoint, within a step or by a thread while the next steps run. */
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "file/open.h"
#include "base/thread.h"
#include "file/block.h"
#include "checkpoint/checkpoint_private.h"
#include "file/file.h"
#include "file/temporary.h"
#include "engine/engine.h"
#include "state/fetch.h"
#include "state/snapshot.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
/* xxhash: see file/block.c */
#include <xxhash.h>

/* -- Names ------------------------------------------------------------------------------------------------------- */

void checkpoint_names_create(struct checkpoint_names *names, const char *path)
{
    char *side = block_side_path(path);
    *names = (struct checkpoint_names){memory_string(path), side, temporary_shared(path), temporary_shared(side)};
}

void checkpoint_names_destroy(struct checkpoint_names *names)
{
    free(names->path);
    free(names->side);
    free(names->temporary);
    free(names->side_temporary);
}

/* -- A rank's share ---------------------------------------------------------------------------------------------- */

struct writer {
    const char *path;
    int descriptor;
    int parameters;
    const int64_t *offsets; /* [kinds * parameters] */
    struct block_list blocks;
    bool digests; /* the digest is computed, because the whole state is written */
    bool dry;     /* nothing is written */
    uint64_t digest;
};

int checkpoint_write_run(struct block_list *blocks, int descriptor, const char *path, const void *data, int64_t bytes,
                         int64_t offset)
{
    const uint64_t hash = XXH3_64bits(data, (size_t)bytes);
    int code = file_write(descriptor, path, data, bytes, offset);
    if (code != ERROR_NONE)
        return code;
    file_start_flush(descriptor, offset, bytes); /* the disk works while the next run is copied and hashed */
#pragma omp critical(checkpoint_blocks)
    block_list_add(blocks, (struct hash_block){offset, bytes, hash, true});
    return ERROR_NONE;
}

static int write_run(void *self, const struct fetched_elements *fetched, const void *content)
{
    struct writer *w = self;
    int64_t width = dtype_size(fetched->dtype);
    int64_t offset = w->offsets[(int)fetched->kind * w->parameters + fetched->number] + fetched->run.first * width;
    if (w->dry) {
#pragma omp critical(checkpoint_blocks)
        block_list_add(&w->blocks, (struct hash_block){offset, fetched->run.count * width, 0, true});
        return ERROR_NONE;
    }
    int code = checkpoint_write_run(&w->blocks, w->descriptor, w->path, content, fetched->run.count * width, offset);
    if (code != ERROR_NONE || !w->digests)
        return code;
    const uint64_t digest = checkpoint_digest_run(fetched, content);
#pragma omp atomic
    w->digest += digest;
    return ERROR_NONE;
}

static int open_file_of(struct writer *w)
{
    if (w->dry)
        return ERROR_NONE;
    w->descriptor = open_own(w->path, O_WRONLY);
    return w->descriptor >= 0 ? ERROR_NONE : error_environment("%s: cannot open it: %s", w->path, open_failure());
}

/* Opens the file on all ranks or on none, because what follows is collective. Collective. */
static int open_all(struct comm *world, struct writer *w)
{
    int code = comm_agree(world, open_file_of(w));
    if (code != ERROR_NONE && w->descriptor >= 0)
        close(w->descriptor);
    return code;
}

/* -- Side file and names (rank 0) -------------------------------------------------------------------------------- */

/* Gathers all ranks' blocks on rank 0, which alone writes them. Other lists become empty. Collective. */
static void gather_blocks(struct comm *world, struct block_list *list)
{
    const int64_t most = comm_max_i64(world, list->count), ranks = world->rank == 0 ? world->size : 0;
    struct hash_block *own = memory_allocate((most + 1) * (int64_t)sizeof *own);
    struct hash_block *all = memory_allocate((most * ranks + 1) * (int64_t)sizeof *all);
    if (list->count > 0)
        memcpy(own, list->blocks, (size_t)list->count * sizeof *own);
    comm_gather(world, own, all, most * (int64_t)sizeof *own);
    list->count = 0;
    for (int64_t i = 0; i < most * ranks; i++)
        if (all[i].length > 0) /* shorter lists are padded with zeros */
            block_list_add(list, all[i]);
    memory_free(own);
    memory_free(all);
}

static int write_side_file(struct block_list *list, const char *path, const char *side)
{
    int descriptor = open_own(path, O_RDONLY);
    if (descriptor < 0)
        return error_environment("%s: cannot read it again: %s", path, open_failure());
    const int64_t bytes = open_size(descriptor);
    int code = block_list_complete(list, descriptor, path, bytes);
    close(descriptor);
    return code == ERROR_NONE ? block_list_write(list, side, bytes) : code;
}

/* Renames both files, in the order that checkpoint/checkpoint.h explains. */
static int rename_both(const struct checkpoint_names *names)
{
    int code;
    if (access(names->path, F_OK) == 0) {
        code = file_remove(names->side);
        if (code == ERROR_NONE)
            code = file_move(names->temporary, names->path);
        return code == ERROR_NONE ? file_move(names->side_temporary, names->side) : code;
    }
    code = file_move(names->side_temporary, names->side);
    return code == ERROR_NONE ? file_move(names->temporary, names->path) : code;
}

int checkpoint_publish(struct block_list *blocks, const struct checkpoint_names *names)
{
    int code = write_side_file(blocks, names->temporary, names->side_temporary);
    return code == ERROR_NONE ? rename_both(names) : code;
}

void checkpoint_abandon(const struct checkpoint_names *names)
{
    unlink(names->temporary);
    unlink(names->side_temporary);
    if (access(names->path, F_OK) != 0)
        unlink(names->side);
}

/* -- Save -------------------------------------------------------------------------------------------------------- */

struct checkpoint_save {
    struct comm *world; /* borrowed, as is engine */
    struct engine *engine;
    struct checkpoint_meta meta;
    struct checkpoint_names names;
    struct checkpoint_layout layout;
    struct writer writer;
    double began, seconds;     /* start time; seconds until this rank's share was on the disk */
    int code;                  /* result of writing this rank's share */
    struct snapshot *snapshot; /* borrowed; NULL: the share is already written */
    pthread_t thread;
    bool started;
    atomic_bool done;
    char *message; /* message of the thread, if its code is an error */
};

/* Lowers this thread's priority: on CPUs each compute thread has a core that this thread would share. */
static void step_back(void)
{
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 10);
}

static void *write_in_background(void *self)
{
    struct checkpoint_save *s = self;
    struct writer *w = &s->writer;
    step_back();
    s->code = file_finish(w->descriptor, w->path, snapshot_visit(s->snapshot, write_run, w));
    if (s->code != ERROR_NONE)
        s->message = memory_string(error_message());
    s->seconds = clock_seconds() - s->began;
    atomic_store(&s->done, true);
    return NULL;
}

/* Starts the writer thread once the snapshot is complete, because the thread uses neither the device nor other ranks.
 * Collective over the engine's tensor ranks. */
static void start_when_copied(struct checkpoint_save *s, bool wait)
{
    if (s->snapshot == NULL || s->started || !snapshot_complete(s->snapshot, wait))
        return;
    s->thread = thread_start(write_in_background, s, "the writer of a checkpoint");
    s->started = true;
}

static void write_share(struct checkpoint_save *s)
{
    struct writer *w = &s->writer;
    s->code = fetch_shares(s->engine, s->engine->settings.tensor, s->layout.kinds, write_run, w);
    if (!w->dry)
        s->code = file_finish(w->descriptor, w->path, s->code);
    s->seconds = clock_seconds() - s->began;
}

static void destroy(struct checkpoint_save *s)
{
    block_list_destroy(&s->writer.blocks);
    delayed_scaling_host_destroy(&s->layout.scales);
    memory_free(s->layout.offsets);
    checkpoint_names_destroy(&s->names);
    free(s->message);
    memory_free(s);
}

static int abandon(struct checkpoint_save *s, int code)
{
    if (s->world->rank == 0)
        checkpoint_abandon(&s->names);
    comm_barrier(s->world); /* when it returns, the files are gone for all ranks */
    destroy(s);
    return code;
}

static struct checkpoint_save *create(struct comm *world, struct engine *engine, const struct checkpoint_meta *meta,
                                      const char *path, bool with_optimizer)
{
    struct checkpoint_save *s = memory_allocate(sizeof *s);
    const int kinds = with_optimizer ? PIECE_KINDS : PIECE_WEIGHT + 1, parameters = model_parameters(engine->model);
    *s = (struct checkpoint_save){.world = world, .engine = engine, .meta = *meta, .began = clock_seconds()};
    s->meta.ranks = world->size;
    s->meta.updates = engine_updates(engine);
    checkpoint_names_create(&s->names, path);
    s->layout = (struct checkpoint_layout){.model = engine->model, .dtype = piece_dtype(engine), .kinds = kinds};
    s->layout.offsets = memory_allocate((int64_t)sizeof(int64_t) * kinds * parameters);
    const bool dry = engine->executor->class->dry;
    if (world->rank == 0 && with_optimizer && !dry &&
        delayed_scaling_present(&engine->scaling)) /* equal on all ranks */
        s->layout.scales = delayed_scaling_fetch(&engine->scaling, &engine->streams[STREAM_COMPUTE]);
    s->writer = (struct writer){.path = s->names.temporary,
                                .parameters = parameters,
                                .offsets = s->layout.offsets,
                                .digests = with_optimizer,
                                .dry = dry};
    return s;
}

/* Rank 0. */
static int lay_out(struct checkpoint_save *s)
{
    return s->writer.dry ? ERROR_NONE : checkpoint_lay_out(&s->layout, &s->meta, s->names.temporary);
}

int checkpoint_begin(struct checkpoint_save **save, struct comm *world, struct engine *engine,
                     const struct checkpoint_meta *meta, const char *path, bool with_optimizer,
                     struct snapshot *snapshot)
{
    *save = NULL;
    struct checkpoint_save *s = create(world, engine, meta, path, with_optimizer);
    int code = comm_agree(world, world->rank == 0 ? lay_out(s) : ERROR_NONE);
    if (code == ERROR_NONE) {
        comm_broadcast(world, s->layout.offsets, (int64_t)sizeof(int64_t) * s->layout.kinds * s->writer.parameters, 0);
        code = open_all(world, &s->writer);
    }
    if (code != ERROR_NONE)
        return abandon(s, code);
    s->snapshot = snapshot;
    if (snapshot != NULL)
        snapshot_take(snapshot);
    else
        write_share(s);
    start_when_copied(s, false);
    *save = s;
    return ERROR_NONE;
}

bool checkpoint_ready(struct checkpoint_save *s)
{
    start_when_copied(s, false);
    const bool ready = s->snapshot == NULL || (s->started && atomic_load(&s->done));
    return comm_max_i64(s->world, !ready) == 0;
}

/* Waits for the writer thread and returns its error on this thread. */
static int join(struct checkpoint_save *s)
{
    start_when_copied(s, true);
    if (s->started)
        pthread_join(s->thread, NULL);
    return s->message != NULL ? error_restate(s->code, s->message) : s->code;
}

/* Completes the file on rank 0, with all ranks' blocks: lays out the rest again, with the digest, and renames. */
static int complete(struct checkpoint_save *s)
{
    int code = ERROR_NONE;
    if (s->writer.dry)
        return ERROR_NONE;
    if (s->writer.digests)
        code = checkpoint_lay_out_again(&s->layout, &s->meta, s->names.temporary, &s->writer.blocks);
    return code == ERROR_NONE ? checkpoint_publish(&s->writer.blocks, &s->names) : code;
}

int checkpoint_end(struct checkpoint_save *s, struct checkpoint_written *written)
{
    struct comm *world = s->world;
    int code = comm_agree(world, join(s));
    if (code != ERROR_NONE)
        return abandon(s, code);
    int64_t own = 0;
    for (int64_t i = 0; i < s->writer.blocks.count; i++)
        own += s->writer.blocks.blocks[i].length;
    gather_blocks(world, &s->writer.blocks);
    if (s->writer.digests)
        s->meta.digest = checkpoint_digest_sum(world, s->writer.digest);
    *written = (struct checkpoint_written){.digest = s->meta.digest, .bytes = comm_sum_i64(world, own)};
    written->seconds = comm_spread(world, s->seconds).maximum;
    code = comm_agree(world, world->rank == 0 ? complete(s) : ERROR_NONE);
    if (code != ERROR_NONE)
        return abandon(s, code);
    destroy(s);
    return ERROR_NONE;
}

int checkpoint_write(struct comm *world, struct engine *engine, const struct checkpoint_meta *meta, const char *path,
                     bool with_optimizer)
{
    struct checkpoint_save *save;
    struct checkpoint_written written;
    int code = checkpoint_begin(&save, world, engine, meta, path, with_optimizer, NULL);
    return code == ERROR_NONE ? checkpoint_end(save, &written) : code;
}
