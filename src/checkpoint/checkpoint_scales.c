/* Writes and reads the state of delayed scaling in a checkpoint; the datasets have the shapes of
 * engine/delayed_scaling.h. */
#include "base/error.h"
#include "checkpoint/checkpoint_private.h"
#include "file/hdf5_layout.h"
#include "engine/engine.h"

#include <string.h>

static const char GROUP[] = "state/precision";

enum { NUMBERS = 3 };
static const char *const names[NUMBERS] = {"history", "scale", "largest"};

static struct tensor number_of(const struct delayed_scaling *scaling, int i)
{
    const struct tensor numbers[NUMBERS] = {scaling->history, scaling->scale, scaling->largest};
    return numbers[i];
}

/* Returns the number of dimensions: 2 for the history, 1 for one number per operand. */
static int dimensions_of(const struct tensor *x, int i, hsize_t dims[2])
{
    int count = 0;
    dims[count++] = (hsize_t)x->rows;
    if (i == 0)
        dims[count++] = (hsize_t)x->cols;
    return count;
}

/* -- Writing ----------------------------------------------------------------------------------------------------- */

static bool write_number(hid_t group, const struct tensor *x, int i)
{
    hsize_t dims[2];
    hid_t space = H5Screate_simple(dimensions_of(x, i, dims), dims, NULL), plan = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_obj_track_times(plan, false); /* so that equal content makes equal files */
    hid_t type = checkpoint_type(x->dtype),
          dataset = H5Dcreate2(group, names[i], type, space, H5P_DEFAULT, plan, H5P_DEFAULT);
    H5Pclose(plan);
    H5Sclose(space);
    if (dataset < 0)
        return false;
    bool good = H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, x->data) >= 0;
    return H5Dclose(dataset) >= 0 && good;
}

bool checkpoint_write_scales(hid_t file, const struct delayed_scaling *host)
{
    if (!delayed_scaling_present(host))
        return true;
    hid_t group = hdf5_layout_group(file, GROUP);
    bool good = group >= 0;
    for (int i = 0; i < NUMBERS && good; i++) {
        const struct tensor x = number_of(host, i);
        good = write_number(group, &x, i);
    }
    return group >= 0 && H5Gclose(group) >= 0 && good;
}

int64_t checkpoint_scales_bytes(const struct delayed_scaling *host)
{
    int64_t bytes = 0;
    for (int i = 0; i < NUMBERS && delayed_scaling_present(host); i++) {
        const struct tensor x = number_of(host, i);
        bytes += tensor_extent(&x) + HDF5_LAYOUT_DATASET;
    }
    return bytes;
}

/* -- Reading ----------------------------------------------------------------------------------------------------- */

bool checkpoint_has_scales(hid_t file)
{
    return hdf5_has(file, GROUP);
}

/* Reads a dataset into x if it has x's shape; *fits: it has. */
static int read_number(hid_t group, const char *path, const struct tensor *x, int i, bool *fits)
{
    hsize_t wanted[2], dims[H5S_MAX_RANK];
    hid_t dataset = hdf5_open_dataset(group, names[i]);
    if (dataset < 0)
        return error_user("%s: /%s/%s: is missing, or %s", path, GROUP, names[i], hdf5_foreign);
    hid_t space = H5Dget_space(dataset), type = H5Dget_type(dataset);
    const int count = dimensions_of(x, i, wanted);
    *fits = H5Sget_simple_extent_ndims(space) == count && H5Sget_simple_extent_dims(space, dims, NULL) == count &&
            memcmp(wanted, dims, (size_t)count * sizeof *dims) == 0;
    const bool good = !*fits || (H5Tget_class(type) == H5T_FLOAT && H5Dread(dataset, checkpoint_type(x->dtype), H5S_ALL,
                                                                            H5S_ALL, H5P_DEFAULT, x->data) >= 0);
    H5Tclose(type);
    H5Sclose(space);
    H5Dclose(dataset);
    return good ? ERROR_NONE : error_user("%s: /%s/%s: has no numbers that HDF5 can read", path, GROUP, names[i]);
}

/* Reads all of the file's numbers into `host`, a host copy of the engine's state. */
static int read_numbers(hid_t group, const char *path, const struct delayed_scaling *host, bool *fits)
{
    int code = ERROR_NONE;
    *fits = true;
    for (int i = 0; i < NUMBERS && *fits && code == ERROR_NONE; i++) {
        const struct tensor x = number_of(host, i);
        code = read_number(group, path, &x, i, fits);
    }
    return code;
}

/* Reads the file's numbers into `read` on rank 0; *fits: file and engine agree. */
static int read_file(const char *path, const struct delayed_scaling *own, const struct delayed_scaling *read,
                     bool *fits)
{
    hid_t file;
    *fits = false;
    int code = checkpoint_open(&file, path);
    if (code != ERROR_NONE)
        return code;
    if (checkpoint_has_scales(file)) {
        hid_t group = hdf5_open_group(file, GROUP);
        code = group < 0 ? error_user("%s: /%s is not a group", path, GROUP) : read_numbers(group, path, read, fits);
        *fits = code == ERROR_NONE && *fits &&
                memcmp(own->largest.data, read->largest.data, (size_t)tensor_extent(&own->largest)) == 0;
        if (group >= 0)
            H5Gclose(group);
    }
    H5Fclose(file);
    return code;
}

int checkpoint_read_scales(struct comm *world, const char *path, struct engine *engine)
{
    struct stream *stream = &engine->streams[STREAM_COMPUTE];
    struct delayed_scaling *scaling = &engine->scaling;
    if (!delayed_scaling_present(scaling))
        return ERROR_NONE;
    struct delayed_scaling own = delayed_scaling_fetch(scaling, stream), read = delayed_scaling_fetch(scaling, stream);
    bool fits = false;
    int code = comm_share(world, world->rank == 0 ? read_file(path, &own, &read, &fits) : ERROR_NONE);
    comm_broadcast(world, &fits, sizeof fits, 0);
    if (code == ERROR_NONE && fits) {
        for (int i = 0; i < NUMBERS; i++) {
            const struct tensor x = number_of(&read, i);
            comm_broadcast(world, x.data, tensor_extent(&x), 0);
        }
        delayed_scaling_put(scaling, &read, stream);
    }
    delayed_scaling_host_destroy(&own);
    delayed_scaling_host_destroy(&read);
    return code;
}
