/* Streaming reader of JSON lines (https://jsonlines.org): one JSON object on each line, over plain, gzip and zstd files
 * (prepare/source.h). A record's sequence is one member of its object, a string; its name the first word of the string
 * "record" or else "id", else the number of its line. Blank lines are dropped. Memory grows with the longest line
 * alone. (jansson: C, every distribution ships it, and it checks UTF-8 strictly.) */
#ifndef PREPARE_JSONL_H
#define PREPARE_JSONL_H

#include "prepare/record.h"

struct source;
struct jsonl;

/* Bytes of the longest line: four times the longest chromosome of a mammal, and what a node can hold. */
enum { JSONL_LINE_BYTES = 1 << 30 };

/* Borrows the source and `field`, the name of the member that holds the sequence. */
struct jsonl *jsonl_create(struct source *source, const char *field);
/* The next piece: a name opens a record, and one sequence piece follows unless the sequence is empty. User errors name
 * file and line: no JSON object, no such member or no string, characters that record_clean refuses, a control character
 * in the name, a line beyond JSONL_LINE_BYTES; no record at all; and those of source_read. */
int jsonl_next(struct jsonl *jsonl, struct record_piece *piece);
void jsonl_destroy(struct jsonl *jsonl);

#endif
