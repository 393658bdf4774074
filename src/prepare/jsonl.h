/* Streaming reader of JSON lines (https://jsonlines.org): one JSON object on each line, over plain, gzip and zstd files
 * (prepare/source.h). A record's sequence is the member of its object that the settings' field names, a string: the
 * member of that name, or with dots in the field a member of members. Its name is the first word of the string "record"
 * or else "id", else the number of its line. Blank lines are dropped. Memory grows with the longest line alone.
 * (jansson: C, every distribution ships it, and it checks UTF-8 strictly.)
 * User errors name file and line: no JSON object, no such member or no string, characters that record_clean refuses, a
 * control character in the name, a line beyond JSONL_LINE_BYTES; no record at all; and those of source_read. */
#ifndef PREPARE_JSONL_H
#define PREPARE_JSONL_H

#include "prepare/record_class.h"

/* Bytes of the longest line: four times the longest chromosome of a mammal, and what a node can hold. */
enum { JSONL_LINE_BYTES = 1 << 30 };

extern const struct record_class jsonl_class;

#endif
