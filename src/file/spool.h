/* Temporary files for the records of a token store: tokens, lengths and names, because the sizes of the store's arrays
 * must be known before it is laid out. The files are in the output's folder but have no name, so nothing is left
 * however the process ends, kill -9 included. Memory does not grow with the number of records. */
#ifndef FILE_SPOOL_H
#define FILE_SPOOL_H

#include <stdint.h>

struct spool;

struct spool_record {
    int64_t number; /* in order of arrival */
    int64_t length; /* tokens */
    char *name;     /* terminated; until the next call */
};

/* beside: a path in the folder to use; token_bytes: of one token. ERROR_USER: the folder is not there or not to be
 * written; ERROR_ENVIRONMENT: its disk is full. */
int spool_create(struct spool **spool, const char *beside, int64_t token_bytes);
/* Adds tokens to the present record. */
int spool_append(struct spool *spool, const void *tokens, int64_t count);
/* Ends the present record and names it. */
int spool_end(struct spool *spool, const char *name);

/* Records and tokens in all. */
int64_t spool_records(const struct spool *spool);
int64_t spool_tokens(const struct spool *spool);

/* Reading, after the last record was written: rewind, then spool_next gives record after record; *more is 0 behind
 * the last. spool_read copies the next bytes of the tokens, all records as one stream. */
int spool_rewind(struct spool *spool);
int spool_next(struct spool *spool, struct spool_record *record, int *more);
int spool_read(struct spool *spool, void *tokens, int64_t count);
void spool_destroy(struct spool *spool);

#endif
