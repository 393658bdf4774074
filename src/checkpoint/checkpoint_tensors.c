/* Reads a checkpoint's tensors into an engine, each byte once, and hashes them while reading.
 *
 * A rank owns ranges of tensors. If a range has the same layout in the file as in memory, it is read with plain reads,
 * which end at the ends of blocks, so that a block that lies completely in the range is read as a whole. One of the
 * ranks that read a block as a whole compares its hash. Blocks that no rank reads as a whole (ranks of another layout
 * may have written them) are read once more for that, from the page cache. Columns are read with the rows that they are
 * in, which the tensor ranks of a node share in its page cache. HDF5 reads everything else: other element types, other
 * storage layouts. Only rank 0 looks up where tensors are, and most other ranks do not open the file with HDF5. */
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"
#include "file/open.h"
#include "base/thread.h"
#include "checkpoint/checkpoint_private.h"
#include "file/file.h"
#include "engine/engine.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* xxhash: see file/block.c */
#include <xxhash.h>

enum {
    READ_THREADS = 4, /* a single thread would alternately wait for the disk and for the hash */
    CACHED_BYTES = 512 << 10,
    ROWS_BYTES = 1 << 20 /* rows that are read at once for some of their columns */
};

/* A part of the rank's shards, at most PIECE_BYTES. */
struct tensor_part {
    struct parameter_piece piece;
    int64_t offset;        /* offset of its elements in the file, or of the tensor if `columns`; -1: HDF5 reads it */
    bool columns;          /* the part has some columns of the tensor */
    int64_t block, blocks; /* blocks of the list that lie completely in the part: the first, and their number */
};

struct tensor_reader {
    struct comm *world;
    struct engine *engine;
    const char *path;
    const struct block_list *list;
    const int64_t *places; /* [kinds * parameters] (checkpoint_find_places) */
    int parameters;
    hid_t file; /* -1: this rank does not need HDF5 */
    int descriptor;
    struct tensor_part *parts; /* [count] */
    int64_t count, capacity;
    unsigned char *mine; /* [list->count] 1: this rank compares the block */
    bool damaged;
};

/* -- Parts ------------------------------------------------------------------------------------------------------- */

static int64_t place_of(hid_t file, enum piece_kind kind, const struct parameter *p, enum dtype dtype)
{
    char name[CHECKPOINT_DATASET_BYTES];
    checkpoint_dataset_name(name, kind, p);
    hid_t dataset = hdf5_open_dataset(file, name);
    if (dataset < 0)
        return -1; /* HDF5 will report the error */
    hid_t type = H5Dget_type(dataset), plan = H5Dget_create_plist(dataset);
    const bool plain = H5Tequal(type, checkpoint_type(dtype)) > 0 && H5Pget_layout(plan) == H5D_CONTIGUOUS &&
                       H5Pget_external_count(plan) == 0;
    const hsize_t bytes = (hsize_t)(p->rows * p->cols * dtype_size(dtype));
    const haddr_t place = plain && H5Dget_storage_size(dataset) == bytes ? H5Dget_offset(dataset) : HADDR_UNDEF;
    H5Pclose(plan);
    H5Tclose(type);
    H5Dclose(dataset);
    return place == HADDR_UNDEF ? -1 : (int64_t)place;
}

void checkpoint_find_places(hid_t file, const struct model *model, int kinds, enum dtype dtype, int64_t *places)
{
    for (int kind = 0; kind < kinds; kind++)
        for (int u = 0; u < model->unit_count; u++)
            for (int i = 0; i < model->units[u].parameter_count; i++)
                *places++ = place_of(file, (enum piece_kind)kind, &model->units[u].parameters[i], dtype);
}

/* Returns the first block that ends after the byte. */
static int64_t block_at(const struct block_list *list, int64_t byte)
{
    int64_t low = 0, high = list->count;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (list->blocks[middle].offset + list->blocks[middle].length > byte)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void add_part(struct tensor_reader *r, const struct parameter_piece *piece, struct parameter_slab slab,
                     int64_t offset, bool columns)
{
    if (r->count == r->capacity) {
        r->capacity = 2 * r->capacity + 64;
        r->parts = memory_grow(r->parts, r->capacity * (int64_t)sizeof *r->parts);
    }
    struct tensor_part *part = &r->parts[r->count++];
    const struct block_list *list = r->list;
    const int64_t end = offset + slab.count * dtype_size(master_dtype(&piece->device));
    *part = (struct tensor_part){.piece = piece_part(piece, slab), .offset = offset, .columns = columns};
    if (offset < 0 || columns || list->count == 0)
        return;
    part->block = block_at(list, offset);
    if (part->block < list->count && list->blocks[part->block].offset < offset)
        part->block++;
    for (int64_t b = part->block; b < list->count && list->blocks[b].offset + list->blocks[b].length <= end; b++)
        part->blocks++;
}

/* Returns how many bytes of [offset, offset + bytes) to read at once: up to the end of a block if one ends there. */
static int64_t cut(const struct block_list *list, int64_t offset, int64_t bytes, int64_t width)
{
    int64_t most = MIN(bytes, PIECE_BYTES), whole = 0;
    for (int64_t b = block_at(list, offset); b < list->count; b++) {
        const int64_t end = list->blocks[b].offset + list->blocks[b].length - offset;
        if (end > most)
            break;
        if (end % width == 0)
            whole = end;
    }
    return whole > 0 ? whole : most;
}

static int add_owned(void *self, const struct parameter_piece *piece)
{
    struct tensor_reader *r = self;
    const struct parameter *p = piece->parameter;
    const int64_t width = dtype_size(master_dtype(&piece->device)), end = piece->slab.first + piece->slab.count;
    const int64_t place = r->places[piece->kind * r->parameters + piece->number];
    const bool columns = p->part.cols < p->cols;
    struct parameter_slab rest = piece->slab;
    if (place == CHECKPOINT_NEW)
        return ERROR_NONE;
    while (rest.count > 0) {
        const struct slab_run run = slab_run(p, rest);
        const bool whole = place < 0 || columns;
        const int64_t offset = whole ? place : place + run.first * width, most = PIECE_BYTES / width;
        int64_t count = whole ? rest.count : cut(r->list, offset, run.count * width, width) / width;
        count = MIN(count, most);
        add_part(r, piece, (struct parameter_slab){rest.first, count}, offset, columns);
        rest = (struct parameter_slab){rest.first + count, end - rest.first - count};
    }
    return ERROR_NONE;
}

/* -- Assignment of blocks to ranks ------------------------------------------------------------------------------- */

void checkpoint_draw_blocks(struct comm *world, int64_t *numbers, int64_t count)
{
    comm_reduce(world, numbers, count, COMM_MINIMUM);
}

/* Assigns each block of a tensor to one of the ranks that read it as a whole, or by its number if no rank does. Each of
 * these ranks draws a number for the block, and the lowest wins; the rank in its low bits makes it unique. */
static void assign_blocks(struct tensor_reader *r)
{
    const int64_t count = r->list->count, rank = r->world->rank, none = INT64_MAX;
    if (count == 0)
        return;
    int64_t *own = memory_allocate(count * (int64_t)sizeof *own),
            *lowest = memory_allocate(count * (int64_t)sizeof *own);
    for (int64_t b = 0; b < count; b++)
        own[b] = none;
    for (int64_t i = 0; i < r->count; i++)
        for (int64_t b = r->parts[i].block; b < r->parts[i].block + r->parts[i].blocks; b++) {
            const int64_t key[2] = {b, rank};
            own[b] = (int64_t)(XXH3_64bits(key, sizeof key) >> 33 << 32) | rank;
        }
    memcpy(lowest, own, (size_t)count * sizeof *own);
    checkpoint_draw_blocks(r->world, lowest, count);
    for (int64_t b = 0; b < count; b++)
        r->mine[b] =
            r->list->blocks[b].tensor && (lowest[b] == none ? b % r->world->size == rank : lowest[b] == own[b]);
    memory_free(own);
    memory_free(lowest);
}

/* -- Bytes ------------------------------------------------------------------------------------------------------- */

static int read_by_hdf5(struct tensor_reader *r, const struct parameter_piece *piece, char *to)
{
    char name[CHECKPOINT_DATASET_BYTES];
    checkpoint_dataset_name(name, piece->kind, piece->parameter);
    hid_t dataset = hdf5_open_dataset(r->file, name);
    bool good = dataset >= 0 && checkpoint_read_slab(dataset, checkpoint_type(master_dtype(&piece->device)),
                                                     piece->parameter, piece->slab, to);
    H5Dclose(dataset);
    return good ? ERROR_NONE : checkpoint_refuse_tensor(r->path, name);
}

static int64_t part_bytes(const struct tensor_part *part)
{
    return part->piece.slab.count * dtype_size(master_dtype(&part->piece.device));
}

/* Reads a range and computes its hash, in pieces that are hashed while they are in a core's cache. */
static int read_hashing(const struct tensor_reader *r, char *to, int64_t bytes, int64_t offset, uint64_t *hash)
{
    XXH3_state_t *state = XXH3_createState();
    int code = ERROR_NONE;
    if (state == NULL)
        error_fatal("out of memory for a hash");
    XXH3_64bits_reset(state);
    for (int64_t done = 0; done < bytes && code == ERROR_NONE; done += CACHED_BYTES) {
        const int64_t count = MIN(bytes - done, CACHED_BYTES);
        code = file_read(r->descriptor, r->path, to + done, count, offset + done);
        if (code == ERROR_NONE)
            XXH3_64bits_update(state, to + done, (size_t)count);
    }
    *hash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return code;
}

/* Reads the rectangle of a tensor that begins at byte `place` of the file, with the rest of its rows, some rows at a
 * time. rows: [ROWS_BYTES] scratch. */
static int read_rectangle(const struct tensor_reader *r, int64_t place, int64_t width, int64_t cols,
                          const struct rectangle *rectangle, char *rows, char *to)
{
    const int64_t pitch = cols * width, bytes = rectangle->cols * width;
    int code = ERROR_NONE;
    for (int64_t done = 0, count; done < rectangle->rows && code == ERROR_NONE; done += count) {
        const int64_t from = place + (rectangle->row + done) * pitch + rectangle->col * width;
        count = MIN(rectangle->rows - done, bytes < ROWS_BYTES ? (ROWS_BYTES - bytes) / pitch + 1 : 1);
        if (count == 1) {
            code = file_read(r->descriptor, r->path, to + done * bytes, bytes, from);
            continue;
        }
        code = file_read(r->descriptor, r->path, rows, (count - 1) * pitch + bytes, from);
        for (int64_t row = 0; row < count && code == ERROR_NONE; row++)
            memcpy(to + (done + row) * bytes, rows + row * pitch, (size_t)bytes);
    }
    return code;
}

static int read_columns(const struct tensor_reader *r, const struct tensor_part *part, char *to)
{
    const struct parameter *p = part->piece.parameter;
    const int64_t width = dtype_size(master_dtype(&part->piece.device));
    struct rectangle rectangles[SLAB_RECTANGLES];
    const int count = slab_rectangles(p, part->piece.slab, rectangles);
    char *rows = memory_allocate(ROWS_BYTES);
    int code = ERROR_NONE;
    for (int i = 0; i < count && code == ERROR_NONE; i++) {
        code = read_rectangle(r, part->offset, width, p->cols, &rectangles[i], rows, to);
        to += rectangles[i].rows * rectangles[i].cols * width;
    }
    memory_free(rows);
    return code;
}

/* Reads a part, and compares and marks as done those of its blocks that are assigned to this rank. */
static int read_part(struct tensor_reader *r, const struct tensor_part *part, char *to)
{
    if (part->columns)
        return read_columns(r, part, to);
    int64_t at = part->offset;
    int code = ERROR_NONE;
    for (int64_t b = part->block; b < part->block + part->blocks && code == ERROR_NONE; b++) {
        const struct hash_block *block = &r->list->blocks[b];
        uint64_t hash;
        if (!r->mine[b])
            continue;
        code = file_read(r->descriptor, r->path, to + at - part->offset, block->offset - at, at);
        if (code == ERROR_NONE)
            code = read_hashing(r, to + block->offset - part->offset, block->length, block->offset, &hash);
        if (code == ERROR_NONE)
            code = checkpoint_compare_block(block, hash, r->path);
        r->mine[b] = code != ERROR_NONE;
        at = block->offset + block->length;
    }
    if (code == ERROR_NONE)
        code = file_read(r->descriptor, r->path, to + at - part->offset, part->offset + part_bytes(part) - at, at);
    return code;
}

/* Returns where to read a part to if the engine's memory is host memory with the file's element type; else NULL. */
static char *place_in_engine(const struct tensor_reader *r, const struct tensor_part *part)
{
    const struct tensor *value = &part->piece.device.value;
    const bool direct = part->offset >= 0 && r->engine->executor->device == NULL && !r->engine->executor->class->dry &&
                        value->dtype == master_dtype(&part->piece.device);
    return direct ? value->data : NULL;
}

/* Calls thread_each, and sets r->damaged if the file was found damaged. */
static int by_threads(struct tensor_reader *r, int64_t count, int (*work)(void *self, int64_t i), void *self)
{
    const int code = thread_each(count, READ_THREADS, work, self);
    r->damaged = code == ERROR_USER;
    return code;
}

static int read_in_place(void *self, int64_t i)
{
    struct tensor_reader *r = self;
    char *to = place_in_engine(r, &r->parts[i]);
    return to != NULL ? read_part(r, &r->parts[i], to) : ERROR_NONE;
}

/* Parts from `first` on, with a buffer of PIECE_BYTES for each. */
struct staged {
    struct tensor_reader *reader;
    int64_t first;
    char *buffers;
};

static int read_to_buffer(void *self, int64_t i)
{
    const struct staged *s = self;
    const struct tensor_part *part = &s->reader->parts[s->first + i];
    return part->offset >= 0 ? read_part(s->reader, part, s->buffers + i * PIECE_BYTES) : ERROR_NONE;
}

/* Reads parts [first, first + count) into buffers, then copies them to the device. */
static int read_staged(struct tensor_reader *r, int64_t first, int64_t count, char *buffers)
{
    int code = by_threads(r, count, read_to_buffer, &(struct staged){r, first, buffers});
    for (int64_t i = 0; i < count && code == ERROR_NONE; i++) {
        const struct tensor_part *part = &r->parts[first + i];
        char *buffer = buffers + i * PIECE_BYTES;
        if (part->offset < 0)
            code = read_by_hdf5(r, &part->piece, buffer);
        if (code == ERROR_NONE)
            master_write(&r->engine->streams[STREAM_COMPUTE], buffer, &part->piece.device);
    }
    return code;
}

/* Keeps only the parts that are not read yet. */
static void drop_direct(struct tensor_reader *r)
{
    int64_t left = 0;
    for (int64_t i = 0; i < r->count; i++)
        if (place_in_engine(r, &r->parts[i]) == NULL)
            r->parts[left++] = r->parts[i];
    r->count = left;
}

/* Reads all parts of this rank: in place if possible, the others through a staging buffer. One half of the buffer is
 * read into while the copy of the other half is in flight. */
static int read_own(struct tensor_reader *r)
{
    struct executor *executor = r->engine->executor;
    struct stream *stream = &r->engine->streams[STREAM_COMPUTE];
    stream_synchronize(stream);
    int code = by_threads(r, r->count, read_in_place, r), half = 0;
    drop_direct(r);
    char *staging = executor->class->allocate(executor, 2 * READ_THREADS * (int64_t)PIECE_BYTES, MEMORY_HOST);
    struct event sent[2] = {{0}, {0}};
    for (int64_t i = 0; i < r->count && code == ERROR_NONE; i += READ_THREADS, half ^= 1) {
        const int64_t count = MIN(r->count - i, READ_THREADS);
        event_passed(&sent[half], executor, true);
        code = read_staged(r, i, count, staging + (int64_t)half * READ_THREADS * PIECE_BYTES);
        event_record(&sent[half], stream);
    }
    stream_synchronize(stream);
    executor->class->release(executor, staging, MEMORY_HOST);
    return code;
}

/* Compares a block that is assigned to this rank and not done yet. */
static int check_rest(void *self, int64_t block)
{
    const struct tensor_reader *r = self;
    return r->mine[block] ? checkpoint_check_block(r->descriptor, r->path, &r->list->blocks[block]) : ERROR_NONE;
}

/* Opens the file with HDF5 if a part of this rank needs it. */
static int open_hdf5(struct tensor_reader *r)
{
    bool needed = false;
    for (int64_t i = 0; i < r->count; i++)
        needed = needed || r->parts[i].offset < 0;
    return needed ? checkpoint_open(&r->file, r->path) : ERROR_NONE;
}

static int read_open(struct tensor_reader *r, int kinds)
{
    r->mine = memory_allocate(r->list->count);
    piece_visit_owned(r->engine, kinds, add_owned, r);
    assign_blocks(r);
    int code = open_hdf5(r);
    if (code == ERROR_NONE)
        code = read_own(r);
    if (code == ERROR_NONE)
        code = by_threads(r, r->list->count, check_rest, r);
    if (r->file >= 0)
        H5Fclose(r->file);
    memory_free(r->mine);
    free(r->parts);
    return code;
}

int checkpoint_read_tensors(struct comm *world, struct engine *engine, const char *path, int kinds,
                            const int64_t *places, const struct block_list *list, bool *damaged)
{
    struct tensor_reader r = {.world = world,
                              .engine = engine,
                              .path = path,
                              .list = list,
                              .places = places,
                              .parameters = model_parameters(engine->model),
                              .file = -1,
                              .descriptor = open_file(path)};
    const bool opened = r.descriptor >= 0;
    int code =
        comm_share(world, opened ? ERROR_NONE : error_environment("%s: cannot open it: %s", path, open_failure()));
    if (code == ERROR_NONE)
        code = comm_share(world, read_open(&r, kinds));
    if (code == ERROR_NONE && kinds == PIECE_KINDS)
        code = checkpoint_read_scales(world, path, engine);
    if (opened)
        close(r.descriptor);
    *damaged = comm_max_i64(world, r.damaged) != 0 && code == ERROR_USER;
    return *damaged ? code : comm_agree(world, code);
}
