/* The file that a command of inference writes: made by rank 0 before hours of computing are spent, under its name when
 * it is whole, and gone when a failure or a signal ends the command before. */
#ifndef INFER_OUTPUT_H
#define INFER_OUTPUT_H

#include "file/draft.h"

/* block_check_output of `path`, which is neither `input` nor `checkpoint`; how: of enum disk_output (file/disk.h).
 * Local, as all here. */
int output_check(const char *path, int how, const char *input, const char *checkpoint);

/* As draft_open_output and draft_close. output_close does nothing without an open draft. */
int output_open(struct file_draft *output, const char *path);
int output_close(struct file_draft *output, int code);

#endif
