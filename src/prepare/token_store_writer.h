/* Writes a token store (data/token_store.h) whose sizes are known beforehand, in bounded memory. The file is made under
 * a temporary name beside its path and renamed by commit; a writer destroyed before commit leaves nothing. */
#ifndef PREPARE_TOKEN_STORE_WRITER_H
#define PREPARE_TOKEN_STORE_WRITER_H

#include "tokenizer/tokenizer.h"

#include <stdint.h>

struct token_store_writer;

/* Lays the file out. name_bytes: all names with a newline behind each. Environment errors: the folder cannot be
 * written. */
int token_store_writer_create(struct token_store_writer **writer, const char *path, const struct tokenizer *tokenizer,
                              int64_t sequences, int64_t tokens, int64_t name_bytes);
/* Adds tokens, of token_store_token_bytes(vocabulary) bytes each, to the present sequence. */
int token_store_writer_append(struct token_store_writer *writer, const void *tokens, int64_t count);
/* Ends the present sequence (it may be empty) and names it. */
int token_store_writer_end(struct token_store_writer *writer, const char *name);
/* After the last sequence: adds the list of sources ("checksum path" each), checksums and attributes, and brings the
 * file to the disk. *checksum is the store's. */
int token_store_writer_finish(struct token_store_writer *writer, char *const *sources, int64_t source_count,
                              uint64_t *checksum);
/* Puts the finished file in its place, atomically. */
int token_store_writer_commit(struct token_store_writer *writer);
void token_store_writer_destroy(struct token_store_writer *writer);

#endif
