/* What prepare writes to, as a class: a token store (prepare/token_store_writer.h) or a Megatron data set
 * (prepare/megatron_writer.h). The files are made under temporary names beside their paths and renamed by commit; a
 * writer destroyed before commit leaves nothing. Environment errors: a file cannot be written. */
#ifndef PREPARE_STORE_WRITER_H
#define PREPARE_STORE_WRITER_H

#include <stdint.h>

struct store_writer;

struct store_writer_class {
    /* Adds tokens, of token_store_token_bytes(vocabulary) bytes each, to the present sequence. */
    int (*append)(struct store_writer *writer, const void *tokens, int64_t count);
    /* Ends the present sequence (it may be empty) and names it. */
    int (*end)(struct store_writer *writer, const char *name);
    /* After the last sequence: adds what describes them, the list of sources ("checksum path" each) among it, and
     * brings the files to the disk. *checksum is the store's. */
    int (*finish)(struct store_writer *writer, char *const *sources, int64_t source_count, uint64_t *checksum);
    /* Puts the finished files in their places. */
    int (*commit)(struct store_writer *writer);
    void (*destroy)(struct store_writer *writer);
};

/* The first member of each writer. */
struct store_writer {
    const struct store_writer_class *class;
};

#endif
