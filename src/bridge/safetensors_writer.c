#include "bridge/safetensors_writer.h"
#include "base/error.h"
#include "base/memory.h"
#include "file/atomic_file.h"
#include "file/file.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8, ALIGNMENT = 8 /* alignment of the data */ };

struct tensor_place {
    int file;
    int64_t bytes, missing;
    int64_t position; /* offset in the file */
};

struct safetensors_output {
    char *path;
    struct atomic_file atomic;
    bool placed; /* renamed to its final name */
};

struct safetensors_writer {
    char *folder;
    struct tensor_place *tensors; /* [count] */
    int64_t count;
    int64_t total;                      /* bytes of all tensors */
    uint64_t digest;                    /* for __metadata__; 0 = none */
    struct safetensors_output *outputs; /* [output_count]: tensor files, then the index, if there is one */
    int files, output_count;            /* number of tensor files; with the index */
    bool committed;
};

/* Assigns each tensor to a file. */
static void split(struct safetensors_writer *writer, int64_t shard_bytes)
{
    int64_t filled = 0;
    writer->files = 1;
    for (int64_t i = 0; i < writer->count; i++) {
        struct tensor_place *tensor = &writer->tensors[i];
        if (filled > 0 && tensor->bytes > shard_bytes - filled) {
            writer->files++;
            filled = 0;
        }
        filled += tensor->bytes;
        tensor->file = writer->files - 1;
        writer->total += tensor->bytes;
    }
    writer->output_count = writer->files == 1 ? 1 : writer->files + 1;
    writer->outputs = memory_allocate(writer->output_count * (int64_t)sizeof *writer->outputs);
    for (int f = 0; f < writer->files; f++)
        writer->outputs[f].path = writer->files == 1 ? memory_format("%s/" SAFETENSORS_SINGLE, writer->folder)
                                                     : memory_format("%s/model-%05d-of-%05d.safetensors",
                                                                     writer->folder, f + 1, writer->files);
    if (writer->files > 1)
        writer->outputs[writer->files].path = memory_format("%s/" SAFETENSORS_INDEX, writer->folder);
}

static const char *name_of(const struct safetensors_output *output)
{
    return strrchr(output->path, '/') + 1;
}

static json_t *describe(const struct safetensors_entry *tensor, int64_t begin, int64_t bytes)
{
    json_t *shape = json_array();
    for (int d = 0; d < tensor->dims; d++)
        json_array_append_new(shape, json_integer(tensor->shape[d]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", safetensors_dtype_name(tensor->dtype), "shape", shape,
                     "data_offsets", (json_int_t)begin, (json_int_t)(begin + bytes));
}

/* Returns the header of a file as JSON, and sets each tensor's position in the data. Tensors with large elements come
 * first, so that each starts at a multiple of its element size, as readers that map the file need. */
static json_t *make_header(struct safetensors_writer *writer, const struct safetensors_entry *tensors, int file)
{
    json_t *header = json_pack("{s:{s:s}}", SAFETENSORS_METADATA, "format", "pt");
    if (writer->digest != 0)
        json_object_set_new(json_object_get(header, SAFETENSORS_METADATA), SAFETENSORS_DIGEST,
                            json_sprintf("%016llx", (unsigned long long)writer->digest));
    int64_t end = 0;
    for (int64_t size = ALIGNMENT; size > 0; size /= 2)
        for (int64_t i = 0; i < writer->count; i++) {
            struct tensor_place *place = &writer->tensors[i];
            if (place->file != file || safetensors_dtype_size(tensors[i].dtype) != size)
                continue;
            json_object_set_new(header, tensors[i].name, describe(&tensors[i], end, place->bytes));
            place->position = end;
            end += place->bytes;
        }
    return header;
}

/* Opens the file and writes everything before the data. */
static int begin_file(struct safetensors_writer *writer, const struct safetensors_entry *tensors, int file)
{
    struct safetensors_output *output = &writer->outputs[file];
    int code = atomic_file_open(&output->atomic, output->path);
    if (code != ERROR_NONE)
        return code;
    json_t *header = make_header(writer, tensors, file);
    char *text = json_dumps(header, JSON_COMPACT);
    json_decref(header);
    if (text == NULL)
        error_fatal("out of memory: the header of %s", output->path);
    int64_t length = (int64_t)strlen(text), padded = (length + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    text = memory_grow(text, padded);
    memset(text + length, ' ', (size_t)(padded - length));
    uint8_t field[LENGTH_BYTES];
    for (int i = 0; i < LENGTH_BYTES; i++)
        field[i] = (uint8_t)((uint64_t)padded >> 8 * i);
    for (int64_t i = 0; i < writer->count; i++)
        if (writer->tensors[i].file == file)
            writer->tensors[i].position += LENGTH_BYTES + padded;
    int descriptor = fileno(output->atomic.file);
    code = file_write(descriptor, output->atomic.target.temporary, field, LENGTH_BYTES, 0);
    if (code == ERROR_NONE)
        code = file_write(descriptor, output->atomic.target.temporary, text, padded, LENGTH_BYTES);
    free(text);
    return code;
}

static int write_index(struct safetensors_writer *writer, json_t *map)
{
    struct safetensors_output *output = &writer->outputs[writer->files];
    int code = atomic_file_open(&output->atomic, output->path);
    if (code != ERROR_NONE)
        return code;
    json_t *index = json_pack("{s:{s:I}, s:O}", "metadata", "total_size", (json_int_t)writer->total, "weight_map", map);
    json_dumpf(index, output->atomic.file, JSON_INDENT(2)); /* atomic_file_flush reports write errors */
    fputc('\n', output->atomic.file);
    json_decref(index);
    return ERROR_NONE;
}

/* Writes the file of each tensor to the map, and checks the names. */
static int make_map(json_t *map, const struct safetensors_writer *writer, const struct safetensors_entry *tensors)
{
    for (int64_t i = 0; i < writer->count; i++) {
        const char *file = name_of(&writer->outputs[writer->tensors[i].file]);
        if (strcmp(tensors[i].name, SAFETENSORS_METADATA) == 0)
            return error_user("%s: no tensor can have the name " SAFETENSORS_METADATA, writer->folder);
        if (json_object_get(map, tensors[i].name) != NULL)
            return error_user("%s: two tensors have the name %s", writer->folder, tensors[i].name);
        if (json_object_set_new(map, tensors[i].name, json_string(file)) != 0)
            return error_user("%s: the name of tensor %lld is not UTF-8: %s", writer->folder, (long long)i,
                              tensors[i].name);
    }
    return ERROR_NONE;
}

int safetensors_writer_create(struct safetensors_writer **out, const char *folder,
                              const struct safetensors_entry *tensors, int64_t count, int64_t shard_bytes,
                              uint64_t digest)
{
    struct safetensors_writer *writer = memory_allocate(sizeof *writer);
    writer->folder = memory_string(folder);
    writer->count = count;
    writer->digest = digest;
    writer->tensors = memory_allocate(count * (int64_t)sizeof *writer->tensors);
    for (int64_t i = 0; i < count; i++) {
        writer->tensors[i].bytes = safetensors_dtype_bytes(tensors[i].dtype, tensors[i].dims, tensors[i].shape);
        writer->tensors[i].missing = writer->tensors[i].bytes;
        CHECK_BUG(writer->tensors[i].bytes >= 0 && tensors[i].dims <= SAFETENSORS_MAX_DIMS);
    }
    split(writer, shard_bytes);
    json_t *map = json_object();
    int code = make_map(map, writer, tensors);
    for (int f = 0; f < writer->files && code == ERROR_NONE; f++)
        code = begin_file(writer, tensors, f);
    if (code == ERROR_NONE && writer->files > 1)
        code = write_index(writer, map);
    json_decref(map);
    if (code != ERROR_NONE) {
        safetensors_writer_destroy(writer);
        writer = NULL;
    }
    *out = writer;
    return code;
}

int safetensors_writer_write(struct safetensors_writer *writer, int64_t tensor, int64_t offset, int64_t bytes,
                             const void *data)
{
    struct tensor_place *place = &writer->tensors[tensor];
    const struct atomic_file *atomic = &writer->outputs[place->file].atomic;
    CHECK_BUG(offset >= 0 && bytes >= 0 && offset <= place->bytes - bytes);
    place->missing -= bytes;
    return file_write(fileno(atomic->file), atomic->target.temporary, data, bytes, place->position + offset);
}

/* Returns whether the writer makes files of this name: the single file, the index or any shard. */
static bool is_of_a_model(const char *name)
{
    int end = 0;
    if (strcmp(name, SAFETENSORS_SINGLE) == 0 || strcmp(name, SAFETENSORS_INDEX) == 0)
        return true;
    sscanf(name, "model-%*5[0-9]-of-%*5[0-9].safetensors%n", &end);
    return end > 0 && name[end] == '\0';
}

/* Removes the files of an earlier model from the folder. */
static int remove_others(const struct safetensors_writer *writer)
{
    DIR *folder = opendir(writer->folder);
    if (folder == NULL)
        return error_environment("%s: cannot be read: %s", writer->folder, strerror(errno));
    int code = ERROR_NONE;
    for (struct dirent *entry; code == ERROR_NONE && (entry = readdir(folder)) != NULL;) {
        bool own = !is_of_a_model(entry->d_name);
        for (int i = 0; i < writer->output_count && !own; i++)
            own = strcmp(name_of(&writer->outputs[i]), entry->d_name) == 0;
        char *path = memory_format("%s/%s", writer->folder, entry->d_name);
        if (!own)
            code = file_remove(path);
        free(path);
    }
    closedir(folder);
    return code;
}

/* Removes the index before shards are renamed, because a reader could not detect shards of two models. */
static int remove_index(const struct safetensors_writer *writer)
{
    return writer->files == 1 ? ERROR_NONE : file_remove(writer->outputs[writer->files].path);
}

int safetensors_writer_commit(struct safetensors_writer *writer)
{
    int code = ERROR_NONE;
    for (int64_t i = 0; i < writer->count; i++)
        if (writer->tensors[i].missing != 0)
            error_fatal("%s: bug: tensor %lld lacks %lld bytes", writer->folder, (long long)i,
                        (long long)writer->tensors[i].missing);
    for (int i = 0; i < writer->output_count && code == ERROR_NONE; i++)
        code = atomic_file_flush(&writer->outputs[i].atomic);
    if (code == ERROR_NONE)
        code = remove_index(writer);
    for (int i = 0; i < writer->output_count && code == ERROR_NONE; i++) {
        code = atomic_file_close(&writer->outputs[i].atomic, code);
        writer->outputs[i].placed = code == ERROR_NONE;
    }
    if (code == ERROR_NONE)
        code = remove_others(writer);
    writer->committed = code == ERROR_NONE;
    return code;
}

void safetensors_writer_destroy(struct safetensors_writer *writer)
{
    if (writer == NULL)
        return;
    for (int i = 0; i < writer->output_count; i++) {
        atomic_file_close(&writer->outputs[i].atomic, ERROR_ENVIRONMENT);
        if (writer->outputs[i].placed && !writer->committed)
            file_remove(writer->outputs[i].path);
        free(writer->outputs[i].path);
    }
    memory_free(writer->outputs);
    memory_free(writer->tensors);
    free(writer->folder);
    memory_free(writer);
}
