/* The results of `cistron embed`, as one HDF5 file or as an array of NumPy with a table.
 *
 * HDF5:
 *   /names    fixed-length strings, padded with NUL, [records]: the first word of each record's header
 *   /lengths  i64 [records]: residues of each record that the model was given, without special tokens
 *   /vectors  f32 or f16 [rows, hidden], with a list of layers [rows, layers, hidden]: states of the model
 *   /contacts f32 [sum of the squares of lengths], only with contacts: for each record [length, length] probabilities
 *             that residues i and j are in contact
 *   /offsets  i64 [records + 1], only for pool "none": record i has rows offsets[i] .. offsets[i + 1] - 1 of /vectors
 *
 * Rows of /vectors, by pool:
 *
 *   "mean"    one row per record: the mean over its residues, without special tokens (NaN without residues)
 *   "first"   one row per record: the state of its first token, the begin token (<cls> of ESM-2)
 *   "last"    one row per record: the state of its last token
 *   "none"    one row per token, special tokens included
 *
 * Attributes of the root: cistron_embeddings (version of this layout), version (of the program), checkpoint (path),
 * step (of the training), family, tokenizer, pool, hidden, begin_tokens and end_tokens (special tokens that the model
 * was given before and after each record), max_length (0: no limit), truncated (number of truncated records),
 * normalized (1: vectors have L2 norm 1), both_strands (1: of both strands), and, with a list of layers, layers (i64
 * [layers]).
 *
 * NumPy: an .npy file (format 1.0) that has the array /vectors, and a table of UTF-8 text with tabs: a header line,
 * then name, length and first row of each record. */
#ifndef INFER_EMBEDDINGS_H
#define INFER_EMBEDDINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum embeddings_pool { EMBEDDINGS_MEAN, EMBEDDINGS_FIRST, EMBEDDINGS_LAST, EMBEDDINGS_NONE, EMBEDDINGS_POOLS };
/* The names of the pools in options and in the file. */
extern const char *const embeddings_pool_names[EMBEDDINGS_POOLS];

enum embeddings_dtype { EMBEDDINGS_F32, EMBEDDINGS_F16, EMBEDDINGS_DTYPES };
extern const char *const embeddings_dtype_names[EMBEDDINGS_DTYPES];

struct embeddings_settings {
    const char *path; /* an existing file, which is overwritten */
    FILE *table;      /* NumPy: the table, open for writing; borrowed. NULL: HDF5 */
    const char *checkpoint, *family, *tokenizer;
    int64_t step;
    enum embeddings_pool pool;
    enum embeddings_dtype dtype;
    bool normalized, both_strands;
    int64_t hidden, records;
    const int64_t *layers; /* [layer_count]; NULL: the last layer, without a dimension of its own */
    int64_t layer_count;   /* 1 without a list */
    int64_t rows;
    int64_t contacts;   /* numbers of /contacts; 0: without it. HDF5 only */
    int64_t name_bytes; /* bytes of the longest name, at least 1 */
    int64_t begin_tokens, end_tokens, max_length, truncated;
};

struct embeddings;

/* Allocates the whole file on the disk, which later calls must fill in order. *embeddings is NULL after an error.
 * ERROR_ENVIRONMENT. Local, as all functions here. */
int embeddings_create(struct embeddings **embeddings, const struct embeddings_settings *settings);
/* Writes the next records: names[count], lengths[count]. ERROR_ENVIRONMENT. */
int embeddings_put_records(struct embeddings *embeddings, char *const *names, const int64_t *lengths, int64_t count);
/* Writes the next rows, vectors[count][layer_count * hidden]. ERROR_USER: a number exceeds the range of f16.
 * ERROR_ENVIRONMENT. */
int embeddings_put_vectors(struct embeddings *embeddings, const float *vectors, int64_t count);
/* Writes the next contacts. ERROR_ENVIRONMENT. */
int embeddings_put_contacts(struct embeddings *embeddings, const float *contacts, int64_t count);
/* Flushes the file to the disk and closes it. `code` is the caller's result so far; a failure is returned unchanged.
 * embeddings may be NULL. ERROR_ENVIRONMENT. */
int embeddings_close(struct embeddings *embeddings, int code);

#endif
