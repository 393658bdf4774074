/* An input file as a stream of plain bytes: as it is, gzip (many members, so BGZF too) or zstd (many frames, so pzstd
 * too), told apart by its first bytes. Memory is flat. zlib, because it is everywhere and BGZF is gzip; libzstd, the
 * only decoder of its format; both link against what every distribution ships. */
#ifndef RECORDS_SOURCE_H
#define RECORDS_SOURCE_H

#include <stdint.h>

struct record_source;

/* path "-" is standard input. User errors: missing, unreadable, a folder. */
int source_open(struct record_source **source, const char *path);
/* Up to `capacity` plain bytes; *got is 0 at the end alone. User errors: truncated or damaged compressed data. */
int source_read(struct record_source *source, void *buffer, int64_t capacity, int64_t *got);
/* The first plain bytes that were not skipped, *bytes of them, without consuming them: up to SOURCE_HEAD of the file,
 * or all of a short one. Only before the first source_read, until which *head stays. Errors of source_read. */
enum { SOURCE_HEAD = 1 << 12 };
int source_head(struct record_source *source, const uint8_t **head, int64_t *bytes);
/* Leaves out the first bytes of those that source_head gave. */
void source_skip(struct record_source *source, int64_t bytes);
/* For formats that are not read from front to back: the bytes of the file itself, and some of them. Such a reader calls
 * source_pass instead of source_read, for what follows below: as if the file had been read up to that byte. User
 * errors: the file is compressed, standard input or no regular file; it has become shorter. */
int source_size(const struct record_source *source, int64_t *bytes);
int source_read_at(const struct record_source *source, void *buffer, int64_t bytes, int64_t offset);
int source_pass(struct record_source *source, int64_t offset);

/* Bytes of the file itself read so far, and their xxh3 (64 bits): the file's checksum once the end was met. */
int64_t source_raw_bytes(const struct record_source *source);
uint64_t source_checksum(const struct record_source *source);
/* The path, or "<stdin>", for messages; lives as long as the source. */
const char *source_name(const struct record_source *source);
void source_close(struct record_source *source);

#endif
