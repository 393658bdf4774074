/* Encodes records of text with several threads. Records are returned in the order in which they were given, and their
 * ids do not depend on the number of threads. Memory: a few hundred KB of text per thread and its ids, or as much as
 * the longest records need. */
#ifndef PREPARE_ENCODING_H
#define PREPARE_ENCODING_H

#include "prepare/census.h"

struct encoding;

/* Receives a record, in order, on the thread that gives the text. ids[count]: elements of token_store_token_bytes. */
typedef int encoding_take(void *self, const char *name, const void *ids, int64_t count);

/* Limit of a record, bytes. encoding_check_record returns ERROR_USER for longer text; callers that encode records
 * themselves use it too. */
enum { ENCODING_RECORD_BYTES = 1 << 30 };
int encoding_check_record(const char *name, int64_t bytes);
/* Adds the record's name to the message of an error `code` of encoder_encode, and returns the code. */
int encoding_of_record(int code, const char *name);

/* Starts the threads. census counts the special tokens in the records; read it after encoding_finish. */
struct encoding *encoding_create(const struct tokenizer *tokenizer, int64_t threads, struct text_census *census,
                                 encoding_take *take, void *self);
/* Begins a record. Errors: as in encoder_encode, naming the record, and errors of `take`. */
int encoding_name(struct encoding *encoding, const char *name, int64_t length);
/* Appends text to the current record. Errors: as in encoding_name; ERROR_USER: the record is longer than
 * ENCODING_RECORD_BYTES. */
int encoding_text(struct encoding *encoding, const char *text, int64_t bytes);
/* Ends the last record and waits until `take` has received all records. Errors: as in encoding_name. */
int encoding_finish(struct encoding *encoding);
/* Accepts NULL. */
void encoding_destroy(struct encoding *encoding);

#endif
