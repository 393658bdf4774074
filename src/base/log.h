/* The log: rank 0 writes lines to standard output and warnings to standard error. Both pass through text_print
 * (base/text.h). */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/error.h"

#include <stdbool.h>
#include <stdio.h>

/* Sets this process's rank; before the call every process is rank 0. */
void log_open(int rank);
/* Returns whether standard output is a pipe without a reader, as far as log_info has found out. SIGPIPE must be
 * ignored. */
bool log_lost(void);

/* Redirects lines to standard error, for commands whose standard output is read by other programs. */
void log_to_errors(void);

/* Writes a line on rank 0's standard output; adds a newline. */
void log_info(const char *format, ...) BASE_PRINTF(1, 2);
/* Writes a line that begins with "warning: " on rank 0's standard error; prints each format only once. Other ranks
 * print nothing, so the caller must send to rank 0 what only they see. The text should say what to do. */
void log_warn(const char *format, ...) BASE_PRINTF(1, 2);
/* fprintf for strings from files, made printable by text_print (base/text.h). */
void log_print(FILE *file, const char *format, ...) BASE_PRINTF(2, 3);

#endif
