/* Writes a token store (data/token_store.h) whose sizes are known beforehand, in bounded memory. */
#ifndef PREPARE_TOKEN_STORE_WRITER_H
#define PREPARE_TOKEN_STORE_WRITER_H

#include "prepare/store_writer.h"
#include "tokenizer/tokenizer.h"

/* Lays the file out. name_bytes: all names with a newline behind each. Environment errors: the folder cannot be
 * written. The file appears at commit, atomically. */
int token_store_writer_create(struct store_writer **writer, const char *path, const struct tokenizer *tokenizer,
                              int64_t sequences, int64_t tokens, int64_t name_bytes);

#endif
