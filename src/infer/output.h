/* The file that a command of inference writes: made by rank 0 before hours of computing are spent, under its name when
 * it is whole, and gone when a failure or a signal ends the command before. */
#ifndef INFER_OUTPUT_H
#define INFER_OUTPUT_H

#include "io/draft.h"

/* It replaces what has its name: ERROR_USER unless that is an old result (a regular file), and none of the two files
 * that are read. Local, as all here. */
int output_check(const char *path, const char *fasta, const char *checkpoint);

/* As draft_open and draft_close. output_close does nothing without an open draft. */
int output_open(struct draft *output, const char *path);
int output_close(struct draft *output, int code);

#endif
