/* HDF5 files whose data this program writes itself, with plain writes into contiguous datasets. HDF5 does not survive a
 * disk that fills up under it (1.10 crashes at exit and keeps the file's memory), so it never sees the disk: it lays
 * the file out in memory, where the datasets' data are holes, and what it wrote is copied. */
#ifndef FILE_HDF5_LAYOUT_H
#define FILE_HDF5_LAYOUT_H

#include <hdf5.h>
#include <stdbool.h>
#include <stdint.h>

/* Writes the file to an open descriptor, empty so far, and gives it its size: `create` makes all groups, attributes and
 * datasets, these with hdf5_layout_dataset; false when something failed. most: bytes of the whole file, with a generous
 * guess at what HDF5 adds (HDF5_LAYOUT_FIXED, and HDF5_LAYOUT_DATASET for each dataset). path: for messages. Local.
 * ERROR_ENVIRONMENT. */
enum { HDF5_LAYOUT_FIXED = 1 << 16, HDF5_LAYOUT_DATASET = 4096 };
int hdf5_layout_write(int descriptor, const char *path, int64_t most, bool (*create)(hid_t file, void *self),
                      void *self);

/* Writes the file again, where `create` makes the same datasets and attributes of the same sizes: all bytes but those
 * of `blocks`, which it sorts. ERROR_ENVIRONMENT. */
struct block_list;
int hdf5_layout_rewrite(int descriptor, const char *path, struct block_list *blocks,
                        bool (*create)(hid_t file, void *self), void *self);

/* Creates a group; the times that HDF5 would note in it are left out, so that the same content is the same file. */
hid_t hdf5_layout_group(hid_t file, const char *name);

/* Creates a contiguous dataset with its place in the file taken and nothing written there. *offset: where its data
 * begin in the file, bytes. extent[dims]: none is 0. */
bool hdf5_layout_dataset(hid_t file, const char *name, hid_t type, int dims, const hsize_t *extent, int64_t *offset);

#endif
