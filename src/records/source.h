/* An input file as a stream of decompressed bytes: plain, gzip (with several members, such as BGZF) or zstd (with
 * several frames, such as pzstd), recognised by its first bytes. Memory is constant. zlib is available everywhere, and
 * BGZF is gzip; libzstd is the only decoder of its format. Every distribution has both. */
#ifndef RECORDS_SOURCE_H
#define RECORDS_SOURCE_H

#include <stdint.h>

struct record_source;

/* Opens a file; path "-" is standard input. ERROR_USER: missing, unreadable, a folder. */
int source_open(struct record_source **source, const char *path);
/* Reads up to `capacity` decompressed bytes; *got is 0 only at the end. ERROR_USER: truncated or damaged compressed
 * data. */
int source_read(struct record_source *source, void *buffer, int64_t capacity, int64_t *got);
/* Sets *head to the first decompressed bytes after the skipped ones, and *bytes to their number, without consuming
 * them: up to byte SOURCE_HEAD of the file. Allowed only before the first source_read, which invalidates *head. Errors:
 * as in source_read. */
enum { SOURCE_HEAD = 1 << 12 };
int source_head(struct record_source *source, const uint8_t **head, int64_t *bytes);
/* Skips the first `bytes` of the bytes that source_head returned. */
void source_skip(struct record_source *source, int64_t bytes);
/* For formats that are not read from front to back: source_size returns the bytes of the file itself, source_read_at
 * reads some of them. A reader of such a format calls source_pass instead of source_read; then the functions below
 * behave as if the file had been read up to `offset`. ERROR_USER: the file is compressed, standard input or not a
 * regular file; it was truncated meanwhile. */
int source_size(const struct record_source *source, int64_t *bytes);
int source_read_at(const struct record_source *source, void *buffer, int64_t bytes, int64_t offset);
int source_pass(struct record_source *source, int64_t offset);

/* Return how many bytes of the file itself were read so far, and their xxh3 (64 bits): at the end, the file's
 * checksum. */
int64_t source_raw_bytes(const struct record_source *source);
uint64_t source_checksum(const struct record_source *source);
/* Returns the path, or "<stdin>", for messages; valid as long as the source. */
const char *source_name(const struct record_source *source);
void source_close(struct record_source *source);

#endif
