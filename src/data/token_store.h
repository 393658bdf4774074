/* Token store: one HDF5 file of tokenized sequences, read through memory maps.
 *
 *    /tokens     u8, u16 or u32 by vocabulary, contiguous: all sequences one after the other, without special tokens
 *    /offsets    i64, contiguous, sequences + 1: sequence i is tokens offsets[i] .. offsets[i + 1] - 1
 *    /names      u8, contiguous: each sequence's name and a newline, in order
 *    /sources    strings: "xxh3-in-hex path" of each input file
 *    /tokenizer  group: the files of a text tokenizer (data/tokenizer_member.h)
 *
 * Attributes of the root: cistron_store (format version), tokenizer, vocabulary, sequences, token_count, checksum.
 * Tokens, offsets and names each have their digest as attribute `xxh3`; checksum is the xxh3 of these three digests
 * (little-endian u64).
 *
 * Arrays are contiguous, so HDF5 is needed only to find their offsets in the file, never in the training loop. xxhash
 * is the fastest checksum that every distribution packages; speed matters, since a store is read more often than disks
 * fail. */
#ifndef DATA_TOKEN_STORE_H
#define DATA_TOKEN_STORE_H

#include "file/mapping.h"
#include "tokenizer/tokenizer.h"

#include <stdbool.h>
#include <stdint.h>

enum { STORE_VERSION = 1 };
enum store_column { STORE_TOKENS, STORE_OFFSETS, STORE_NAMES, STORE_COLUMNS };
extern const char *const store_columns[STORE_COLUMNS]; /* names of the datasets */

struct token_store {
    char *path;
    const struct tokenizer *tokenizer; /* a bundled tokenizer, or `described` */
    struct tokenizer described;        /* a text tokenizer, not open: only what windows need */
    int64_t vocabulary;
    int64_t token_bytes; /* 1, 2 or 4 */
    int64_t sequences;
    int64_t token_count;
    uint64_t checksum; /* 0 if the file has none */
    bool has_checksum; /* the file has a checksum and the three digests */
    uint64_t digests[STORE_COLUMNS];
    const unsigned char *tokens;  /* mapped [token_count * token_bytes] */
    const unsigned char *offsets; /* mapped [(sequences + 1) * 8]; may be unaligned: use token_store_offset */
    const char *names;            /* mapped [name_bytes] */
    int64_t name_bytes;
    struct file_mapping *map; /* maps the whole file */
};

/* Returns the bytes per token in a store of this vocabulary. */
int64_t token_store_token_bytes(int64_t vocabulary);

/* Opens a store without reading its arrays, so neither time nor private memory depends on its size. Warns if the store
 * has no checksum. *store is NULL after an error. ERROR_USER: missing, not HDF5, not a store, an unknown tokenizer,
 * truncated, offsets that do not span the tokens, or a checksum that does not match the digests. */
int token_store_open(struct token_store **store, const char *path);
void token_store_close(struct token_store *store);

/* Checks offset i, the end of sequence i - 1: not before the sequence's start, and within the tokens. i = 0 always
 * passes. A sequence may be read only after the offsets at both its ends have passed. ERROR_USER: damaged. */
int token_store_check_offset(const struct token_store *store, int64_t i);
/* Checks all offsets. */
int token_store_check_offsets(const struct token_store *store);
/* Reads the whole store and compares it with its digests. ERROR_USER: damaged, or without a checksum; ERROR_REQUEUE: a
 * signal stopped it (base/signals.h). */
int token_store_verify(const struct token_store *store);

/* Returns the index of sequence i's first token; i == sequences gives the end of the last sequence. */
int64_t token_store_offset(const struct token_store *store, int64_t i);
/* Copies tokens start .. start + count - 1 of the whole store to out[count]. */
void token_store_read(const struct token_store *store, int64_t start, int64_t count, int32_t *out);
/* Returns the next name, in order (not terminated), and sets *length; NULL after the last one. *cursor starts at 0. */
const char *token_store_next_name(const struct token_store *store, int64_t *cursor, int64_t *length);

#endif
