#include "bridge/safetensors_header.h"
#include "base/error.h"
#include "base/memory.h"
#include "file/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8 };

/* The beginning of the pointer file that git leaves instead of a large file if git-lfs did not fetch it. */
static const char git_lfs_note[] = "version ";

const char *safetensors_header_plain(char out[SAFETENSORS_PLAIN_BYTES], const char *text)
{
    snprintf(out, SAFETENSORS_PLAIN_BYTES, "%s", text);
    for (char *c = out; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            *c = '?';
    return out;
}

int safetensors_header_object(json_t **object, int descriptor, const char *path, int64_t offset, int64_t bytes)
{
    char *text = memory_grow(NULL, bytes), said[SAFETENSORS_PLAIN_BYTES];
    json_error_t error;
    int code = file_read(descriptor, path, text, bytes, offset);
    if (code == ERROR_NONE && (bytes == 0 || text[0] != '{'))
        code = error_user("%s: has no JSON object where one must begin", path);
    if (code == ERROR_NONE && (*object = json_loadb(text, (size_t)bytes, JSON_REJECT_DUPLICATES, &error)) == NULL)
        code = error_user("%s: its JSON is damaged at byte %d: %s", path, error.position,
                          safetensors_header_plain(said, error.text));
    free(text);
    return code;
}

/* Records an error about a tensor: file, name, what. */
static int refuse(const char *path, const char *name, const char *what)
{
    char plain[SAFETENSORS_PLAIN_BYTES];
    return error_user("%s: tensor %s: %s", path, safetensors_header_plain(plain, name), what);
}

static int read_dtype(struct safetensors_entry *entry, const char *path, const char *name, const json_t *value)
{
    char plain[SAFETENSORS_PLAIN_BYTES], known[128] = "", what[SAFETENSORS_PLAIN_BYTES + 200];
    const char *text = json_string_value(value);
    if (text == NULL)
        return refuse(path, name, "dtype must be a string");
    if (safetensors_dtype_find(text, &entry->dtype))
        return ERROR_NONE;
    for (int dtype = 0; dtype < SAFETENSORS_DTYPES; dtype++)
        strcat(strcat(known, dtype == 0 ? "" : ", "), safetensors_dtype_name(dtype));
    snprintf(what, sizeof what, "dtype \"%s\" is unknown; known: %s", safetensors_header_plain(plain, text), known);
    return refuse(path, name, what);
}

/* Reads an array of `count` integers that are at least 0. */
static bool read_integers(int64_t *out, size_t count, const json_t *array)
{
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(array, i);
        if (!json_is_integer(item) || json_integer_value(item) < 0)
            return false;
        out[i] = json_integer_value(item);
    }
    return true;
}

static int read_entry(struct safetensors_entry *entry, const char *path, const char *name, const json_t *value,
                      int64_t data_bytes)
{
    const json_t *shape = json_object_get(value, "shape"), *offsets = json_object_get(value, "data_offsets");
    int64_t range[2];
    char plain[SAFETENSORS_PLAIN_BYTES], what[200];
    if (strcmp(name, safetensors_header_plain(plain, name)) != 0)
        return refuse(path, name, "its name is too long, or has a control character");
    if (!json_is_object(value))
        return refuse(path, name, "must be an object with dtype, shape and data_offsets");
    int code = read_dtype(entry, path, name, json_object_get(value, "dtype"));
    if (code != ERROR_NONE)
        return code;
    if (!json_is_array(shape) || json_array_size(shape) > SAFETENSORS_MAX_DIMS ||
        !read_integers(entry->shape, json_array_size(shape), shape))
        return refuse(path, name, "shape must be an array of at most 8 integers, none negative");
    entry->dims = (int)json_array_size(shape);
    if (!json_is_array(offsets) || json_array_size(offsets) != 2 || !read_integers(range, 2, offsets))
        return refuse(path, name, "data_offsets must be an array of 2 integers, none negative");
    if (range[0] > range[1])
        return refuse(path, name, "data_offsets end before they begin");
    if (range[1] > data_bytes) {
        snprintf(what, sizeof what, "data_offsets end at %lld, beyond the %lld bytes of data", (long long)range[1],
                 (long long)data_bytes);
        return refuse(path, name, what);
    }
    entry->bytes = safetensors_dtype_bytes(entry->dtype, entry->dims, entry->shape);
    if (entry->bytes < 0)
        return refuse(path, name, "shape needs more bytes than 64 bits can count");
    if (entry->bytes != range[1] - range[0]) {
        snprintf(what, sizeof what, "dtype and shape need %lld bytes, but data_offsets span %lld",
                 (long long)entry->bytes, (long long)(range[1] - range[0]));
        return refuse(path, name, what);
    }
    entry->position = range[0];
    entry->name = memory_string(name);
    return ERROR_NONE;
}

static int compare_positions(const void *a, const void *b)
{
    const struct safetensors_entry *x = a, *y = b;
    return x->position != y->position ? (x->position > y->position) - (x->position < y->position)
                                      : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Checks that the entries, sorted by position, fill the data without gaps or overlaps. */
static int check_tiling(const struct safetensors_header *header, const char *path, int64_t data_bytes)
{
    char what[SAFETENSORS_PLAIN_BYTES + 100];
    int64_t end = 0;
    for (int64_t i = 0; i < header->count; i++) {
        const struct safetensors_entry *entry = &header->entries[i];
        if (entry->position < end) {
            snprintf(what, sizeof what, "its bytes overlap those of tensor %s", header->entries[i - 1].name);
            return refuse(path, entry->name, what);
        }
        if (entry->position > end) {
            snprintf(what, sizeof what, "%lld bytes before it belong to no tensor", (long long)(entry->position - end));
            return refuse(path, entry->name, what);
        }
        end += entry->bytes;
    }
    if (end < data_bytes)
        return error_user("%s: the last %lld bytes belong to no tensor", path, (long long)(data_bytes - end));
    return ERROR_NONE;
}

static int read_metadata(struct safetensors_header *header, const char *path, json_t *value)
{
    const char *key, *digest = json_string_value(json_object_get(value, SAFETENSORS_DIGEST));
    json_t *text;
    bool good = json_is_object(value);
    json_object_foreach(value, key, text) good = good && json_is_string(text);
    header->digest = digest != NULL ? strtoull(digest, NULL, 16) : 0;
    return good ? ERROR_NONE : error_user("%s: " SAFETENSORS_METADATA " must be an object of strings", path);
}

static int read_object(struct safetensors_header *header, const char *path, json_t *object, int64_t data_bytes)
{
    const char *name;
    json_t *value;
    int code = ERROR_NONE;
    header->entries = memory_grow(NULL, (int64_t)json_object_size(object) * (int64_t)sizeof *header->entries);
    json_object_foreach(object, name, value)
    {
        if (strcmp(name, SAFETENSORS_METADATA) == 0)
            code = read_metadata(header, path, value);
        else {
            struct safetensors_entry *entry = &header->entries[header->count];
            *entry = (struct safetensors_entry){NULL};
            code = read_entry(entry, path, name, value, data_bytes);
            header->count += code == ERROR_NONE;
        }
        if (code != ERROR_NONE)
            return code;
    }
    qsort(header->entries, (size_t)header->count, sizeof *header->entries, compare_positions);
    return check_tiling(header, path, data_bytes);
}

static void forget(struct safetensors_header *header)
{
    for (int64_t i = 0; i < header->count; i++)
        free(header->entries[i].name);
    free(header->entries);
    *header = (struct safetensors_header){NULL};
}

int safetensors_header_read(struct safetensors_header *header, int descriptor, const char *path, int64_t file_bytes)
{
    uint8_t field[LENGTH_BYTES];
    uint64_t length = 0;
    json_t *object;
    *header = (struct safetensors_header){NULL};
    if (file_bytes < LENGTH_BYTES)
        return error_user("%s: is not a safetensors file: it has %lld bytes, fewer than the %d of the header's length",
                          path, (long long)file_bytes, LENGTH_BYTES);
    int code = file_read(descriptor, path, field, LENGTH_BYTES, 0);
    if (code != ERROR_NONE)
        return code;
    if (memcmp(field, git_lfs_note, LENGTH_BYTES) == 0)
        return error_user("%s: is a git-lfs pointer, not a safetensors file; git lfs pull fetches the file", path);
    for (int i = LENGTH_BYTES - 1; i >= 0; i--)
        length = length << 8 | field[i];
    if (length == 0 || length > SAFETENSORS_HEADER_BYTES)
        return error_user("%s: is not a safetensors file: its header has %llu bytes, 1 to %d are allowed", path,
                          (unsigned long long)length, SAFETENSORS_HEADER_BYTES);
    if ((int64_t)length > file_bytes - LENGTH_BYTES)
        return error_user("%s: is truncated: its header has %llu bytes, the file %lld", path,
                          (unsigned long long)length, (long long)file_bytes);
    int64_t data = LENGTH_BYTES + (int64_t)length;
    if ((code = safetensors_header_object(&object, descriptor, path, LENGTH_BYTES, (int64_t)length)) != ERROR_NONE)
        return code;
    code = read_object(header, path, object, file_bytes - data);
    json_decref(object);
    if (code != ERROR_NONE)
        forget(header);
    for (int64_t i = 0; i < header->count; i++)
        header->entries[i].position += data;
    return code;
}
