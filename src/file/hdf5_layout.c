#include "file/hdf5_layout.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"
#include "file/block.h"
#include "file/file.h"
#include "file/hdf5_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

hid_t hdf5_layout_group(hid_t file, const char *name)
{
    hid_t plan = H5Pcreate(H5P_GROUP_CREATE);
    H5Pset_obj_track_times(plan, false);
    hid_t group = H5Gcreate2(file, name, H5P_DEFAULT, plan, H5P_DEFAULT);
    H5Pclose(plan);
    return group;
}

bool hdf5_layout_dataset(hid_t file, const char *name, hid_t type, int dims, const hsize_t *extent, int64_t *offset)
{
    hid_t space = H5Screate_simple(dims, extent, NULL), plan = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_layout(plan, H5D_CONTIGUOUS);
    H5Pset_alloc_time(plan, H5D_ALLOC_TIME_EARLY);
    H5Pset_fill_time(plan, H5D_FILL_TIME_NEVER);
    H5Pset_obj_track_times(plan, false); /* equal content gives identical files */
    hid_t dataset = H5Dcreate2(file, name, type, space, H5P_DEFAULT, plan, H5P_DEFAULT);
    H5Pclose(plan);
    H5Sclose(space);
    if (dataset < 0)
        return false;
    haddr_t where = H5Dget_offset(dataset);
    *offset = (int64_t)where;
    return H5Dclose(dataset) >= 0 && where != HADDR_UNDEF;
}

static int copy_range(int from, int to, const char *path, int64_t offset, int64_t bytes)
{
    enum { COPY_BYTES = 1 << 20 };
    char *buffer = memory_allocate(MIN(bytes, COPY_BYTES));
    int code = ERROR_NONE;
    for (int64_t done = 0; done < bytes && code == ERROR_NONE; done += COPY_BYTES) {
        const int64_t count = MIN(bytes - done, COPY_BYTES);
        code = file_read(from, "the layout in memory", buffer, count, offset + done);
        if (code == ERROR_NONE)
            code = file_write(to, path, buffer, count, offset + done);
    }
    memory_free(buffer);
    return code;
}

/* Copies the written ranges of a sparse file, without its holes, and sets the size of the copy. */
static int copy_sparse(int from, int to, const char *path)
{
    int code = ERROR_NONE;
    if (ftruncate(to, lseek(from, 0, SEEK_END)) != 0)
        code = error_environment("%s: cannot set its size: %s", path, strerror(errno));
    off_t end = 0, at;
    while (code == ERROR_NONE && (at = lseek(from, end, SEEK_DATA)) >= 0) {
        end = lseek(from, at, SEEK_HOLE);
        code = copy_range(from, to, path, at, end - at);
    }
    return code;
}

/* Copies the ranges between the blocks. */
static int copy_gaps(int from, int to, const char *path, struct block_list *blocks)
{
    const int64_t end = lseek(from, 0, SEEK_END);
    int64_t covered = 0;
    int code = ERROR_NONE;
    block_list_sort(blocks);
    for (int64_t i = 0; i <= blocks->count && code == ERROR_NONE; i++) {
        const int64_t next = i < blocks->count ? blocks->blocks[i].offset : end;
        if (next > covered)
            code = copy_range(from, to, path, covered, next - covered);
        if (i < blocks->count)
            covered = next + blocks->blocks[i].length;
    }
    return code;
}

/* Makes the layout as a sparse file in memory, outside any file system that may be full. Returns its descriptor, or -1.
 */
static int lay_out_in_memory(bool (*create)(hid_t file, void *self), void *self)
{
    char path[32];
    int descriptor = memfd_create("cistron-layout", MFD_CLOEXEC);
    if (descriptor < 0)
        return -1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    struct hdf5_silence silence;
    hdf5_silence_begin(&silence);
    /* the format of 1.8 has checksums of HDF5's own structures, and attributes above 64 KiB */
    hid_t access = hdf5_access();
    H5Pset_fapl_stdio(access); /* the default driver would resolve the link in /proc */
    H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_V18);
    hid_t plan = H5Pcreate(H5P_FILE_CREATE);
    H5Pset_obj_track_times(plan, false); /* the root group has no timestamps either */
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, plan, access);
    bool good = file >= 0 && create(file, self);
    if (file >= 0)
        good = H5Fclose(file) >= 0 && good;
    H5Pclose(plan);
    H5Pclose(access);
    hdf5_silence_end(&silence);
    if (!good)
        close(descriptor);
    return good ? descriptor : -1;
}

int hdf5_layout_write(int descriptor, const char *path, int64_t most, bool (*create)(hid_t file, void *self),
                      void *self)
{
    /* a file size limit (ulimit) would also apply in memory, so check it first */
    if (ftruncate(descriptor, most) != 0)
        return error_environment("%s: cannot be extended to %lld bytes: %s", path, (long long)most, strerror(errno));
    int layout = lay_out_in_memory(create, self);
    if (layout < 0)
        return error_environment("%s: HDF5 cannot lay the file out in memory", path);
    int code = copy_sparse(layout, descriptor, path);
    close(layout);
    return code;
}

int hdf5_layout_rewrite(int descriptor, const char *path, struct block_list *blocks,
                        bool (*create)(hid_t file, void *self), void *self)
{
    int layout = lay_out_in_memory(create, self);
    if (layout < 0)
        return error_environment("%s: HDF5 cannot lay the file out in memory", path);
    int code = copy_gaps(layout, descriptor, path, blocks);
    close(layout);
    return code;
}
