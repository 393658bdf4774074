/* Reader of a Megatron-LM data set: PREFIX.idx lists the sequences, PREFIX.bin has their tokens one after the other.
 * Both files are mapped. All numbers are little-endian, without padding in between (Megatron-LM, indexed_dataset.py):
 *
 *    0   9 bytes "MMIDIDX\0\0"
 *    9   u64     version, 1
 *    17  u8      type of a token: 1 u8, 2 i8, 3 i16, 4 i32, 5 i64, 8 u16 (6 and 7, f64 and f32, are not tokens)
 *    18  u64     sequences
 *    26  u64     entries of the document table: documents + 1
 *    34  i32     [sequences] tokens of each sequence
 *        i64     [sequences] byte in PREFIX.bin at which each sequence begins: the end of the previous one
 *        i64     [entries] first sequence of each document, then the number of sequences
 *
 * Files of preprocess_data.py have one sequence per document. Data after the tables (modes of multimodal data) is
 * ignored. The files contain neither the tokenizer's name nor the vocabulary. */
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
enum { /* byte offsets in PREFIX.idx */
       MEGATRON_VERSION_AT = 9,
       MEGATRON_TYPE_AT = 17,
       MEGATRON_SEQUENCES_AT = 18,
       MEGATRON_ENTRIES_AT = 26,
       MEGATRON_HEADER = 34 /* offset of the first table */
};
extern const char megatron_magic[MEGATRON_MAGIC];

struct megatron_store {
    char *prefix;
    struct file_mapping *index, *bin;
    enum megatron_type type;
    int64_t token_bytes; /* bytes per token */
    int64_t sequences, documents, token_count;
    uint64_t checksum; /* of PREFIX.idx, the size of PREFIX.bin, and the first and last MiB of PREFIX.bin */
};

/* Returns the prefix of a data set, freed with free(): the path itself if PATH.idx or PATH.bin is a file, or the path
 * without its ending .idx or .bin; else NULL. */
char *megatron_prefix(const char *path);

/* Opens a data set; reads all of PREFIX.idx, but not PREFIX.bin. *store is NULL after an error. ERROR_USER: the path
 * has no prefix, a file is missing, another magic, version or type, sizes and tables that do not fit each other or the
 * files, no tokens. */
int megatron_store_open(struct megatron_store **store, const char *path);
void megatron_store_close(struct megatron_store *store);

/* Checks that the first tokens are below the vocabulary, so that a deck with a wrong vocabulary fails early. All other
 * tokens are checked when they are read. ERROR_USER. */
int megatron_store_check_tokens(const struct megatron_store *store, int64_t vocabulary);

/* megatron_store_length returns the number of tokens of sequence i, megatron_store_start the index of its first token
 * in the store; i == sequences gives the end of the last sequence. */
int32_t megatron_store_length(const struct megatron_store *store, int64_t i);
int64_t megatron_store_start(const struct megatron_store *store, int64_t i);
/* Copies tokens start .. start + count - 1 of the whole store to out[count]. Fatal: a token is negative or not below
 * `vocabulary`. */
void megatron_store_read(const struct megatron_store *store, int64_t start, int64_t count, int64_t vocabulary,
                         int32_t *out);

#endif
