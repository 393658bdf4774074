/* Temporary files for the records of a token store (tokens, lengths and names), because the sizes of the store's arrays
 * must be known before it is laid out. The files are in the output's folder but are unlinked at once, so nothing is
 * left however the process ends, kill -9 included. Memory does not grow with the number of records. */
#ifndef FILE_SPOOL_H
#define FILE_SPOOL_H

#include <stdint.h>

struct spool;

struct spool_record {
    int64_t number; /* from 0, in the order of spool_end */
    int64_t length; /* tokens */
    char *name;     /* NUL-terminated; valid until the next call */
};

/* Makes a spool; free it with spool_destroy. near: a path in the folder to use; token_bytes: bytes of a token.
 * ERROR_USER: the folder is missing or not writable. ERROR_ENVIRONMENT: its disk is full. */
int spool_create(struct spool **spool, const char *near, int64_t token_bytes);
/* Adds tokens to the current record. ERROR_ENVIRONMENT. */
int spool_append(struct spool *spool, const void *tokens, int64_t count);
/* Forgets the tokens of the current record. ERROR_ENVIRONMENT. */
int spool_discard(struct spool *spool);
/* Ends the current record and names it. ERROR_ENVIRONMENT. */
int spool_end(struct spool *spool, const char *name);

/* Return the total number of records and tokens. */
int64_t spool_records(const struct spool *spool);
int64_t spool_tokens(const struct spool *spool);

/* Reading, after the last record was written: call spool_rewind, then spool_next for each record; *more is 0 after the
 * last. spool_read copies the next tokens of all records as one stream. ERROR_ENVIRONMENT. */
int spool_rewind(struct spool *spool);
int spool_next(struct spool *spool, struct spool_record *record, int *more);
int spool_read(struct spool *spool, void *tokens, int64_t count);
void spool_destroy(struct spool *spool);

#endif
