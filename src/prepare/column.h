/* A stretch of a file that is written from its front to its end, through a buffer, and hashed. */
#ifndef PREPARE_COLUMN_H
#define PREPARE_COLUMN_H

#include <stdint.h>

struct column_writer;

/* Bytes position .. position + bytes - 1 of an open file. `path`, borrowed, is its name for messages. */
struct column_writer *column_create(int file, const char *path, int64_t position, int64_t bytes);
/* Adds bytes, of which no more may come than create was told. ERROR_ENVIRONMENT: the file cannot be written. */
int column_put(struct column_writer *column, const void *data, int64_t bytes);
/* Brings all to the file, after the last byte; *hash is the xxh3 of them. Errors as column_put. */
int column_finish(struct column_writer *column, uint64_t *hash);
void column_destroy(struct column_writer *column);

#endif
