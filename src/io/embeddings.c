#include "io/embeddings.h"
#include "base/error.h"
#include "base/memory.h"
#include "io/hdf5_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { LAYOUT_VERSION = 1, ALIGNMENT = 4096 };

/* A dataset that grows row by row to what was announced. */
struct column {
    hid_t dataset, type;
    int64_t width; /* of a row; 0: one-dimensional */
    int64_t filled;
};

struct embeddings {
    char *path;
    int64_t tokens_beside; /* special tokens of a record */
    bool has_offsets;
    hid_t file, string;
    struct column names, lengths, vectors, offsets;
    int64_t offset;
    struct hdf5_silence silence;
};

const char *const embeddings_pool_names[EMBEDDINGS_POOLS] = {"mean", "last", "none"};

static int cannot_write(const struct embeddings *e)
{
    return error_environment("%s: cannot write it: %s", e->path, errno != 0 ? strerror(errno) : "HDF5 failed");
}

static bool open_column(struct embeddings *e, struct column *column, const char *name, hid_t stored, hid_t given,
                        int64_t rows, int64_t width)
{
    const hsize_t extent[2] = {(hsize_t)rows, (hsize_t)width};
    hid_t space = H5Screate_simple(width > 0 ? 2 : 1, extent, NULL), layout = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_layout(layout, H5D_CONTIGUOUS);
    H5Pset_alloc_time(layout, H5D_ALLOC_TIME_EARLY);
    H5Pset_fill_time(layout, H5D_FILL_TIME_IFSET);
    H5Pset_obj_track_times(layout, false); /* the same vectors are the same file */
    *column =
        (struct column){H5Dcreate2(e->file, name, stored, space, H5P_DEFAULT, layout, H5P_DEFAULT), given, width, 0};
    H5Pclose(layout);
    H5Sclose(space);
    return column->dataset >= 0;
}

static int put(struct embeddings *e, struct column *column, const void *values, int64_t count)
{
    const hsize_t start[2] = {(hsize_t)column->filled, 0}, extent[2] = {(hsize_t)count, (hsize_t)column->width};
    const int rank = column->width > 0 ? 2 : 1;
    hid_t space = H5Dget_space(column->dataset), memory = H5Screate_simple(rank, extent, NULL);
    errno = 0;
    bool good = H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, extent, NULL) >= 0 &&
                H5Dwrite(column->dataset, column->type, memory, space, H5P_DEFAULT, values) >= 0;
    column->filled += count;
    int code = good ? ERROR_NONE : cannot_write(e);
    H5Sclose(memory);
    H5Sclose(space);
    return code;
}

static bool describe(const struct embeddings *e, const struct embeddings_settings *s)
{
    return hdf5_write_integer(e->file, "cistron_embeddings", LAYOUT_VERSION) &&
           hdf5_write_text(e->file, "version", PACKAGE_VERSION) &&
           hdf5_write_text(e->file, "checkpoint", s->checkpoint) && hdf5_write_integer(e->file, "step", s->step) &&
           hdf5_write_text(e->file, "family", s->family) && hdf5_write_text(e->file, "tokenizer", s->tokenizer) &&
           hdf5_write_text(e->file, "pool", embeddings_pool_names[s->pool]) &&
           hdf5_write_integer(e->file, "hidden", s->hidden) &&
           hdf5_write_integer(e->file, "begin_tokens", s->begin_tokens) &&
           hdf5_write_integer(e->file, "end_tokens", s->end_tokens) &&
           hdf5_write_integer(e->file, "max_length", s->max_length) &&
           hdf5_write_integer(e->file, "truncated", s->truncated);
}

static bool lay_out(struct embeddings *e, const struct embeddings_settings *s)
{
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_alignment(access, ALIGNMENT, ALIGNMENT);
    e->file = H5Fcreate(s->path, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    H5Pclose(access);
    if (e->file < 0)
        return false;
    return describe(e, s) && open_column(e, &e->names, "names", e->string, e->string, s->records, 0) &&
           open_column(e, &e->lengths, "lengths", H5T_STD_I64LE, H5T_NATIVE_INT64, s->records, 0) &&
           open_column(e, &e->vectors, "vectors", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, s->rows, s->hidden) &&
           (!e->has_offsets ||
            open_column(e, &e->offsets, "offsets", H5T_STD_I64LE, H5T_NATIVE_INT64, s->records + 1, 0));
}

int embeddings_create(struct embeddings **out, const struct embeddings_settings *s)
{
    struct embeddings *e = *out = memory_allocate(sizeof *e);
    e->path = memory_string(s->path);
    e->tokens_beside = s->begin_tokens + s->end_tokens;
    e->has_offsets = s->pool == EMBEDDINGS_NONE;
    e->names.dataset = e->lengths.dataset = e->vectors.dataset = e->offsets.dataset = -1;
    e->string = H5Tcopy(H5T_C_S1);
    H5Tset_size(e->string, H5T_VARIABLE);
    H5Tset_cset(e->string, H5T_CSET_UTF8);
    hdf5_silence_begin(&e->silence);
    errno = 0;
    int code = lay_out(e, s) ? ERROR_NONE : cannot_write(e);
    if (code == ERROR_NONE && e->has_offsets)
        code = put(e, &e->offsets, &e->offset, 1);
    if (code != ERROR_NONE) {
        embeddings_close(e, code);
        *out = NULL;
    }
    return code;
}

int embeddings_put_records(struct embeddings *e, char *const *names, const int64_t *lengths, int64_t count)
{
    int code = put(e, &e->names, names, count);
    if (code == ERROR_NONE)
        code = put(e, &e->lengths, lengths, count);
    if (code != ERROR_NONE || !e->has_offsets)
        return code;
    int64_t *offsets = memory_allocate((int64_t)sizeof *offsets * count);
    for (int64_t i = 0; i < count; i++)
        offsets[i] = e->offset += lengths[i] + e->tokens_beside;
    code = put(e, &e->offsets, offsets, count);
    memory_free(offsets);
    return code;
}

int embeddings_put_vectors(struct embeddings *e, const float *vectors, int64_t count)
{
    return put(e, &e->vectors, vectors, count);
}

int embeddings_close(struct embeddings *e, int code)
{
    if (e == NULL)
        return code;
    struct column *const columns[] = {&e->names, &e->lengths, &e->vectors, &e->offsets};
    errno = 0;
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        if (columns[i]->dataset >= 0 && H5Dclose(columns[i]->dataset) < 0 && code == ERROR_NONE)
            code = cannot_write(e);
    if (e->file >= 0 && H5Fclose(e->file) < 0 && code == ERROR_NONE)
        code = cannot_write(e);
    H5Tclose(e->string);
    hdf5_silence_end(&e->silence);
    free(e->path);
    memory_free(e);
    return code;
}
