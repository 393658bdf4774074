/* Writes a token store (data/token_store.h) of known sizes, in bounded memory. */
#ifndef PREPARE_TOKEN_STORE_WRITER_H
#define PREPARE_TOKEN_STORE_WRITER_H

#include "data/token_store.h"
#include "prepare/store_writer.h"
#include "tokenizer/tokenizer.h"

/* The labels of a store; the names are borrowed until the writer is destroyed. */
struct store_labels {
    enum store_label kind;
    int64_t count;     /* classes, or numbers of a sequence */
    const char *names; /* of classes or numbers, each with a newline */
};

/* Lays out the file, which appears at its path by commit, atomically. tokens: number of all tokens; name_bytes: bytes
 * of all names, each with a newline. labels: NULL without labels. ERROR_ENVIRONMENT: the folder cannot be written. */
int token_store_writer_create(struct store_writer **writer, const char *path, const struct tokenizer *tokenizer,
                              int64_t sequences, int64_t tokens, int64_t name_bytes, const struct store_labels *labels);
/* Appends the next labels, as the array /labels has them. ERROR_ENVIRONMENT. */
int token_store_writer_label(struct store_writer *writer, const void *labels, int64_t bytes);

#endif
