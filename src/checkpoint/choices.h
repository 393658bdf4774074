/* The executor's choices in a checkpoint: dataset /state/choices, u8 [bytes] as core/choice.h has them, absent where
 * the executor has none. A run that goes on with the same ones computes the same bits. */
#ifndef CHECKPOINT_CHOICES_H
#define CHECKPOINT_CHOICES_H

#include <hdf5.h>
#include <stdbool.h>
#include <stdint.h>

/* Those of a verified checkpoint, whatever they are; *data is freed with memory_free, NULL: it has none. Local.
 * ERROR_USER: the file cannot be opened, the dataset is not as above or larger than any choices. */
int choices_read(const char *path, void **data, int64_t *bytes);
/* Writes them into a file that is being made, whose group /state is there; nothing for no bytes. false when HDF5 fails.
 */
bool choices_write(hid_t file, const void *data, int64_t bytes);

#endif
