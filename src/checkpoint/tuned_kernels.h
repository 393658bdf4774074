/* The executor's tuned kernels in a checkpoint: dataset /state/choices, u8 [bytes] in the format of
 * core/tuned_kernels.h, absent if there are none. A run that resumes with the same tuned kernels computes the same
 * bits. */
#ifndef CHECKPOINT_TUNED_KERNELS_H
#define CHECKPOINT_TUNED_KERNELS_H

#include <hdf5.h>
#include <stdbool.h>
#include <stdint.h>

/* Reads the tuned kernels of a verified checkpoint as bytes, which are not interpreted. *data is freed with
 * memory_free, NULL if there are none. Local. ERROR_USER: the file cannot be opened, or the dataset has another type or
 * is too large. */
int tuned_kernels_read(const char *path, void **data, int64_t *bytes);
/* Writes the bytes into a file that is being made and has a group /state; nothing if bytes is 0. Returns false if HDF5
 * fails. */
bool tuned_kernels_write(hid_t file, const void *data, int64_t bytes);

#endif
