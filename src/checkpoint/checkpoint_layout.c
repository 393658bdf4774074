/* Writes and reads the layout of a checkpoint: groups, attributes, datasets. */
#include "base/error.h"
#include "base/memory.h"
#include "file/open.h"
#include "data/tokenizer_member.h"
#include "checkpoint/carried.h"
#include "checkpoint/checkpoint_private.h"
#include "checkpoint/tuned_kernels.h"
#include "file/file.h"
#include "file/hdf5_layout.h"
#include "model/model.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const checkpoint_groups[PIECE_KINDS] = {"model", "optim/m", "optim/v"};

void checkpoint_dataset_name(char out[CHECKPOINT_DATASET_BYTES], enum piece_kind kind, const struct parameter *p)
{
    snprintf(out, CHECKPOINT_DATASET_BYTES, "%s/%s", checkpoint_groups[kind], p->name);
}

hid_t checkpoint_type(enum dtype dtype)
{
    return dtype == DTYPE_F64 ? H5T_NATIVE_DOUBLE : H5T_NATIVE_FLOAT;
}

int checkpoint_dimensions(const struct parameter *parameter, hsize_t dims[2])
{
    int ndims = 0;
    if (parameter->storage == STORAGE_MATRIX)
        dims[ndims++] = (hsize_t)parameter->rows;
    dims[ndims++] = (hsize_t)parameter->cols;
    return ndims;
}

/* -- Writing ----------------------------------------------------------------------------------------------------- */

struct attribute {
    const char *name;
    int64_t value;
};

static bool write_group(hid_t file, const char *name, const struct attribute *attributes, int count)
{
    hid_t group = hdf5_layout_group(file, name);
    if (group < 0)
        return false;
    bool good = true;
    for (int i = 0; i < count; i++)
        good = hdf5_write_integer(group, attributes[i].name, attributes[i].value) && good;
    return H5Gclose(group) >= 0 && good;
}

/* Attributes of /data: checksums of the token stores, and hashes of their paths. Version 0.2 and earlier named them
 * "store", "content" and "path"; name_in_file returns the old name if the file has it. */
static const char CHECKSUM[] = "checksum", CHECKSUMS[] = "checksums", PATH_HASHES[] = "path_hashes";

static const char *name_in_file(hid_t group, const char *name, const char *old_name)
{
    return H5Aexists(group, name) > 0 ? name : old_name;
}

static bool write_position(hid_t file, const struct checkpoint_meta *meta)
{
    const struct blend_position *position = &meta->position;
    const struct attribute numbers[] = {{"offset", position->offset}, {CHECKSUM, (int64_t)meta->store}};
    hid_t group = write_group(file, "data", numbers, 2) ? H5Gopen2(file, "data", H5P_DEFAULT) : -1;
    if (group < 0)
        return false;
    int64_t start = 0; /* position of a stream that has not begun */
    const bool begun = position->stores > 0;
    const int64_t stores = begun ? position->stores : 1;
    bool good = hdf5_write_integers(group, "epoch", begun ? position->epoch : &start, stores) &&
                hdf5_write_integers(group, "window", begun ? position->window : &start, stores) &&
                hdf5_write_integers(group, "before", begun ? position->before : &start, stores) &&
                hdf5_write_integers(group, "key", begun ? position->key : &start, stores);
    const struct data_provenance *provenance = &meta->provenance;
    if (good && provenance->stores > 0)
        good = hdf5_write_integers(group, CHECKSUMS, provenance->content, provenance->stores) &&
               hdf5_write_integers(group, PATH_HASHES, provenance->path, provenance->stores);
    return H5Gclose(group) >= 0 && good;
}

static bool write_meta(hid_t file, const struct checkpoint_meta *meta)
{
    const struct attribute numbers[] = {{"step", meta->step},
                                        {"updates", meta->updates},
                                        {"tokens", meta->tokens},
                                        {"unpadded_tokens", meta->unpadded},
                                        {"seed", meta->seed},
                                        {"ranks", meta->ranks},
                                        {"digest", (int64_t)meta->digest},
                                        {"vocabulary", meta->vocabulary},
                                        {"validation_step", meta->validation_step},
                                        {"best_step", meta->best_step},
                                        {"outliers", meta->norms.outliers}};
    bool good = hdf5_write_integer(file, "cistron_checkpoint", CHECKPOINT_FORMAT) &&
                write_group(file, "meta", numbers, sizeof numbers / sizeof numbers[0]) && write_position(file, meta);
    hid_t group = good ? H5Gopen2(file, "meta", H5P_DEFAULT) : -1;
    if (group < 0)
        return false;
    good = hdf5_write_text(group, "deck", meta->deck_text) && hdf5_write_text(group, "version", meta->version) &&
           hdf5_write_text(group, "tokenizer", meta->tokenizer) && hdf5_write_real(group, "best_loss", meta->best_loss);
    double norms[GRADIENT_NORMS];
    const int64_t kept = gradient_norms_get(&meta->norms, norms);
    good = good && (kept == 0 || hdf5_write_reals(group, "gradient_norms", norms, kept));
    return H5Gclose(group) >= 0 && good;
}

static bool write_dataset(hid_t file, hid_t type, enum piece_kind kind, const struct parameter *p, int64_t *offset)
{
    char name[CHECKPOINT_DATASET_BYTES];
    hsize_t dims[2];
    checkpoint_dataset_name(name, kind, p);
    return hdf5_layout_dataset(file, name, type, checkpoint_dimensions(p, dims), dims, offset);
}

static bool write_datasets(hid_t file, const struct checkpoint_layout *layout)
{
    bool good = true;
    int64_t *offset = layout->offsets;
    if (layout->kinds > PIECE_M)
        good = write_group(file, "optim", NULL, 0);
    for (int kind = 0; kind < layout->kinds && good; kind++) {
        good = write_group(file, checkpoint_groups[kind], NULL, 0);
        for (int u = 0; u < layout->model->unit_count && good; u++) {
            const struct unit *unit = &layout->model->units[u];
            for (int i = 0; i < unit->parameter_count && good; i++, offset++)
                if (piece_exists(unit, &unit->parameters[i], (enum piece_kind)kind))
                    good = write_dataset(file, checkpoint_type(layout->dtype), (enum piece_kind)kind,
                                         &unit->parameters[i], offset);
        }
    }
    return good;
}

/* Returns an upper bound for the file's size: tensors, and a generous estimate of what HDF5 adds. */
static int64_t most_bytes(const struct checkpoint_layout *layout, const struct checkpoint_meta *meta)
{
    int64_t bytes = HDF5_LAYOUT_FIXED + (int64_t)strlen(meta->deck_text) + meta->tuned_kernels_bytes +
                    HDF5_LAYOUT_DATASET +
                    (4 * meta->position.stores + 2 * meta->provenance.stores) * (int64_t)sizeof(int64_t);
    bytes += checkpoint_scales_bytes(&layout->scales);
    if (meta->opened != NULL)
        bytes += bundle_bytes(&meta->opened->bundle) + BUNDLE_KINDS * HDF5_LAYOUT_DATASET;
    if (meta->carried != NULL)
        bytes += carried_bytes(meta->carried) + (int64_t)meta->carried->count * HDF5_LAYOUT_DATASET;
    for (int u = 0; u < layout->model->unit_count; u++) {
        const struct unit *unit = &layout->model->units[u];
        for (int i = 0; i < unit->parameter_count; i++)
            bytes +=
                (unit->frozen ? 1 : layout->kinds) *
                (HDF5_LAYOUT_DATASET + unit->parameters[i].rows * unit->parameters[i].cols * dtype_size(layout->dtype));
    }
    return bytes;
}

struct file_content {
    const struct checkpoint_layout *layout;
    const struct checkpoint_meta *meta;
};

/* Writes group /state if it has any members. */
static bool write_state(hid_t file, const struct file_content *content)
{
    const struct checkpoint_meta *meta = content->meta;
    const struct delayed_scaling *scales = &content->layout->scales;
    if (meta->tuned_kernels_bytes == 0 && !delayed_scaling_present(scales))
        return true;
    return write_group(file, "state", NULL, 0) &&
           tuned_kernels_write(file, meta->tuned_kernels, meta->tuned_kernels_bytes) &&
           checkpoint_write_scales(file, scales);
}

static bool create(hid_t file, void *self)
{
    const struct file_content *content = self;
    const struct checkpoint_meta *meta = content->meta;
    return write_meta(file, meta) && write_datasets(file, content->layout) && write_state(file, content) &&
           (meta->opened == NULL || tokenizer_member_write(file, meta->opened)) &&
           (meta->carried == NULL || carried_write(file, meta->carried));
}

int checkpoint_lay_out(const struct checkpoint_layout *layout, const struct checkpoint_meta *meta, const char *path)
{
    int descriptor = open_new(path);
    if (descriptor < 0)
        return error_environment("%s: cannot create it: %s", path, open_failure());
    struct file_content content = {layout, meta};
    int code = hdf5_layout_write(descriptor, path, most_bytes(layout, meta), create, &content);
    return file_close(descriptor, path, code);
}

int checkpoint_lay_out_again(const struct checkpoint_layout *layout, const struct checkpoint_meta *meta,
                             const char *path, struct block_list *blocks)
{
    int descriptor = open_own(path, O_WRONLY);
    if (descriptor < 0)
        return error_environment("%s: cannot open it: %s", path, open_failure());
    struct file_content content = {layout, meta};
    return file_finish(descriptor, path, hdf5_layout_rewrite(descriptor, path, blocks, create, &content));
}

/* -- Reading ----------------------------------------------------------------------------------------------------- */

int checkpoint_open(hid_t *file, const char *path)
{
    int64_t format = 0;
    int code = hdf5_open(file, path);
    if (code != ERROR_NONE)
        return code;
    if (!hdf5_read_integer(*file, "cistron_checkpoint", &format))
        code = error_user("%s: is not a checkpoint of this program", path);
    else if (format != CHECKPOINT_FORMAT)
        code = error_user("%s: is a checkpoint of format %lld; this program reads format %d", path, (long long)format,
                          CHECKPOINT_FORMAT);
    if (code != ERROR_NONE)
        H5Fclose(*file);
    return code;
}

static bool read_numbers(hid_t file, const char *name, const char *const names[], int64_t *const values[], int count)
{
    hid_t group = hdf5_open_group(file, name);
    if (group < 0)
        return false;
    bool good = true;
    for (int i = 0; i < count; i++)
        good = hdf5_read_integer(group, names[i], values[i]) && good;
    H5Gclose(group);
    return good;
}

/* Reads attributes that files of version 0.1 lack, with defaults; that version had only the nucleotide tokenizer. */
static void read_later_meta(hid_t group, struct checkpoint_meta *meta)
{
    char *tokenizer = hdf5_read_text(group, "tokenizer");
    snprintf(meta->tokenizer, sizeof meta->tokenizer, "%s", tokenizer != NULL ? tokenizer : "nucleotide");
    free(tokenizer);
    meta->updates = meta->step;
    hdf5_read_integer(group, "updates", &meta->updates);
    meta->unpadded = meta->tokens;
    hdf5_read_integer(group, "unpadded_tokens", &meta->unpadded);
    int64_t digest = 0;
    hdf5_read_integer(group, "digest", &digest);
    meta->digest = (uint64_t)digest;
    hdf5_read_integer(group, "vocabulary", &meta->vocabulary);
    hdf5_read_integer(group, "validation_step", &meta->validation_step);
    hdf5_read_integer(group, "best_step", &meta->best_step);
    hdf5_read_real(group, "best_loss", &meta->best_loss);
    double norms[GRADIENT_NORMS];
    int64_t outliers = 0;
    hdf5_read_integer(group, "outliers", &outliers);
    gradient_norms_set(&meta->norms, norms, hdf5_read_reals(group, "gradient_norms", norms, GRADIENT_NORMS), outliers);
}

/* Bound of all counts. A file of another program may have any numbers, which could overflow when added to. */
static const int64_t MOST_COUNT = (int64_t)1 << 60;

static bool is_count(int64_t value)
{
    return value >= 0 && value <= MOST_COUNT;
}

static bool are_counts(const struct checkpoint_meta *meta)
{
    return is_count(meta->step) && is_count(meta->updates) && is_count(meta->tokens) && is_count(meta->unpadded) &&
           is_count(meta->ranks) && is_count(meta->vocabulary) && is_count(meta->validation_step) &&
           is_count(meta->best_step) && is_count(meta->norms.outliers);
}

/* Reads numbers of each store, which files of versions before 0.2 lack. Returns false if they exist and are malformed.
 */
static bool read_each(hid_t group, const char *name, int64_t *values, int64_t stores)
{
    if (H5Aexists(group, name) <= 0)
        return true;
    return hdf5_read_integers(group, name, values, stores) == stores;
}

/* Reads the provenance, as read_each does. The only store of an older file is known by its checksum. */
static bool read_provenance(hid_t group, struct checkpoint_meta *meta)
{
    const int64_t stores = meta->position.stores;
    const char *checksums = name_in_file(group, CHECKSUMS, "content");
    const bool there = H5Aexists(group, checksums) > 0;
    if (!there && stores > 1)
        return true;
    meta->provenance = provenance_create(stores);
    if (!there)
        meta->provenance.content[0] = (int64_t)meta->store;
    return read_each(group, checksums, meta->provenance.content, stores) &&
           read_each(group, name_in_file(group, PATH_HASHES, "path"), meta->provenance.path, stores);
}

static bool read_position(hid_t file, struct checkpoint_meta *meta)
{
    struct blend_position *position = &meta->position;
    hid_t group = hdf5_open_group(file, "data");
    if (group < 0)
        return false;
    const char *const names[] = {"offset", name_in_file(group, CHECKSUM, "store")};
    int64_t store = 0, *const values[] = {&position->offset, &store};
    if (!read_numbers(file, "data", names, values, 2)) {
        H5Gclose(group);
        return false;
    }
    meta->store = (uint64_t)store;
    const int64_t offset = position->offset;
    int64_t *epochs = memory_allocate(BLEND_STORES * (int64_t)sizeof *epochs);
    const int64_t stores = hdf5_read_integers(group, "epoch", epochs, BLEND_STORES);
    bool good = stores > 0 && is_count(offset);
    *position = blend_position_create(good ? stores : 0);
    if (good) /* else position has no arrays */
        memcpy(position->epoch, epochs, (size_t)stores * sizeof *epochs);
    position->offset = offset;
    memory_free(epochs);
    good = good && hdf5_read_integers(group, "window", position->window, stores) == stores &&
           read_each(group, "before", position->before, stores) && read_each(group, "key", position->key, stores) &&
           read_provenance(group, meta);
    H5Gclose(group);
    for (int64_t d = 0; d < position->stores && good; d++)
        good = is_count(position->epoch[d]) && is_count(position->window[d]) && is_count(position->before[d]) &&
               is_count(position->key[d]);
    return good;
}

static bool read_meta(hid_t file, struct checkpoint_meta *meta)
{
    static const char *const names[] = {"step", "tokens", "seed", "ranks"};
    int64_t *const values[] = {&meta->step, &meta->tokens, &meta->seed, &meta->ranks};
    if (!read_numbers(file, "meta", names, values, 4) || !read_position(file, meta))
        return false;
    hid_t group = hdf5_open_group(file, "meta");
    char *version = hdf5_read_text(group, "version");
    meta->deck_text = hdf5_read_text(group, "deck");
    read_later_meta(group, meta);
    H5Gclose(group);
    meta->moments = hdf5_has(file, "optim");
    meta->scales = checkpoint_has_scales(file);
    bool good = version != NULL && meta->deck_text != NULL && are_counts(meta);
    if (good)
        snprintf(meta->version, sizeof meta->version, "%s", version);
    free(version);
    return good;
}

int checkpoint_load_meta(const char *path, struct checkpoint_meta *meta)
{
    struct hdf5_silence silence;
    hid_t file;
    *meta = (struct checkpoint_meta){0};
    hdf5_silence_begin(&silence);
    int code = checkpoint_open(&file, path);
    if (code == ERROR_NONE) {
        if (!read_meta(file, meta)) {
            code = error_user("%s: is not a complete checkpoint: an attribute of /meta or /data is missing or wrong",
                              path);
            checkpoint_meta_destroy(meta);
        }
        H5Fclose(file);
    }
    hdf5_silence_end(&silence);
    return code;
}

void checkpoint_meta_destroy(struct checkpoint_meta *meta)
{
    free(meta->deck_text);
    meta->deck_text = NULL;
    blend_position_destroy(&meta->position);
    provenance_destroy(&meta->provenance);
}

void checkpoint_send_meta(struct comm *world, struct checkpoint_meta *meta)
{
    char *deck = meta->deck_text; /* rank 0's pointers, which the broadcast overwrites on other ranks */
    struct blend_position position = meta->position;
    struct data_provenance provenance = meta->provenance;
    int64_t bytes = world->rank == 0 ? (int64_t)strlen(deck) + 1 : 0;
    comm_broadcast(world, meta, sizeof *meta, 0);
    comm_broadcast(world, &bytes, sizeof bytes, 0);
    if (world->rank != 0) {
        deck = memory_grow(NULL, bytes);
        position = blend_position_create(meta->position.stores);
        position.offset = meta->position.offset;
        provenance = provenance_create(meta->provenance.stores);
    }
    int64_t *const each[] = {position.epoch, position.window, position.before, position.key};
    comm_broadcast(world, deck, bytes, 0);
    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        comm_broadcast(world, each[i], position.stores * (int64_t)sizeof *each[i], 0);
    comm_broadcast(world, provenance.content, provenance.stores * (int64_t)sizeof *provenance.content, 0);
    comm_broadcast(world, provenance.path, provenance.stores * (int64_t)sizeof *provenance.path, 0);
    meta->deck_text = deck;
    meta->position = position;
    meta->provenance = provenance;
}

int checkpoint_read_meta(struct comm *world, const char *path, struct checkpoint_meta *meta)
{
    *meta = (struct checkpoint_meta){0};
    int code = comm_agree(world, world->rank == 0 ? checkpoint_load_meta(path, meta) : ERROR_NONE);
    if (code == ERROR_NONE)
        checkpoint_send_meta(world, meta);
    return code;
}
