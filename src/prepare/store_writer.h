/* Interface of the writers of prepare: token stores (prepare/token_store_writer.h) and Megatron data sets
 * (prepare/megatron_writer.h). Files are written under temporary names next to their paths, and renamed by commit; a
 * writer that is destroyed before commit leaves no files. ERROR_ENVIRONMENT: a file cannot be written. */
#ifndef PREPARE_STORE_WRITER_H
#define PREPARE_STORE_WRITER_H

#include <stdint.h>

struct store_writer;

struct store_writer_class {
    /* Appends tokens, of token_store_token_bytes(vocabulary) bytes each, to the current sequence. */
    int (*append)(struct store_writer *writer, const void *tokens, int64_t count);
    /* Ends the current sequence, which may be empty, and names it. */
    int (*end)(struct store_writer *writer, const char *name);
    /* Writes the metadata after the last sequence, including the list of sources ("checksum path" each), and flushes
     * the files to the disk. *checksum is the store's. */
    int (*finish)(struct store_writer *writer, char *const *sources, int64_t source_count, uint64_t *checksum);
    /* Renames the finished files to their final names. */
    int (*commit)(struct store_writer *writer);
    void (*destroy)(struct store_writer *writer);
};

/* The first member of each writer. */
struct store_writer {
    const struct store_writer_class *class;
};

#endif
