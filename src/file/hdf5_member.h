/* Opening groups and datasets of HDF5 files, for all readers. HDF5 itself would follow links into other files, read a
 * dataset's data from any file that the dataset names, and never return from a dataset that refers to itself. These
 * functions open only objects that are stored in the file itself. Also for writers: attributes, and datasets of bytes,
 * which store files unchanged. */
#ifndef FILE_HDF5_MEMBER_H
#define FILE_HDF5_MEMBER_H

#include <hdf5.h>
#include <stdbool.h>
#include <stdint.h>

/* Returns whether an open file or group has a member of this name, which may be a path without a leading slash. */
bool hdf5_has(hid_t group, const char *name);

/* Open a member; negative if it is missing, or as hdf5_foreign says: a soft or external link, or a dataset that is
 * virtual, has its data in other files, or needs filters that are not part of HDF5. */
hid_t hdf5_open_group(hid_t group, const char *name);
hid_t hdf5_open_dataset(hid_t group, const char *name);
extern const char hdf5_foreign[];

/* Creates an attribute of one value, of type `stored` in the file and `given` in memory. Returns false on failure. */
bool hdf5_write_attribute(hid_t object, const char *name, hid_t stored, hid_t given, const void *value);

/* Returns the number of elements of a one-dimensional dataset of bytes; negative for any other dataset. */
int64_t hdf5_count_bytes(hid_t dataset);
/* Creates such a dataset of bytes with its content, and returns it open; negative on failure. */
hid_t hdf5_write_bytes(hid_t group, const char *name, const void *data, int64_t bytes);

#endif
