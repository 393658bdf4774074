/* The file of `cistron embed`, an HDF5 file:
 *   /names    strings of one length, filled up with NUL, [records]: the first word of each record's header
 *   /lengths  i64 [records]: residues of each record that the model was given; its special tokens are not counted
 *   /vectors  f32 [rows, hidden]: states after the model's last norm. pool "mean": a row for each record, the mean over
 *             its residues, special tokens left out (NaN for a record without residues); "last": a row for each record,
 *             the state of its last token; "none": a row for each token, special tokens included
 *   /offsets  i64 [records + 1], pool "none" alone: record i has rows offsets[i] .. offsets[i + 1] - 1 of /vectors
 * Attributes of the root: cistron_embeddings (version of this layout), version (of the program), checkpoint (path),
 * step (of the training), family, tokenizer, pool, hidden, begin_tokens and end_tokens (special tokens that the model
 * was given before and behind each record), max_length (0: records were taken whole), truncated (records cut short). */
#ifndef INFER_EMBEDDINGS_H
#define INFER_EMBEDDINGS_H

#include <stdint.h>

enum embeddings_pool { EMBEDDINGS_MEAN, EMBEDDINGS_LAST, EMBEDDINGS_NONE, EMBEDDINGS_POOLS };
/* In options and in the file. */
extern const char *const embeddings_pool_names[EMBEDDINGS_POOLS];

struct embeddings_settings {
    const char *path; /* of the file to write, which exists */
    const char *checkpoint, *family, *tokenizer;
    int64_t step;
    enum embeddings_pool pool;
    int64_t hidden, records;
    int64_t rows;       /* of /vectors */
    int64_t name_bytes; /* of the longest name, at least 1 */
    int64_t begin_tokens, end_tokens, max_length, truncated;
};

struct embeddings;

/* Local, as all here. Takes the whole file's place; what follows must fill it. *embeddings is NULL after an error:
 * ERROR_ENVIRONMENT. */
int embeddings_create(struct embeddings **embeddings, const struct embeddings_settings *settings);
/* The next records: names[count], lengths[count]. ERROR_ENVIRONMENT. */
int embeddings_put_records(struct embeddings *embeddings, char *const *names, const int64_t *lengths, int64_t count);
/* The next rows, vectors[count][hidden]. ERROR_ENVIRONMENT. */
int embeddings_put_vectors(struct embeddings *embeddings, const float *vectors, int64_t count);
/* Brings the file to the disk, also after a failure (`code`), which is then returned. NULL is fine. ERROR_ENVIRONMENT.
 */
int embeddings_close(struct embeddings *embeddings, int code);

#endif
