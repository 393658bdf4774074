/* Writes a range of a file from its start to its end, through a buffer, and hashes it. */
#ifndef PREPARE_COLUMN_H
#define PREPARE_COLUMN_H

#include <stdint.h>

struct column_writer;

/* Makes a writer of bytes position .. position + bytes - 1 of an open file. `path`, borrowed, is its name in
 * messages. */
struct column_writer *column_create(int file, const char *path, int64_t position, int64_t bytes);
/* Appends bytes, in total at most the number given to column_create. ERROR_ENVIRONMENT: the file cannot be written. */
int column_put(struct column_writer *column, const void *data, int64_t bytes);
/* Writes the rest of the buffer; to be called after all bytes. *hash is the xxh3 of the range. Errors: as in
 * column_put. */
int column_finish(struct column_writer *column, uint64_t *hash);
void column_destroy(struct column_writer *column);

#endif
