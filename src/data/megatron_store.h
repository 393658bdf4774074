/* A data set of Megatron-LM: PREFIX.idx says which sequences there are, PREFIX.bin holds their tokens one after the
 * other. Both are mapped. All numbers are little-endian, without padding between (Megatron-LM, indexed_dataset.py):
 *   0   9 bytes "MMIDIDX\0\0"
 *   9   u64     version, 1
 *   17  u8      type of a token: 1 u8, 2 i8, 3 i16, 4 i32, 5 i64, 8 u16 (6 and 7, f64 and f32, hold no tokens)
 *   18  u64     sequences
 *   26  u64     entries of the documents' table, one more than documents
 *   34  i32     [sequences] tokens of each
 *       i64     [sequences] where each begins in PREFIX.bin, in bytes: where the one before ends
 *       i64     [entries] each document's first sequence, and behind the last the number of sequences
 * With one sequence a document, as preprocess_data.py makes them, both are the same. What follows the tables (modes of
 * multimodal data) is not read. There is no name of a tokenizer and no vocabulary. */
#ifndef DATA_MEGATRON_STORE_H
#define DATA_MEGATRON_STORE_H

#include "file/mapping.h"

#include <stdint.h>

enum megatron_type {
    MEGATRON_U8 = 1,
    MEGATRON_I8,
    MEGATRON_I16,
    MEGATRON_I32,
    MEGATRON_I64,
    MEGATRON_F64,
    MEGATRON_F32,
    MEGATRON_U16
};

enum { MEGATRON_MAGIC = 9 /* bytes */, MEGATRON_VERSION = 1 };
enum { /* places in PREFIX.idx */
       MEGATRON_VERSION_AT = 9,
       MEGATRON_TYPE_AT = 17,
       MEGATRON_SEQUENCES_AT = 18,
       MEGATRON_ENTRIES_AT = 26,
       MEGATRON_HEADER = 34 /* of the first table */
};
extern const char megatron_magic[MEGATRON_MAGIC];

struct megatron_store {
    char *prefix;
    struct file_mapping *index, *bin;
    enum megatron_type type;
    int64_t token_bytes; /* of a token */
    int64_t sequences, documents, token_count;
    uint64_t checksum; /* of PREFIX.idx, the size of PREFIX.bin, and its first and last MiB */
};

/* The prefix that a path means, freed with free(): the path itself where PATH.idx or PATH.bin is a file, or the path
 * without its ending .idx or .bin. NULL: it means none. */
char *megatron_prefix(const char *path);

/* PREFIX.idx is read whole, PREFIX.bin is not. User errors: a path that means no prefix, a file that is missing,
 * another magic, version or type, sizes and tables that do not fit each other or the files, no tokens. *store is NULL
 * after an error. */
int megatron_store_open(struct megatron_store **store, const char *path);
void megatron_store_close(struct megatron_store *store);

/* Are the first tokens below the vocabulary? ERROR_USER: one is not. So a deck with another vocabulary is told at once;
 * only reading finds a token farther on. */
int megatron_store_check_tokens(const struct megatron_store *store, int64_t vocabulary);

/* Tokens of sequence i, and where its first one is, counted from the store's first; i == sequences gives the end of the
 * last one. */
int32_t megatron_store_length(const struct megatron_store *store, int64_t i);
int64_t megatron_store_start(const struct megatron_store *store, int64_t i);
/* Copies tokens start .. start + count - 1 of the whole store to out[count]. Fatal: one that is not below `vocabulary`,
 * or negative. */
void megatron_store_read(const struct megatron_store *store, int64_t start, int64_t count, int64_t vocabulary,
                         int32_t *out);

#endif
