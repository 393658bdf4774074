/* Writing a checkpoint, and the digest of the same runs. */
#include "base/error.h"
#include "base/memory.h"
#include "base/open.h"
#include "base/random.h"
#include "io/block.h"
#include "io/checkpoint_private.h"
#include "io/file.h"
#include "step/engine.h"
#include "step/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* xxhash: see io/block.c */
#include <xxhash.h>

/* -- Names ------------------------------------------------------------------------------------------------------- */

void checkpoint_names_create(struct checkpoint_names *names, const char *path)
{
    char *side = block_side_path(path);
    *names = (struct checkpoint_names){memory_string(path), side, memory_format("%s.tmp", path),
                                       memory_format("%s.tmp", side)};
}

void checkpoint_names_destroy(struct checkpoint_names *names)
{
    free(names->path);
    free(names->side);
    free(names->temporary);
    free(names->side_temporary);
}

/* -- Every rank: its share --------------------------------------------------------------------------------------- */

struct writer {
    struct engine *engine;
    const char *path;
    int descriptor;
    int parameters;
    const int64_t *offsets; /* [kinds * parameters] */
    struct block_list blocks;
};

int checkpoint_write_run(struct block_list *blocks, int descriptor, const char *path, const void *data, int64_t bytes,
                         int64_t offset)
{
    const uint64_t hash = XXH3_64bits(data, (size_t)bytes);
    int code = file_write(descriptor, path, data, bytes, offset);
    if (code != ERROR_NONE)
        return code;
    file_start_flush(descriptor, offset, bytes); /* so the disk works while the next run is copied and hashed */
#pragma omp critical(checkpoint_blocks)
    block_list_add(blocks, offset, bytes, hash);
    return ERROR_NONE;
}

static int write_run(void *self, const struct fetched *fetched, const void *content)
{
    struct writer *w = self;
    int64_t width = dtype_size(fetched->dtype);
    int64_t offset = w->offsets[(int)fetched->kind * w->parameters + fetched->number] + fetched->run.first * width;
    return checkpoint_write_run(&w->blocks, w->descriptor, w->path, content, fetched->run.count * width, offset);
}

static int open_file_of(struct writer *w)
{
    w->descriptor = open_own(w->path, O_WRONLY);
    return w->descriptor >= 0 ? ERROR_NONE : error_environment("%s: cannot open it: %s", w->path, open_failure());
}

/* Collective: all ranks' files are open, since the rest is collective too, or none. */
static int open_all(struct comm *world, struct writer *w)
{
    int code = comm_agree(world, open_file_of(w));
    if (code != ERROR_NONE && w->descriptor >= 0)
        close(w->descriptor);
    return code;
}

static int write_share(struct writer *w, int kinds)
{
    struct comm *exchange = w->engine->settings.tensor;
    return file_finish(w->descriptor, w->path, fetch_shares(w->engine, exchange, kinds, write_run, w));
}

/* -- Rank 0: side file and names --------------------------------------------------------------------------------- */

/* All ranks' blocks, on every rank. */
static void gather_blocks(struct comm *world, struct block_list *list)
{
    int64_t most = comm_max_i64(world, list->count);
    struct block *own = memory_allocate((most + 1) * (int64_t)sizeof *own);
    struct block *all = memory_allocate((most + 1) * (int64_t)sizeof *all * world->size);
    if (list->count > 0)
        memcpy(own, list->blocks, (size_t)list->count * sizeof *own);
    comm_all_gather(world, own, all, most * (int64_t)sizeof *own);
    list->count = 0;
    for (int64_t i = 0; i < most * world->size; i++)
        if (all[i].length > 0) /* the rest of a rank's share is zero */
            block_list_add(list, all[i].offset, all[i].length, all[i].hash);
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

/* The order that the head of io/checkpoint.h explains. */
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

int checkpoint_write(struct comm *world, struct engine *engine, const struct checkpoint_meta *meta, const char *path,
                     bool with_optimizer)
{
    const bool first = world->rank == 0;
    const int kinds = with_optimizer ? PIECE_KINDS : PIECE_WEIGHT + 1, parameters = model_parameters(engine->model);
    const int64_t table_bytes = (int64_t)sizeof(int64_t) * kinds * parameters;
    struct checkpoint_meta complete = *meta;
    complete.ranks = world->size;
    complete.updates = engine_updates(engine);
    struct checkpoint_names names;
    checkpoint_names_create(&names, path);
    struct checkpoint_layout layout = {
        .model = engine->model, .dtype = piece_dtype(engine), .kinds = kinds, .offsets = memory_allocate(table_bytes)};
    if (first && with_optimizer && delayed_scaling_present(&engine->scaling)) /* all ranks have the same */
        layout.scales = delayed_scaling_fetch(&engine->scaling, &engine->streams[STREAM_COMPUTE]);
    struct writer writer = {
        .engine = engine, .path = names.temporary, .parameters = parameters, .offsets = layout.offsets};

    int code = comm_agree(world, first ? checkpoint_lay_out(&layout, &complete, names.temporary) : ERROR_NONE);
    if (code == ERROR_NONE) {
        comm_broadcast(world, layout.offsets, table_bytes, 0);
        code = open_all(world, &writer);
    }
    if (code == ERROR_NONE)
        code = comm_agree(world, write_share(&writer, kinds));
    if (code == ERROR_NONE) {
        gather_blocks(world, &writer.blocks);
        code = comm_agree(world, first ? checkpoint_publish(&writer.blocks, &names) : ERROR_NONE);
    }
    if (code != ERROR_NONE) {
        if (first)
            checkpoint_abandon(&names);
        comm_barrier(world); /* on return nothing is left, whoever looks */
    }
    block_list_destroy(&writer.blocks);
    delayed_scaling_host_destroy(&layout.scales);
    memory_free(layout.offsets);
    checkpoint_names_destroy(&names);
    return code;
}

/* -- Digest ------------------------------------------------------------------------------------------------------ */

/* Spreads every bit over the word: the finaliser of SplitMix64 (Steele, Lea & Flood, "Fast splittable pseudorandom
 * number generators", 2014). */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Elements of one width; inlined for each. */
static inline uint64_t digest_elements(uint64_t key, int64_t first, const void *content, int64_t count, size_t width)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits = 0;
        memcpy(&bits, (const char *)content + i * (int64_t)width, width);
        sum += mix(mix(key + (uint64_t)(first + i)) ^ bits);
    }
    return sum;
}

static int digest_run(void *self, const struct fetched *fetched, const void *content)
{
    uint64_t *total = self;
    const uint64_t key = mix(random_hash_name(fetched->parameter->name) + (uint64_t)fetched->kind);
    const struct run run = fetched->run;
    uint64_t sum = fetched->dtype == DTYPE_F64 ? digest_elements(key, run.first, content, run.count, 8)
                                               : digest_elements(key, run.first, content, run.count, 4);
#pragma omp atomic
    *total += sum;
    return ERROR_NONE;
}

uint64_t checkpoint_digest(struct comm *world, struct engine *engine)
{
    uint64_t own = 0, sum = 0;
    fetch_shares(engine, NULL, PIECE_KINDS, digest_run, &own);
    uint64_t *all = memory_allocate((int64_t)sizeof *all * world->size);
    comm_all_gather(world, &own, all, sizeof *all);
    for (int r = 0; r < world->size; r++)
        sum += all[r];
    memory_free(all);
    return sum;
}
