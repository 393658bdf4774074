/* The log: rank 0 writes, lines to standard output, warnings to standard error, both as text_print (base/text.h) prints
 * them. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/error.h"

#include <stdbool.h>
#include <stdio.h>

/* Names this process in messages; before it every process is rank 0. */
void log_open(int rank);
/* Is standard output a pipe whose reader is gone? Known once log_info has met it, where SIGPIPE is ignored. */
bool log_lost(void);

/* From now on lines go to standard error: what the command writes to standard output is read by other programs. */
void log_to_errors(void);

/* A line on rank 0's standard output (a newline is added). */
void log_info(const char *format, ...) BASE_PRINTF(1, 2);
/* A line on rank 0's standard error, "warning: " in front. Each format is printed once. Other ranks print nothing, so
 * the caller must bring to rank 0 what only they see. Say what to do about it. */
void log_warn(const char *format, ...) BASE_PRINTF(1, 2);
/* fprintf for what holds texts from files, made printable as text_print does (base/text.h). */
void log_print(FILE *file, const char *format, ...) BASE_PRINTF(2, 3);

#endif
