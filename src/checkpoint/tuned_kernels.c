#include "checkpoint/tuned_kernels.h"
#include "base/error.h"
#include "base/memory.h"
#include "core/tuned_kernels.h"
#include "file/hdf5_file.h"
#include "file/hdf5_layout.h"

static const char GROUP[] = "state", NAME[] = "choices";

static int read_dataset(hid_t group, const char *path, void **data, int64_t *bytes)
{
    hid_t dataset = hdf5_open_dataset(group, NAME);
    *bytes = dataset >= 0 ? hdf5_count_bytes(dataset) : -1;
    bool good = *bytes > 0 && *bytes <= (int64_t)sizeof(struct tuning_table);
    if (good) {
        *data = memory_allocate(*bytes);
        good = H5Dread(dataset, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, *data) >= 0;
    }
    if (dataset >= 0)
        H5Dclose(dataset);
    return good ? ERROR_NONE : error_user("%s: /%s/%s: are not tuned kernels", path, GROUP, NAME);
}

static int read_group(hid_t file, const char *path, void **data, int64_t *bytes)
{
    if (!hdf5_has(file, GROUP))
        return ERROR_NONE;
    hid_t group = hdf5_open_group(file, GROUP);
    if (group < 0)
        return error_user("%s: /%s is not a group", path, GROUP);
    int code = hdf5_has(group, NAME) ? read_dataset(group, path, data, bytes) : ERROR_NONE;
    H5Gclose(group);
    return code;
}

int tuned_kernels_read(const char *path, void **data, int64_t *bytes)
{
    struct hdf5_silence silence;
    hid_t file;
    *data = NULL;
    *bytes = 0;
    hdf5_silence_begin(&silence);
    int code = hdf5_open(&file, path);
    if (code == ERROR_NONE) {
        code = read_group(file, path, data, bytes);
        H5Fclose(file);
    }
    hdf5_silence_end(&silence);
    if (code != ERROR_NONE) {
        memory_free(*data);
        *data = NULL;
        *bytes = 0;
    }
    return code;
}

bool tuned_kernels_write(hid_t file, const void *data, int64_t bytes)
{
    if (bytes == 0)
        return true;
    hid_t group = hdf5_open_group(file, GROUP);
    hid_t dataset = group >= 0 ? hdf5_write_bytes(group, NAME, data, bytes) : -1;
    bool good = dataset >= 0 && H5Dclose(dataset) >= 0;
    return group >= 0 && H5Gclose(group) >= 0 && good;
}
