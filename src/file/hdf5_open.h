/* Opening HDF5 files, for all readers and writers. No lock is requested: with locks, HDF5 refuses files on file systems
 * without locks (NFS, Lustre without flock) and files that another process has open. Locks are not needed: files are
 * written under temporary names of this process, and output folders have their own lock (checkpoint/lock.h). */
#ifndef FILE_HDF5_OPEN_H
#define FILE_HDF5_OPEN_H

#include <hdf5.h>

/* Initialises HDF5. Call it before any other use of HDF5. */
void hdf5_prepare(void);

/* Between begin and end HDF5 does not print its error stack; our messages are shorter and say more. */
struct hdf5_silence {
    H5E_auto2_t print;
    void *data;
};
void hdf5_silence_begin(struct hdf5_silence *silence);
void hdf5_silence_end(const struct hdf5_silence *silence);

/* Returns a property list to create or open a file with; the caller closes it. */
hid_t hdf5_access(void);

/* Opens a file for reading; *file is negative on failure. ERROR_USER: missing, not a regular file, not HDF5, truncated
 * or damaged. ERROR_ENVIRONMENT: HDF5_USE_FILE_LOCKING requests a lock that HDF5 does not get, or the file is marked as
 * open for writing. */
int hdf5_open(hid_t *file, const char *path);

/* Returns why HDF5's last call could not open or create a file: a lock or a mark, else `otherwise`. */
const char *hdf5_open_failure(const char *otherwise);

#endif
