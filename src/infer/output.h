/* The output file of an inference command. Rank 0 makes it before the long computation starts. It appears under its
 * name when it is complete, and is removed if a failure or a signal ends the command earlier. */
#ifndef INFER_OUTPUT_H
#define INFER_OUTPUT_H

#include "file/atomic_file.h"

/* As block_check_output for `path`; the path must also differ from `input` and `checkpoint`. how: flags of enum
 * disk_output (file/disk.h). Local, as all functions here. */
int output_check(const char *path, int how, const char *input, const char *checkpoint);

/* As atomic_file_open_output and atomic_file_close. output_close does nothing without an open file. */
int output_open(struct atomic_file *output, const char *path);
int output_close(struct atomic_file *output, int code);

#endif
