/* Groups and datasets of an HDF5 file that is read. HDF5 would follow links into other files, take a dataset's data
 * from any file that the dataset names, and never come back from one that is made of itself; these open what is stored
 * in the file itself alone, and every reader opens by them. */
#ifndef DATA_HDF5_MEMBER_H
#define DATA_HDF5_MEMBER_H

#include <hdf5.h>
#include <stdbool.h>

/* Whether an open file or group has something of that name: a member's, or the path of one, without a slash at its
 * front. */
bool hdf5_has(hid_t group, const char *name);

/* Open it; negative where there is none, or hdf5_foreign says what it is: behind a soft or an external link; a dataset
 * that is virtual, has its data in other files or needs filters that HDF5 does not have itself. */
hid_t hdf5_open_group(hid_t group, const char *name);
hid_t hdf5_open_dataset(hid_t group, const char *name);
extern const char hdf5_foreign[];

#endif
