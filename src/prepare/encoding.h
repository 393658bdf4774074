/* Records of text to ids, on many threads. Records come out in the order in which they go in, and their ids do not
 * depend on the number of threads. Memory: a few hundred KB of text a thread and its ids, or as much as the longest
 * records take. */
#ifndef PREPARE_ENCODING_H
#define PREPARE_ENCODING_H

#include "prepare/census.h"

struct encoding;

/* Takes a record, in order, on the thread that gives the text. ids: `count` of them, of token_store_token_bytes. */
typedef int encoding_take(void *self, const char *name, const void *ids, int64_t count);

/* Bytes of the longest record. Text of more is refused with ERROR_USER, here and by who encodes records himself. */
enum { ENCODING_RECORD_BYTES = 1 << 30 };
int encoding_check_record(const char *name, int64_t bytes);
/* A code of encoder_encode; its message names the record then. */
int encoding_of_record(int code, const char *name);

/* census: counts the special tokens in the records; to be read after encoding_finish. */
struct encoding *encoding_create(const struct tokenizer *tokenizer, int64_t threads, struct text_census *census,
                                 encoding_take *take, void *self);
/* A record begins. Errors: of encoder_encode, naming the record; of `take`. */
int encoding_name(struct encoding *encoding, const char *name, int64_t length);
/* Text of the present record. The same errors; ERROR_USER: the record is longer than ENCODING_RECORD_BYTES. */
int encoding_text(struct encoding *encoding, const char *text, int64_t bytes);
/* All records are at their end and are to be taken. The same errors. */
int encoding_finish(struct encoding *encoding);
/* NULL is fine. */
void encoding_destroy(struct encoding *encoding);

#endif
