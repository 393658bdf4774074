/* HDF5 files whose data this program writes itself, with plain writes into contiguous datasets. HDF5 fails if the disk
 * fills up while it writes (1.10 crashes at exit and keeps the file's memory). So HDF5 never writes to the disk: it
 * lays the file out in memory, with holes for the data of the datasets, and its metadata are copied to the file. */
#ifndef FILE_HDF5_LAYOUT_H
#define FILE_HDF5_LAYOUT_H

#include <hdf5.h>
#include <stdbool.h>
#include <stdint.h>

/* Writes the file to an open, empty descriptor and sets its size. `create` makes all groups, attributes and datasets
 * (with hdf5_layout_dataset), and returns false on failure. most: upper bound of the file's bytes, with
 * HDF5_LAYOUT_FIXED and HDF5_LAYOUT_DATASET for each dataset as a generous estimate of HDF5's metadata. path: for
 * messages. Local. ERROR_ENVIRONMENT. */
enum { HDF5_LAYOUT_FIXED = 1 << 16, HDF5_LAYOUT_DATASET = 4096 };
int hdf5_layout_write(int descriptor, const char *path, int64_t most, bool (*create)(hid_t file, void *self),
                      void *self);

/* Writes the file again, except the bytes of `blocks`, which it sorts. `create` makes the same datasets, and attributes
 * of the same sizes. ERROR_ENVIRONMENT. */
struct block_list;
int hdf5_layout_rewrite(int descriptor, const char *path, struct block_list *blocks,
                        bool (*create)(hid_t file, void *self), void *self);

/* Creates a group without the timestamps of HDF5, so that equal content gives identical files. */
hid_t hdf5_layout_group(hid_t file, const char *name);

/* Creates a contiguous dataset and allocates its space in the file without writing to it. *offset: bytes from the start
 * of the file to the data. extent[dims]: each > 0. Returns false on failure. */
bool hdf5_layout_dataset(hid_t file, const char *name, hid_t type, int dims, const hsize_t *extent, int64_t *offset);

#endif
