#include "file/hdf5_member.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

const char hdf5_foreign[] =
    "is a link, or has its data in another file or in a form that HDF5 without plugins cannot read";

/* Returns whether the path exists and all links before its last are hard links; with `ordinary`, the last link must be
 * a hard link too. */
static bool leads(hid_t group, const char *name, bool ordinary)
{
    char *path = memory_string(name);
    bool good = true;
    for (char *end = path; end != NULL && good;) {
        H5L_info_t link;
        end = strchr(end, '/');
        if (end != NULL)
            *end = '\0';
        good = H5Lexists(group, path, H5P_DEFAULT) > 0 && H5Lget_info(group, path, &link, H5P_DEFAULT) >= 0 &&
               (link.type == H5L_TYPE_HARD || (end == NULL && !ordinary));
        if (end != NULL)
            *end++ = '/';
    }
    free(path);
    return good;
}

bool hdf5_has(hid_t group, const char *name)
{
    return leads(group, name, false);
}

hid_t hdf5_open_group(hid_t group, const char *name)
{
    return leads(group, name, true) ? H5Gopen2(group, name, H5P_DEFAULT) : -1;
}

static bool is_plain(hid_t dataset)
{
    hid_t plan = H5Dget_create_plist(dataset);
    if (plan < 0)
        return false;
    const H5D_layout_t layout = H5Pget_layout(plan);
    const int filters = H5Pget_nfilters(plan);
    bool plain = (layout == H5D_CONTIGUOUS || layout == H5D_COMPACT || layout == H5D_CHUNKED) && filters >= 0 &&
                 H5Pget_external_count(plan) == 0;
    for (int i = 0; i < filters && plain; i++) {
        size_t values = 0;
        unsigned flags, settings;
        H5Z_filter_t filter = H5Pget_filter2(plan, (unsigned)i, &flags, &values, NULL, 0, NULL, &settings);
        plain = filter >= 0 && filter < H5Z_FILTER_RESERVED;
    }
    H5Pclose(plan);
    return plain;
}

hid_t hdf5_open_dataset(hid_t group, const char *name)
{
    hid_t dataset = leads(group, name, true) ? H5Dopen2(group, name, H5P_DEFAULT) : -1;
    if (dataset < 0 || is_plain(dataset))
        return dataset;
    H5Dclose(dataset);
    return -1;
}

bool hdf5_write_attribute(hid_t object, const char *name, hid_t stored, hid_t given, const void *value)
{
    hid_t space = H5Screate(H5S_SCALAR);
    hid_t attribute = H5Acreate2(object, name, stored, space, H5P_DEFAULT, H5P_DEFAULT);
    bool good = attribute >= 0 && H5Awrite(attribute, given, value) >= 0;
    if (attribute >= 0)
        H5Aclose(attribute);
    H5Sclose(space);
    return good;
}

int64_t hdf5_count_bytes(hid_t dataset)
{
    hid_t space = H5Dget_space(dataset), type = H5Dget_type(dataset);
    bool bytes = H5Sget_simple_extent_ndims(space) == 1 && H5Tget_class(type) == H5T_INTEGER && H5Tget_size(type) == 1;
    int64_t count = bytes ? (int64_t)H5Sget_simple_extent_npoints(space) : -1;
    H5Tclose(type);
    H5Sclose(space);
    return count;
}

hid_t hdf5_write_bytes(hid_t group, const char *name, const void *data, int64_t bytes)
{
    const hsize_t extent = (hsize_t)bytes;
    hid_t space = H5Screate_simple(1, &extent, NULL);
    hid_t plan = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_obj_track_times(plan, false); /* equal content gives identical files */
    hid_t dataset = H5Dcreate2(group, name, H5T_STD_U8LE, space, H5P_DEFAULT, plan, H5P_DEFAULT);
    H5Pclose(plan);
    H5Sclose(space);
    if (dataset < 0 || H5Dwrite(dataset, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0)
        return dataset;
    H5Dclose(dataset);
    return -1;
}
