#include "data/tokenizer_member.h"
#include "base/error.h"
#include "base/memory.h"
#include "file/hdf5_member.h"
#include "file/hdf5_open.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const char GROUP[] = "tokenizer";

static const struct {
    const char *name;
    size_t offset;
} ids[] = {{"bos", offsetof(struct tokenizer, bos)},
           {"eos", offsetof(struct tokenizer, eos)},
           {"pad", offsetof(struct tokenizer, pad)},
           {"unk", offsetof(struct tokenizer, unk)},
           {"mask", offsetof(struct tokenizer, mask)}};
enum { IDS = sizeof ids / sizeof *ids, FIRST_OPTIONAL = IDS - 1 /* stores of earlier versions have no `mask` */ };

bool tokenizer_member_write(hid_t file, const struct tokenizer *tokenizer)
{
    if (!tokenizer_is_text(tokenizer))
        return true;
    hid_t plan = H5Pcreate(H5P_GROUP_CREATE);
    H5Pset_obj_track_times(plan, false); /* no times, so that equal content gives equal files */
    hid_t group = H5Gcreate2(file, GROUP, H5P_DEFAULT, plan, H5P_DEFAULT);
    H5Pclose(plan);
    bool good = group >= 0;
    for (int i = 0; i < IDS && good; i++)
        good = hdf5_write_attribute(group, ids[i].name, H5T_STD_I32LE, H5T_NATIVE_INT32,
                                    (const char *)tokenizer + ids[i].offset);
    for (int kind = 0; kind < BUNDLE_KINDS && good; kind++) {
        const void *data = tokenizer->bundle.files[kind].data;
        hid_t dataset =
            data != NULL ? hdf5_write_bytes(group, bundle_names[kind], data, tokenizer->bundle.files[kind].bytes) : -1;
        good = data == NULL || (dataset >= 0 && H5Dclose(dataset) >= 0);
    }
    return group >= 0 && H5Gclose(group) >= 0 && good;
}

static bool read_id(hid_t group, const char *name, int64_t vocabulary, int32_t *id)
{
    hid_t attribute = H5Aexists(group, name) > 0 ? H5Aopen(group, name, H5P_DEFAULT) : -1;
    if (attribute < 0)
        return false;
    hid_t space = H5Aget_space(attribute);
    bool good = H5Sget_simple_extent_npoints(space) == 1 && H5Aread(attribute, H5T_NATIVE_INT32, id) >= 0;
    H5Sclose(space);
    H5Aclose(attribute);
    return good && *id >= -1 && *id < vocabulary;
}

bool tokenizer_member_describe(hid_t file, struct tokenizer *tokenizer)
{
    hid_t group = hdf5_has(file, GROUP) ? hdf5_open_group(file, GROUP) : -1;
    bool good = group >= 0;
    tokenizer->mask = -1;
    for (int i = 0; i < IDS && good; i++)
        good = (i >= FIRST_OPTIONAL && H5Aexists(group, ids[i].name) <= 0) ||
               read_id(group, ids[i].name, tokenizer->vocabulary, (int32_t *)((char *)tokenizer + ids[i].offset));
    if (group >= 0)
        H5Gclose(group);
    return good;
}

/* Reads a file of the group into the bundle, if it is there. Returns false if it cannot be read. */
static bool read_member(hid_t group, enum bundle_kind kind, struct tokenizer_bundle *bundle)
{
    if (!hdf5_has(group, bundle_names[kind]))
        return true;
    hid_t dataset = hdf5_open_dataset(group, bundle_names[kind]);
    const int64_t bytes = dataset >= 0 ? hdf5_count_bytes(dataset) : -1;
    bool good = bytes > 0 && bytes <= BUNDLE_BYTES;
    if (good) {
        void *data = memory_allocate(bytes);
        good = H5Dread(dataset, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0;
        bundle_put(bundle, kind, data, bytes);
        memory_free(data);
    }
    if (dataset >= 0)
        H5Dclose(dataset);
    return good;
}

static bool read_members(hid_t file, struct tokenizer_bundle *bundle)
{
    hid_t group = hdf5_has(file, GROUP) ? hdf5_open_group(file, GROUP) : -1;
    bool good = group >= 0;
    for (int kind = 0; kind < BUNDLE_KINDS && good; kind++)
        good = read_member(group, (enum bundle_kind)kind, bundle);
    if (group >= 0)
        H5Gclose(group);
    return good && bundle_bytes(bundle) > 0;
}

static int read_bundle(const char *path, const char *name, struct tokenizer_bundle *bundle)
{
    struct hdf5_silence silence;
    hid_t file;
    hdf5_silence_begin(&silence);
    int code = hdf5_open(&file, path);
    if (code == ERROR_NONE && !read_members(file, bundle))
        code = error_user("%s: does not contain its tokenizer, %s, which is not built in either (built in: %s)", path,
                          name, tokenizer_names());
    if (file >= 0)
        H5Fclose(file);
    hdf5_silence_end(&silence);
    return code;
}

int tokenizer_member_open(const struct tokenizer **tokenizer, const char *path, const char *name)
{
    struct tokenizer_bundle bundle = {0};
    *tokenizer = tokenizer_find(name);
    if (*tokenizer != NULL)
        return ERROR_NONE;
    char *where = memory_format("%s: /%s", path, GROUP);
    int code = read_bundle(path, name, &bundle);
    if (code == ERROR_NONE)
        code = tokenizer_open_bundle(tokenizer, &bundle, where);
    if (code == ERROR_NONE && strcmp((*tokenizer)->name, name) != 0) {
        code = error_user("%s: has the tokenizer %s, not %s", where, (*tokenizer)->name, name);
        tokenizer_close(*tokenizer);
        *tokenizer = NULL;
    }
    free(where);
    bundle_destroy(&bundle);
    return code;
}
