/* Opening groups and datasets of HDF5 files, for all readers. HDF5 itself would follow links into other files, read a
 * dataset's data from any file that the dataset names, and never return from a dataset that refers to itself. These
 * functions open only what is stored in the file itself.
 * And what writers share: attributes, and datasets of bytes, which keep files as they are. */
#ifndef FILE_HDF5_MEMBER_H
#define FILE_HDF5_MEMBER_H

#include <hdf5.h>
#include <stdbool.h>
#include <stdint.h>

/* Whether an open file or group has something of that name: a member's, or the path of one, without a slash at its
 * front. */
bool hdf5_has(hid_t group, const char *name);

/* Open it; negative where there is none, or hdf5_foreign says what it is: behind a soft or an external link; a dataset
 * that is virtual, has its data in other files or needs filters that HDF5 does not have itself. */
hid_t hdf5_open_group(hid_t group, const char *name);
hid_t hdf5_open_dataset(hid_t group, const char *name);
extern const char hdf5_foreign[];

/* A new attribute of one value: of type `stored` in the file, of type `given` in memory. */
bool hdf5_write_attribute(hid_t object, const char *name, hid_t stored, hid_t given, const void *value);

/* Elements of a dataset that is one of bytes in one dimension, else a negative number. */
int64_t hdf5_count_bytes(hid_t dataset);
/* Creates such a dataset with its content, open; negative on failure. */
hid_t hdf5_write_bytes(hid_t group, const char *name, const void *data, int64_t bytes);

#endif
