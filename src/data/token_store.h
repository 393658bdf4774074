/* Token store: one HDF5 file of tokenized sequences, read through memory maps.
 *
 *    /tokens     u8, u16 or u32 by vocabulary, contiguous: all sequences one after the other, without special tokens
 *    /offsets    i64, contiguous, sequences + 1: sequence i is tokens offsets[i] .. offsets[i + 1] - 1
 *    /names      u8, contiguous: each sequence's name and a newline, in order
 *    /labels     contiguous, only in a store with labels: a class of each sequence (i32 [sequences]), numbers of each
 *                sequence (f32 [sequences * label_count]), or a class of each token (i16 [token_count])
 *    /classes    u8, contiguous, with labels: the name of each class, or of each number, and a newline, in order
 *    /sources    strings: "xxh3-in-hex path" of each input file
 *    /tokenizer  group: the files of a text tokenizer (data/tokenizer_member.h)
 *
 * Attributes of the root: cistron_store (format version: 1, or 2 with labels), tokenizer, vocabulary, sequences,
 * token_count, checksum; with labels also label_kind ("class", "number" or "token") and label_count (of classes, or of
 * numbers). Each array has its digest as attribute `xxh3`; checksum is the xxh3 of these three or five digests, in the
 * order above (little-endian u64). A label below 0 is none.
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

enum { STORE_VERSION = 1, STORE_VERSION_LABELS = 2 };
enum store_column { STORE_TOKENS, STORE_OFFSETS, STORE_NAMES, STORE_LABELS, STORE_CLASSES, STORE_COLUMNS };
extern const char *const store_columns[STORE_COLUMNS]; /* names of the datasets */

/* Kinds of labels, and their names in files. */
enum store_label { STORE_LABEL_CLASS, STORE_LABEL_NUMBER, STORE_LABEL_TOKEN, STORE_LABEL_KINDS, STORE_LABEL_NONE };
extern const char *const store_labels[STORE_LABEL_KINDS];

/* Returns the bytes of all labels of this kind. */
int64_t token_store_label_bytes(enum store_label kind, int64_t count, int64_t sequences, int64_t tokens);

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
    enum store_label label_kind;
    int64_t label_count;         /* classes, or numbers of a sequence; 0: no labels */
    const unsigned char *labels; /* mapped; may be unaligned: use the functions below */
    const char *classes;         /* mapped [class_bytes]: names of classes or numbers, each with a newline */
    int64_t class_bytes;
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
/* Return the labels of a store that has them: the class of a sequence; its numbers, to out[label_count]; the classes of
 * tokens start .. start + count - 1 of the whole store, to out[count]. */
int32_t token_store_class(const struct token_store *store, int64_t sequence);
void token_store_numbers(const struct token_store *store, int64_t sequence, float *out);
void token_store_token_classes(const struct token_store *store, int64_t start, int64_t count, int32_t *out);

/* Returns the next name, in order (not terminated), and sets *length; NULL after the last one. *cursor starts at 0. */
const char *token_store_next_name(const struct token_store *store, int64_t *cursor, int64_t *length);

#endif
