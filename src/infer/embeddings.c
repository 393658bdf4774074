#include "infer/embeddings.h"
#include "base/error.h"
#include "base/memory.h"
#include "file/open.h"
#include "file/file.h"
#include "file/hdf5_file.h"
#include "file/hdf5_layout.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

enum { LAYOUT_VERSION = 1 };
enum { COLUMN_NAMES, COLUMN_LENGTHS, COLUMN_VECTORS, COLUMN_OFFSETS, COLUMNS };

static const char *const column_names[COLUMNS] = {"names", "lengths", "vectors", "offsets"};

/* A dataset that is filled from its beginning. */
struct embeddings_column {
    int64_t row_bytes;
    int64_t position; /* file offset of the next row */
};

struct embeddings {
    char *path;
    int64_t special_tokens; /* per record */
    int descriptor;
    int columns;
    struct embeddings_column column[COLUMNS];
    int64_t offset;
    const struct embeddings_settings *settings; /* valid while the file is laid out */
};

const char *const embeddings_pool_names[EMBEDDINGS_POOLS] = {"mean", "last", "none"};

static bool describe(hid_t file, const struct embeddings_settings *s)
{
    return hdf5_write_integer(file, "cistron_embeddings", LAYOUT_VERSION) &&
           hdf5_write_text(file, "version", PACKAGE_VERSION) && hdf5_write_text(file, "checkpoint", s->checkpoint) &&
           hdf5_write_integer(file, "step", s->step) && hdf5_write_text(file, "family", s->family) &&
           hdf5_write_text(file, "tokenizer", s->tokenizer) &&
           hdf5_write_text(file, "pool", embeddings_pool_names[s->pool]) &&
           hdf5_write_integer(file, "hidden", s->hidden) && hdf5_write_integer(file, "begin_tokens", s->begin_tokens) &&
           hdf5_write_integer(file, "end_tokens", s->end_tokens) &&
           hdf5_write_integer(file, "max_length", s->max_length) && hdf5_write_integer(file, "truncated", s->truncated);
}

static int64_t rows_of(const struct embeddings_settings *s, int column)
{
    return column == COLUMN_VECTORS ? s->rows : s->records + (column == COLUMN_OFFSETS);
}

static bool create(hid_t file, void *self)
{
    struct embeddings *e = self;
    const struct embeddings_settings *s = e->settings;
    hid_t string = H5Tcopy(H5T_C_S1);
    H5Tset_size(string, (size_t)s->name_bytes);
    H5Tset_strpad(string, H5T_STR_NULLPAD);
    H5Tset_cset(string, H5T_CSET_UTF8);
    const hid_t types[COLUMNS] = {string, H5T_STD_I64LE, H5T_IEEE_F32LE, H5T_STD_I64LE};
    bool good = describe(file, s);
    for (int i = 0; i < e->columns && good; i++) {
        const hsize_t extent[2] = {(hsize_t)rows_of(s, i), (hsize_t)s->hidden};
        good = hdf5_layout_dataset(file, column_names[i], types[i], i == COLUMN_VECTORS ? 2 : 1, extent,
                                   &e->column[i].position);
    }
    H5Tclose(string);
    return good;
}

static int put(struct embeddings *e, int column, const void *values, int64_t rows)
{
    struct embeddings_column *c = &e->column[column];
    int code = file_write(e->descriptor, e->path, values, rows * c->row_bytes, c->position);
    c->position += rows * c->row_bytes;
    return code;
}

int embeddings_create(struct embeddings **out, const struct embeddings_settings *s)
{
    struct embeddings *e = *out = memory_allocate(sizeof *e);
    e->path = memory_string(s->path);
    e->special_tokens = s->begin_tokens + s->end_tokens;
    e->columns = s->pool == EMBEDDINGS_NONE ? COLUMNS : COLUMN_OFFSETS;
    e->settings = s;
    int64_t most = HDF5_LAYOUT_FIXED + (int64_t)strlen(s->checkpoint);
    const int64_t row_bytes[COLUMNS] = {s->name_bytes, sizeof(int64_t), s->hidden * (int64_t)sizeof(float),
                                        sizeof(int64_t)};
    for (int i = 0; i < e->columns; i++) {
        e->column[i].row_bytes = row_bytes[i];
        most += HDF5_LAYOUT_DATASET + rows_of(s, i) * row_bytes[i];
    }
    e->descriptor = open_own(s->path, O_WRONLY | O_TRUNC);
    int code = e->descriptor < 0 ? error_environment("%s: cannot open it: %s", s->path, open_failure())
                                 : hdf5_layout_write(e->descriptor, e->path, most, create, e);
    if (code == ERROR_NONE && e->columns > COLUMN_OFFSETS)
        code = put(e, COLUMN_OFFSETS, &e->offset, 1);
    if (code != ERROR_NONE) {
        embeddings_close(e, code);
        *out = NULL;
    }
    return code;
}

/* Writes a name. The rest of its space is a hole, which reads as zeros. */
static int put_name(struct embeddings *e, const char *name)
{
    struct embeddings_column *c = &e->column[COLUMN_NAMES];
    int code = file_write(e->descriptor, e->path, name, (int64_t)strlen(name), c->position);
    c->position += c->row_bytes;
    return code;
}

int embeddings_put_records(struct embeddings *e, char *const *names, const int64_t *lengths, int64_t count)
{
    int code = put(e, COLUMN_LENGTHS, lengths, count);
    for (int64_t i = 0; i < count && code == ERROR_NONE; i++)
        code = put_name(e, names[i]);
    if (code != ERROR_NONE || e->columns <= COLUMN_OFFSETS)
        return code;
    int64_t *offsets = memory_allocate((int64_t)sizeof *offsets * count);
    for (int64_t i = 0; i < count; i++)
        offsets[i] = e->offset += lengths[i] + e->special_tokens;
    code = put(e, COLUMN_OFFSETS, offsets, count);
    memory_free(offsets);
    return code;
}

int embeddings_put_vectors(struct embeddings *e, const float *vectors, int64_t count)
{
    return put(e, COLUMN_VECTORS, vectors, count);
}

int embeddings_close(struct embeddings *e, int code)
{
    if (e == NULL)
        return code;
    if (e->descriptor >= 0)
        code = file_finish(e->descriptor, e->path, code);
    free(e->path);
    memory_free(e);
    return code;
}
