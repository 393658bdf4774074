#include "prepare/token_store_writer.h"
#include "file/disk.h"
#include "base/error.h"
#include "base/memory.h"
#include "file/open.h"
#include "file/hdf5_member.h"
#include "file/hdf5_open.h"
#include "data/token_store.h"
#include "data/tokenizer_member.h"
#include "prepare/column.h"
#include "file/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

enum { ALIGNMENT = 4096 /* arrays begin at page boundaries */ };

struct token_store_writer {
    struct store_writer writer;
    struct file_replacement target;
    const struct tokenizer *tokenizer;
    struct store_labels labels; /* count 0: none */
    int column_count;
    int64_t sequences, tokens; /* totals, known in advance */
    int64_t token_bytes;
    int64_t offset; /* tokens so far */
    int file;       /* -1 while HDF5 has it open */
    struct column_writer *columns[STORE_COLUMNS];
};

static int cannot_write(const struct token_store_writer *writer, const char *why)
{
    return error_environment("%s: cannot write: %s", writer->target.temporary, why);
}

static struct token_store_writer *self_of(struct store_writer *writer)
{
    return (struct token_store_writer *)writer; /* the first member */
}

/* Position of a dataset in the file. */
struct dataset_place {
    int64_t position, bytes;
};

static const char *system_reason(void)
{
    return errno != 0 ? strerror(errno) : "HDF5 failed";
}

/* Creates the datasets, allocated early and without fill values, and sets their positions. Returns NULL, or the
 * reason of a failure. */
static const char *lay_out(struct token_store_writer *writer, const int64_t counts[STORE_COLUMNS],
                           const hid_t types[STORE_COLUMNS], struct dataset_place stretches[STORE_COLUMNS])
{
    hid_t access = hdf5_access();
    H5Pset_alignment(access, 1, ALIGNMENT);
    unlink(writer->target.temporary); /* left by a killed process with this number, or a link */
    errno = 0;
    hid_t file = H5Fcreate(writer->target.temporary, H5F_ACC_EXCL, H5P_DEFAULT, access);
    const char *failure = file < 0 ? hdf5_open_failure(system_reason()) : NULL;
    H5Pclose(access);
    if (failure != NULL)
        return failure;
    hid_t layout = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_layout(layout, H5D_CONTIGUOUS);
    H5Pset_alloc_time(layout, H5D_ALLOC_TIME_EARLY);
    H5Pset_fill_time(layout, H5D_FILL_TIME_NEVER);
    H5Pset_obj_track_times(layout, false); /* equal content gives identical files */
    bool good = true;
    for (int i = 0; i < writer->column_count; i++) {
        hsize_t extent = (hsize_t)counts[i];
        hid_t space = H5Screate_simple(1, &extent, NULL);
        hid_t dataset = H5Dcreate2(file, store_columns[i], types[i], space, H5P_DEFAULT, layout, H5P_DEFAULT);
        good = good && dataset >= 0;
        if (good) {
            stretches[i].bytes = counts[i] * (int64_t)H5Tget_size(types[i]);
            stretches[i].position = stretches[i].bytes > 0 ? (int64_t)H5Dget_offset(dataset) : 0;
            H5Dclose(dataset);
        }
        H5Sclose(space);
    }
    H5Pclose(layout);
    return H5Fclose(file) >= 0 && good ? NULL : system_reason();
}

static int append(struct store_writer *self, const void *tokens, int64_t count)
{
    struct token_store_writer *writer = self_of(self);
    writer->offset += count;
    return column_put(writer->columns[STORE_TOKENS], tokens, count * writer->token_bytes);
}

int token_store_writer_label(struct store_writer *self, const void *labels, int64_t bytes)
{
    return column_put(self_of(self)->columns[STORE_LABELS], labels, bytes);
}

static int end(struct store_writer *self, const char *name)
{
    struct token_store_writer *writer = self_of(self);
    int code = column_put(writer->columns[STORE_NAMES], name, (int64_t)strlen(name));
    if (code == ERROR_NONE)
        code = column_put(writer->columns[STORE_NAMES], "\n", 1);
    if (code == ERROR_NONE)
        code = column_put(writer->columns[STORE_OFFSETS], &writer->offset, sizeof writer->offset);
    return code;
}

static bool write_integer(hid_t object, const char *name, int64_t value)
{
    return hdf5_write_attribute(object, name, H5T_STD_I64LE, H5T_NATIVE_INT64, &value);
}

static bool write_sources(hid_t file, char *const *sources, int64_t count)
{
    hsize_t extent = (hsize_t)count;
    hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, H5T_VARIABLE);
    H5Tset_cset(type, H5T_CSET_UTF8);
    hid_t space = H5Screate_simple(1, &extent, NULL);
    hid_t plan = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_obj_track_times(plan, false);
    hid_t dataset = H5Dcreate2(file, "sources", type, space, H5P_DEFAULT, plan, H5P_DEFAULT);
    bool good = dataset >= 0 && (count == 0 || H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, sources) >= 0);
    if (dataset >= 0)
        H5Dclose(dataset);
    H5Pclose(plan);
    H5Sclose(space);
    H5Tclose(type);
    return good;
}

static bool describe_labels(hid_t file, const struct store_labels *labels)
{
    const char *kind = store_labels[labels->kind];
    hid_t string = H5Tcopy(H5T_C_S1);
    H5Tset_size(string, strlen(kind) + 1);
    bool good = hdf5_write_attribute(file, "label_kind", string, string, kind) &&
                write_integer(file, "label_count", labels->count);
    H5Tclose(string);
    return good;
}

static bool describe(struct token_store_writer *writer, char *const *sources, int64_t source_count,
                     const uint64_t digests[STORE_COLUMNS], uint64_t checksum)
{
    hid_t access = hdf5_access();
    hid_t file = H5Fopen(writer->target.temporary, H5F_ACC_RDWR, access);
    H5Pclose(access);
    if (file < 0)
        return false;
    bool good = true;
    for (int i = 0; i < writer->column_count; i++) {
        hid_t dataset = H5Dopen2(file, store_columns[i], H5P_DEFAULT);
        good = good && hdf5_write_attribute(dataset, "xxh3", H5T_STD_U64LE, H5T_NATIVE_UINT64, &digests[i]);
        H5Dclose(dataset);
    }
    const bool labelled = writer->labels.count > 0;
    hid_t string = H5Tcopy(H5T_C_S1);
    H5Tset_size(string, strlen(writer->tokenizer->name) + 1);
    good = good && write_integer(file, "cistron_store", labelled ? STORE_VERSION_LABELS : STORE_VERSION) &&
           (!labelled || describe_labels(file, &writer->labels)) &&
           hdf5_write_attribute(file, "tokenizer", string, string, writer->tokenizer->name) &&
           write_integer(file, "vocabulary", writer->tokenizer->vocabulary) &&
           write_integer(file, "sequences", writer->sequences) && write_integer(file, "token_count", writer->tokens) &&
           hdf5_write_attribute(file, "checksum", H5T_STD_U64LE, H5T_NATIVE_UINT64, &checksum) &&
           write_sources(file, sources, source_count) && tokenizer_member_write(file, writer->tokenizer);
    H5Tclose(string);
    return H5Fclose(file) >= 0 && good;
}

static int finish(struct store_writer *self, char *const *sources, int64_t source_count, uint64_t *checksum)
{
    struct token_store_writer *writer = self_of(self);
    uint64_t digests[STORE_COLUMNS];
    for (int i = 0; i < writer->column_count; i++) {
        int code = column_finish(writer->columns[i], &digests[i]);
        if (code != ERROR_NONE)
            return code;
    }
    *checksum = XXH3_64bits(digests, (size_t)writer->column_count * sizeof *digests);
    if (!describe(writer, sources, source_count, digests, *checksum))
        return cannot_write(writer, "HDF5 failed");
    if (fsync(writer->file) != 0)
        return cannot_write(writer, strerror(errno));
    return ERROR_NONE;
}

static int commit(struct store_writer *self)
{
    struct token_store_writer *writer = self_of(self);
    return replace_commit(&writer->target, true);
}

static void destroy(struct store_writer *self)
{
    struct token_store_writer *writer = self_of(self);
    if (writer->file >= 0)
        close(writer->file);
    replace_discard(&writer->target);
    for (int i = 0; i < STORE_COLUMNS; i++)
        column_destroy(writer->columns[i]);
    memory_free(writer);
}

int token_store_writer_create(struct store_writer **out, const char *path, const struct tokenizer *tokenizer,
                              int64_t sequences, int64_t tokens, int64_t name_bytes, const struct store_labels *labels)
{
    static const struct store_writer_class class = {append, end, finish, commit, destroy};
    struct token_store_writer *writer = memory_allocate(sizeof *writer);
    writer->writer.class = &class;
    replace_begin(&writer->target, path);
    writer->tokenizer = tokenizer;
    writer->sequences = sequences;
    writer->tokens = tokens;
    writer->token_bytes = token_store_token_bytes(tokenizer->vocabulary);
    writer->file = -1;
    writer->labels = labels != NULL ? *labels : (struct store_labels){.kind = STORE_LABEL_NONE};
    writer->column_count = labels != NULL ? STORE_COLUMNS : STORE_LABELS;
    const bool words = writer->labels.kind == STORE_LABEL_TOKEN, reals = writer->labels.kind == STORE_LABEL_NUMBER;
    const hid_t label_type = words ? H5T_STD_I16LE : reals ? H5T_IEEE_F32LE : H5T_STD_I32LE;
    const int64_t label_bytes =
        labels != NULL ? token_store_label_bytes(labels->kind, labels->count, sequences, tokens) : 0;
    const int64_t class_bytes = labels != NULL ? (int64_t)strlen(labels->names) : 0;
    hid_t token_type = writer->token_bytes == 1   ? H5T_STD_U8LE
                       : writer->token_bytes == 2 ? H5T_STD_U16LE
                                                  : H5T_STD_U32LE;
    const int64_t counts[STORE_COLUMNS] = {tokens, sequences + 1, name_bytes,
                                           label_bytes / (int64_t)H5Tget_size(label_type), class_bytes};
    const hid_t types[STORE_COLUMNS] = {token_type, H5T_STD_I64LE, H5T_STD_U8LE, label_type, H5T_STD_U8LE};
    struct dataset_place stretches[STORE_COLUMNS];
    int code = ERROR_NONE;
    struct hdf5_silence silence;
    hdf5_silence_begin(&silence);
    const char *failure = lay_out(writer, counts, types, stretches);
    if (failure != NULL)
        code = cannot_write(writer, failure);
    hdf5_silence_end(&silence);
    if (code == ERROR_NONE && (writer->file = open_own(writer->target.temporary, O_WRONLY)) < 0)
        code = cannot_write(writer, open_failure());
    for (int i = 0; i < writer->column_count && code == ERROR_NONE; i++)
        writer->columns[i] =
            column_create(writer->file, writer->target.temporary, stretches[i].position, stretches[i].bytes);
    if (code == ERROR_NONE)
        code = column_put(writer->columns[STORE_OFFSETS], &writer->offset, sizeof writer->offset);
    if (code == ERROR_NONE && labels != NULL)
        code = column_put(writer->columns[STORE_CLASSES], labels->names, class_bytes);
    *out = code == ERROR_NONE ? &writer->writer : NULL;
    if (code != ERROR_NONE)
        destroy(&writer->writer);
    return code;
}
