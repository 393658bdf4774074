/* Token store: one HDF5 file of sequences, read through memory maps.
 *   /tokens   u8, u16 or u32 by vocabulary, contiguous: all sequences one after the other, without special tokens
 *   /offsets  i64, contiguous, sequences + 1: sequence i is tokens offsets[i] .. offsets[i + 1] - 1
 *   /names    u8, contiguous: each sequence's name and a newline, in order
 *   /sources  strings: "xxh3-in-hex path" of each input file
 *   /tokenizer  group, of a tokenizer of text: its files (data/tokenizer_member.h)
 * Attributes of the root: cistron_store (format version), tokenizer, vocabulary, sequences, token_count, checksum.
 * Tokens, offsets and names each have their digest as attribute `xxh3`; checksum is the xxh3 of these three digests
 * (little-endian u64).
 *
 * Arrays are contiguous, so HDF5 is needed only to find where they lie, never in the training loop. (xxhash: the
 * fastest checksum that every distribution packages; a store is read more often than disks fail.) */
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
    const struct tokenizer *tokenizer; /* a bundled one, or `described` */
    struct tokenizer described;        /* of a tokenizer of text: what windows need, not open */
    int64_t vocabulary;
    int64_t token_bytes; /* 1, 2 or 4 */
    int64_t sequences;
    int64_t token_count;
    uint64_t checksum; /* 0 where the file has none */
    bool has_checksum; /* the file has a checksum, and the digests that it is the hash of */
    uint64_t digests[STORE_COLUMNS];
    const unsigned char *tokens;  /* mapped [token_count * token_bytes] */
    const unsigned char *offsets; /* mapped [(sequences + 1) * 8]; may be unaligned: use token_store_offset */
    const char *names;            /* mapped [name_bytes] */
    int64_t name_bytes;
    struct file_mapping *map; /* the whole file */
};

/* Bytes per token in a store of that vocabulary. */
int64_t token_store_token_bytes(int64_t vocabulary);

/* User errors: missing, not HDF5, not a store, an unknown tokenizer, truncated, offsets that do not span the tokens, a
 * checksum that does not match the digests. Warns where there is no checksum. The arrays are not read, so neither time
 * nor private memory depends on the store's size. *store is NULL after an error. */
int token_store_open(struct token_store **store, const char *path);
void token_store_close(struct token_store *store);

/* Checks offset i, the end of sequence i - 1: not before the sequence's start, and within the tokens. ERROR_USER:
 * damaged. A sequence may be read only after the offsets at its two ends have passed. i = 0 always passes. */
int token_store_check_offset(const struct token_store *store, int64_t i);
/* Checks all offsets. */
int token_store_check_offsets(const struct token_store *store);
/* Reads the whole store and compares it with its digests. ERROR_USER: damaged, or without a checksum; ERROR_REQUEUE: a
 * signal came (base/signals.h). */
int token_store_verify(const struct token_store *store);

/* First token of sequence i; i == sequences gives the end of the last one. */
int64_t token_store_offset(const struct token_store *store, int64_t i);
/* Copies tokens start .. start + count - 1 of the whole store to out[count]. */
void token_store_read(const struct token_store *store, int64_t start, int64_t count, int32_t *out);
/* Iterates over the names in order; *cursor starts at 0. Returns the next name (not terminated) and its length; NULL at
 * the end. */
const char *token_store_next_name(const struct token_store *store, int64_t *cursor, int64_t *length);

#endif
