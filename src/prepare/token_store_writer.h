/* Writes a token store (data/token_store.h) of known sizes, in bounded memory. */
#ifndef PREPARE_TOKEN_STORE_WRITER_H
#define PREPARE_TOKEN_STORE_WRITER_H

#include "prepare/store_writer.h"
#include "tokenizer/tokenizer.h"

/* Lays out the file, which appears at its path by commit, atomically. tokens: number of all tokens; name_bytes: bytes
 * of all names, each with a newline. ERROR_ENVIRONMENT: the folder cannot be written. */
int token_store_writer_create(struct store_writer **writer, const char *path, const struct tokenizer *tokenizer,
                              int64_t sequences, int64_t tokens, int64_t name_bytes);

#endif
