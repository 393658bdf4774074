/* Streaming readers of JSON records, over plain, gzip and zstd files (records/source.h).
 *   jsonl  JSON lines (https://jsonlines.org): an object on each line; blank lines are dropped
 *   json   an array of objects, the file's only value
 * A record's sequence is the member of its object that the settings' field names, a string: the member of that name, or
 * with dots in the field a member of members. Its name is the first word of member "record" or else "id", a string, or
 * that integer as it is written; where both are missing, null or blank, the number of its line, of an array that of its
 * element from 1. Of all other members JSON's structure alone is checked (records/json_members.h). Memory grows with
 * the longest line or element alone. (jansson decodes the strings: C, every distribution ships it, and it checks UTF-8
 * strictly.)
 * User errors name file and line: no JSON object, no such member, null (both of which settings->skipped leaves out) or
 * not a string, such a member twice, a name that is neither a string nor an integer, characters that record_clean
 * refuses, a control character in the name, a line or element beyond JSONL_LINE_BYTES; and those of source_read. */
#ifndef RECORDS_JSONL_H
#define RECORDS_JSONL_H

#include "records/record_class.h"

/* Bytes of the longest line or element: four times the longest chromosome of a mammal, and what a node can hold. */
enum { JSONL_LINE_BYTES = 1 << 30 };

extern const struct record_class jsonl_class, json_class;

#endif
