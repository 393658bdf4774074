/* Streaming readers of JSON records, plain or compressed with gzip or zstd (records/source.h).
 *
 *    jsonl   JSON lines (https://jsonlines.org): one object per line; blank lines are dropped
 *    json    an array of objects, the file's only value
 *
 * A record is an object. Its sequence is a string: the member named settings->field, or if the field has dots, a member
 * of nested objects. Its name is the first word of member "record", or else "id", a string or an integer as written; if
 * both are missing, null or blank, the line number, or in an array the element's number from 1. Its labels are the
 * members settings->labels, found as the sequence is: strings, or numbers, true and false as written; null is none. For
 * all other members only JSON's structure is checked (records/json_members.h). Memory grows only with the longest line
 * or element. jansson decodes the strings: it is a C library in every distribution and checks UTF-8 strictly.
 *
 * User errors name file and line: not a JSON object; the member is missing or null (dropped and counted if
 * settings->skipped), not a string, or there twice; a name that is neither a string nor an integer; a label that is an
 * object or an array; characters that record_clean rejects; a control character in the name; a line or element beyond
 * JSONL_LINE_BYTES; and the errors of source_read. */
#ifndef RECORDS_JSONL_H
#define RECORDS_JSONL_H

#include "records/record_class.h"

/* Limit of a line or element, bytes: four times the longest mammalian chromosome, and small enough for a node's
 * memory. */
enum { JSONL_LINE_BYTES = 1 << 30 };

extern const struct record_class jsonl_class, json_class;

#endif
