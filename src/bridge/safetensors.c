#include "bridge/safetensors.h"
#include "base/error.h"
#include "base/memory.h"
#include "file/open.h"
#include "file/path.h"
#include "file/file.h"
#include "bridge/safetensors_header.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct safetensors_file {
    char *path;
    const char *name; /* file name, in path */
    int descriptor;
};

static int open_sized(int *descriptor, int64_t *bytes, const char *path)
{
    *descriptor = open_file(path);
    *bytes = *descriptor < 0 ? 0 : open_size(*descriptor);
    return *descriptor < 0 ? error_user("%s: cannot be opened: %s", path, open_failure()) : ERROR_NONE;
}

/* Adds a file and its tensors. `path` becomes st's. */
static int add_file(struct safetensors *st, char *path)
{
    struct safetensors_header header;
    int64_t bytes;
    int descriptor, code = open_sized(&descriptor, &bytes, path);
    if (code == ERROR_NONE && (code = safetensors_header_read(&header, descriptor, path, bytes)) != ERROR_NONE)
        close(descriptor);
    if (code != ERROR_NONE) {
        free(path);
        return code;
    }
    const char *slash = strrchr(path, '/');
    st->files = memory_grow(st->files, (st->file_count + 1) * (int64_t)sizeof *st->files);
    st->files[st->file_count] =
        (struct safetensors_file){.path = path, .name = slash != NULL ? slash + 1 : path, .descriptor = descriptor};
    st->entries = memory_grow(st->entries, (st->count + header.count) * (int64_t)sizeof *st->entries);
    for (int64_t i = 0; i < header.count; i++) {
        st->entries[st->count] = header.entries[i];
        st->entries[st->count++].file = st->file_count;
    }
    if (st->file_count++ == 0)
        st->digest = header.digest;
    free(header.entries); /* names are now owned by st */
    return ERROR_NONE;
}

static int compare_names(const void *a, const void *b)
{
    const struct safetensors_entry *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static const struct safetensors_file *file_named(const struct safetensors *st, const char *name)
{
    for (int i = 0; i < st->file_count; i++)
        if (strcmp(st->files[i].name, name) == 0)
            return &st->files[i];
    return NULL;
}

static int add_shards(struct safetensors *st, const char *folder, const char *index, json_t *map)
{
    const char *tensor;
    json_t *value;
    char plain[2][SAFETENSORS_PLAIN_BYTES];
    int code = ERROR_NONE;
    json_object_foreach(map, tensor, value)
    {
        const char *name = json_string_value(value);
        if (name == NULL || name[0] == '\0' || strchr(name, '/') != NULL || strstr(name, "..") != NULL ||
            strcmp(name, safetensors_header_plain(plain[0], name)) != 0)
            return error_user("%s: tensor %s: \"%s\" is not the name of a file of the same folder", index,
                              safetensors_header_plain(plain[0], tensor),
                              safetensors_header_plain(plain[1], name != NULL ? name : ""));
        if (file_named(st, name) == NULL)
            code = add_file(st, memory_format("%s/%s", folder, name));
        if (code != ERROR_NONE)
            return code;
    }
    return ERROR_NONE;
}

/* Checks that the shards have exactly the tensors of the map, each in the file that the map names. st->entries are
 * sorted. */
static int check_map(const struct safetensors *st, const char *index, json_t *map)
{
    const char *tensor;
    json_t *value;
    char plain[SAFETENSORS_PLAIN_BYTES];
    for (int64_t i = 0; i < st->count; i++) {
        const struct safetensors_entry *entry = &st->entries[i];
        const char *place = json_string_value(json_object_get(map, entry->name));
        if (i + 1 < st->count && strcmp(entry->name, entry[1].name) == 0)
            return error_user("%s: tensor %s: is also in %s", safetensors_path(st, entry), entry->name,
                              st->files[entry[1].file].name);
        if (place == NULL)
            return error_user("%s: tensor %s: is not listed in %s", safetensors_path(st, entry), entry->name, index);
        if (strcmp(place, st->files[entry->file].name) != 0)
            return error_user("%s: tensor %s: is in this file, but %s lists it in %s", safetensors_path(st, entry),
                              entry->name, index, place);
    }
    json_object_foreach(map, tensor, value) if (safetensors_find(st, tensor) == NULL) return error_user(
        "%s: tensor %s: is missing, but %s lists it in this file", file_named(st, json_string_value(value))->path,
        safetensors_header_plain(plain, tensor), index);
    return ERROR_NONE;
}

static int open_index(struct safetensors *st, const char *folder, const char *index)
{
    json_t *object = NULL;
    int64_t bytes;
    int descriptor, code = open_sized(&descriptor, &bytes, index);
    if (code != ERROR_NONE)
        return code;
    if (bytes > SAFETENSORS_HEADER_BYTES)
        code =
            error_user("%s: has %lld bytes; at most %d are allowed", index, (long long)bytes, SAFETENSORS_HEADER_BYTES);
    else
        code = safetensors_header_object(&object, descriptor, index, 0, bytes);
    close(descriptor);
    json_t *map = json_object_get(object, "weight_map");
    if (code == ERROR_NONE && json_object_size(map) == 0)
        code = error_user("%s: weight_map must be an object that names the file of each tensor", index);
    if (code == ERROR_NONE)
        code = add_shards(st, folder, index, map);
    if (code == ERROR_NONE) {
        qsort(st->entries, (size_t)st->count, sizeof *st->entries, compare_names);
        code = check_map(st, index, map);
    }
    json_decref(object);
    return code;
}

static int open_folder(struct safetensors *st, const char *folder)
{
    char *single = memory_format("%s/" SAFETENSORS_SINGLE, folder),
         *index = memory_format("%s/" SAFETENSORS_INDEX, folder);
    int code;
    if (access(single, F_OK) == 0)
        code = add_file(st, memory_string(single));
    else if (access(index, F_OK) == 0)
        code = open_index(st, folder, index);
    else
        code = error_user("%s: contains neither " SAFETENSORS_SINGLE " nor " SAFETENSORS_INDEX
                          "; save weights of other forms (pytorch_model.bin) as safetensors first",
                          folder);
    free(single);
    free(index);
    return code;
}

int safetensors_open(struct safetensors **out, const char *where)
{
    struct stat status;
    *out = NULL;
    if (stat(where, &status) != 0)
        return error_user("%s: cannot be opened: %s", where, path_failure(where, errno));
    struct safetensors *st = memory_allocate(sizeof *st);
    int code = S_ISDIR(status.st_mode) ? open_folder(st, where) : add_file(st, memory_string(where));
    if (code != ERROR_NONE) {
        safetensors_close(st);
        return code;
    }
    qsort(st->entries, (size_t)st->count, sizeof *st->entries, compare_names);
    *out = st;
    return ERROR_NONE;
}

void safetensors_close(struct safetensors *st)
{
    if (st == NULL)
        return;
    for (int64_t i = 0; i < st->count; i++)
        free(st->entries[i].name);
    for (int i = 0; i < st->file_count; i++) {
        close(st->files[i].descriptor);
        free(st->files[i].path);
    }
    free(st->entries);
    free(st->files);
    memory_free(st);
}

const struct safetensors_entry *safetensors_find(const struct safetensors *st, const char *name)
{
    const struct safetensors_entry key = {.name = (char *)name};
    return bsearch(&key, st->entries, (size_t)st->count, sizeof *st->entries, compare_names);
}

const char *safetensors_path(const struct safetensors *st, const struct safetensors_entry *entry)
{
    return st->files[entry->file].path;
}

int safetensors_read(const struct safetensors *st, const struct safetensors_entry *entry, int64_t offset, int64_t bytes,
                     void *buffer)
{
    CHECK_BUG(offset >= 0 && bytes >= 0 && offset <= entry->bytes - bytes);
    const struct safetensors_file *file = &st->files[entry->file];
    return file_read(file->descriptor, file->path, buffer, bytes, entry->position + offset);
}
