/* Files of choices of kernels (core/choice.h), for later runs: the user's own, and those that come with the program. A
 * file is opened by its own name alone, not through a link, and only if it belongs to somebody who may change this
 * program (open_trusted). What it holds may still be anything: who takes it checks it. */
#ifndef TRAIN_TUNING_FILE_H
#define TRAIN_TUNING_FILE_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes of choices; data is freed with memory_free. */
struct tuning_bytes {
    void *data;
    int64_t count;
};

/* What the file holds that may be choices; nothing where there is none. Warns of a file that is refused. */
struct tuning_bytes tuning_file_read(const char *path);

/* Adds choices to those of the file, which is made if it is not there; choices for another device are replaced. Runs
 * that do so at the same time wait for each other, and a kill leaves the choices that were there. ERROR_ENVIRONMENT;
 * ERROR_USER: refused, no tuning file, or its folder cannot be written. */
int tuning_file_add(const char *path, const struct tuning_bytes *choices);

#endif
