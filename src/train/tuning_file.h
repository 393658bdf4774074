/* Tuning files keep tuned kernels (core/tuned_kernels.h) for later runs: the user's own, and those installed with the
 * program. A file is opened only if its name is not a link and it belongs to somebody who may change this program
 * (open_trusted). Its content may still be anything: whoever loads it must check it. */
#ifndef TRAIN_TUNING_FILE_H
#define TRAIN_TUNING_FILE_H

#include <stdbool.h>
#include <stdint.h>

/* Choices as bytes; data is freed with memory_free. */
struct tuning_bytes {
    void *data;
    int64_t count;
};

/* Reads the bytes of the file that may be tuned kernels; empty if there is no file. Warns about a file that is refused.
 */
struct tuning_bytes tuning_file_read(const char *path);

/* Adds tuned kernels to the file, and makes the file if there is none; tuned kernels for another device are replaced.
 * Concurrent calls of several runs wait for each other, and a kill leaves the old tuned kernels intact.
 * ERROR_ENVIRONMENT: an I/O error; ERROR_USER: the file is refused or not a tuning file, or its folder is not writable.
 */
int tuning_file_add(const char *path, const struct tuning_bytes *made);

#endif
