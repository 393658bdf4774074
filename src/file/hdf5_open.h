/* Opening HDF5 files, for all readers and writers. No lock is requested: HDF5 would refuse a file that a file system
 * without locks holds (NFS, Lustre without flock), or that another process has open. What is written is a temporary
 * file of this process alone, and output folders have a lock of their own (checkpoint/lock.h). */
#ifndef FILE_HDF5_OPEN_H
#define FILE_HDF5_OPEN_H

#include <hdf5.h>

/* Once, before any other use of HDF5. */
void hdf5_prepare(void);

/* Between begin and end HDF5 does not print its own stack of errors; our messages say more in one line. */
struct hdf5_silence {
    H5E_auto2_t print;
    void *data;
};
void hdf5_silence_begin(struct hdf5_silence *silence);
void hdf5_silence_end(const struct hdf5_silence *silence);

/* A new list of properties to create or open a file with; the caller closes it. */
hid_t hdf5_access(void);

/* Opens for reading; *file is negative on failure. ERROR_USER: missing, no regular file, not HDF5, truncated or
 * damaged; ERROR_ENVIRONMENT: HDF5_USE_FILE_LOCKING asks for a lock that HDF5 does not get, or the file is marked as
 * open for writing. */
int hdf5_open(hid_t *file, const char *path);

/* Why HDF5's last call could not open or create a file: a lock or a mark, else `otherwise`. */
const char *hdf5_open_failure(const char *otherwise);

#endif
