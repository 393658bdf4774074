/* The log: rank 0 writes to standard output, warnings of any rank go to standard error once each. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/error.h"

/* Names this process in messages; before it every process is rank 0 of 1. */
void log_open(int rank, int ranks);
int log_rank(void);

/* A line on rank 0's standard output (a newline is added). */
void log_info(const char *format, ...) BASE_PRINTF(1, 2);
/* A line on standard error, "warning: " in front; the same format is printed once by each rank that meets it. */
void log_warn(const char *format, ...) BASE_PRINTF(1, 2);

#endif
