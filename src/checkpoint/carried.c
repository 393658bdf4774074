#include "checkpoint/carried.h"
#include "base/error.h"
#include "base/memory.h"
#include "file/hdf5_file.h"
#include "file/hdf5_layout.h"
#include "checkpoint/safetensors_dtype.h"

#include <stdlib.h>
#include <string.h>

static const char GROUP[] = "carried", CONFIG_ENDS[] = "end_tokens", GENERATION_ENDS[] = "generation_end_tokens";

/* Returns whether the bytes match shape and element type. */
static bool fits(const struct carried_tensor *t, enum safetensors_dtype dtype)
{
    bool good = t->dims >= 0 && t->dims <= CARRIED_DIMS;
    for (int i = 0; i < t->dims && good; i++)
        good = t->shape[i] >= 0;
    return good && t->bytes >= 0 && safetensors_dtype_bytes(dtype, t->dims, t->shape) == t->bytes;
}

static bool is_name(const char *name)
{
    return name[0] != '\0' && strcmp(name, ".") != 0 && strchr(name, '/') == NULL && strlen(name) < CARRIED_NAME_BYTES;
}

static bool has(const struct carried_files *carried, const char *name)
{
    for (int i = 0; i < carried->count; i++)
        if (strcmp(carried->tensors[i].name, name) == 0)
            return true;
    return false;
}

int carried_add(struct carried_files *carried, const char *origin, const struct carried_tensor *like)
{
    enum safetensors_dtype dtype;
    if (!is_name(like->name))
        return error_user("%s: \"%.80s\" cannot be carried: its name must have 1 to %d bytes, none of them '/'", origin,
                          like->name, CARRIED_NAME_BYTES - 1);
    if (carried->count == CARRIED_MOST)
        return error_user("%s: has more than %d tensors to carry along, the maximum", origin, CARRIED_MOST);
    if (has(carried, like->name))
        return error_user("%s: %s: is carried twice", origin, like->name);
    if (!safetensors_dtype_find(like->dtype, &dtype))
        return error_user("%s: %s: cannot be carried: its element type %s is unknown", origin, like->name, like->dtype);
    if (!fits(like, dtype))
        return error_user("%s: %s: has %lld bytes, which do not match its shape and element type %s", origin,
                          like->name, (long long)like->bytes, like->dtype);
    if (like->bytes > CARRIED_MOST_BYTES - carried_bytes(carried))
        return error_user("%s: %s: exceeds the %d MiB that all carried tensors may have", origin, like->name,
                          CARRIED_MOST_BYTES >> 20);
    carried->tensors = memory_grow(carried->tensors, (carried->count + 1) * (int64_t)sizeof *carried->tensors);
    struct carried_tensor *t = &carried->tensors[carried->count++];
    *t = *like;
    t->name = memory_string(like->name);
    t->data = memory_allocate(like->bytes);
    return ERROR_NONE;
}

void carried_destroy(struct carried_files *carried)
{
    for (int i = 0; i < carried->count; i++) {
        free(carried->tensors[i].name);
        memory_free(carried->tensors[i].data);
    }
    free(carried->tensors);
    *carried = (struct carried_files){0};
}

int64_t carried_bytes(const struct carried_files *carried)
{
    int64_t bytes = 0;
    for (int i = 0; i < carried->count; i++)
        bytes += carried->tensors[i].bytes;
    return bytes;
}

/* -- Reading ----------------------------------------------------------------------------------------------------- */

/* Reads dtype, shape and bytes of a dataset. Returns false if it cannot be a carried tensor. */
static bool describe(hid_t dataset, struct carried_tensor *t)
{
    char *dtype = hdf5_read_text(dataset, "dtype");
    bool good = dtype != NULL && strlen(dtype) < sizeof t->dtype;
    if (good)
        strcpy(t->dtype, dtype);
    free(dtype);
    t->bytes = hdf5_count_bytes(dataset);
    t->dims = (int)hdf5_read_integers(dataset, "shape", t->shape, CARRIED_DIMS);
    return good && t->bytes >= 0 && (t->dims > 0 || H5Aexists(dataset, "shape") == 0);
}

static int read_tensor(hid_t group, const char *path, char *name, struct carried_files *carried)
{
    struct carried_tensor t = {.name = name};
    hid_t dataset = hdf5_open_dataset(group, name);
    int code = ERROR_NONE;
    if (dataset < 0 || !describe(dataset, &t))
        code =
            error_user("%s: /%s/%s: is not a carried tensor: bytes with attributes dtype and shape", path, GROUP, name);
    if (code == ERROR_NONE)
        code = carried_add(carried, path, &t);
    if (code == ERROR_NONE && H5Dread(dataset, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                                      carried->tensors[carried->count - 1].data) < 0)
        code = error_user("%s: HDF5 cannot read /%s/%s: it is damaged", path, GROUP, name);
    if (dataset >= 0)
        H5Dclose(dataset);
    return code;
}

static int read_ends(hid_t group, const char *path, const char *name, struct end_tokens *ends)
{
    int64_t ids[END_TOKENS_MOST];
    if (H5Aexists(group, name) == 0)
        return ERROR_NONE;
    const int64_t count = hdf5_read_integers(group, name, ids, END_TOKENS_MOST);
    bool good = count > 0;
    for (int64_t i = 0; i < count && good; i++) {
        good = ids[i] >= 0 && ids[i] <= INT32_MAX;
        ends->ids[ends->count++] = (int32_t)ids[i];
    }
    return good ? ERROR_NONE : error_user("%s: /%s: attribute %s is not a list of token ids", path, GROUP, name);
}

static int read_all(hid_t file, const char *path, struct carried_files *carried)
{
    if (!hdf5_has(file, GROUP))
        return ERROR_NONE;
    hid_t group = hdf5_open_group(file, GROUP);
    if (group < 0)
        return error_user("%s: /%s is not a group", path, GROUP);
    int64_t count;
    int code = read_ends(group, path, CONFIG_ENDS, &carried->ends.config);
    if (code == ERROR_NONE)
        code = read_ends(group, path, GENERATION_ENDS, &carried->ends.generation);
    char **names = hdf5_list(group, &count);
    for (int64_t i = 0; i < count && code == ERROR_NONE; i++)
        code = read_tensor(group, path, names[i], carried);
    hdf5_strings_free(names, count);
    H5Gclose(group);
    return code;
}

int carried_read(const char *path, struct carried_files *carried)
{
    struct hdf5_silence silence;
    hid_t file;
    *carried = (struct carried_files){0};
    hdf5_silence_begin(&silence);
    int code = hdf5_open(&file, path);
    if (code == ERROR_NONE) {
        code = read_all(file, path, carried);
        H5Fclose(file);
    }
    hdf5_silence_end(&silence);
    if (code != ERROR_NONE)
        carried_destroy(carried);
    return code;
}

/* -- Writing ----------------------------------------------------------------------------------------------------- */

static bool write_tensor(hid_t group, const struct carried_tensor *t)
{
    hid_t dataset = hdf5_write_bytes(group, t->name, t->data, t->bytes);
    if (dataset < 0)
        return false;
    bool good = hdf5_write_text(dataset, "dtype", t->dtype) &&
                (t->dims == 0 || hdf5_write_integers(dataset, "shape", t->shape, t->dims));
    return H5Dclose(dataset) >= 0 && good;
}

static bool write_ends(hid_t group, const char *name, const struct end_tokens *ends)
{
    int64_t ids[END_TOKENS_MOST];
    for (int i = 0; i < ends->count; i++)
        ids[i] = ends->ids[i];
    return ends->count == 0 || hdf5_write_integers(group, name, ids, ends->count);
}

bool carried_write(hid_t file, const struct carried_files *carried)
{
    const struct model_ends *ends = &carried->ends;
    if (carried->count + ends->config.count + ends->generation.count == 0)
        return true;
    hid_t group = hdf5_layout_group(file, GROUP);
    bool good = group >= 0 && write_ends(group, CONFIG_ENDS, &ends->config) &&
                write_ends(group, GENERATION_ENDS, &ends->generation);
    for (int i = 0; i < carried->count && good; i++)
        good = write_tensor(group, &carried->tensors[i]);
    return group >= 0 && H5Gclose(group) >= 0 && good;
}
