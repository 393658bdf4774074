/* Reads values in Thrift's compact protocol, which the metadata of Parquet are written in. The bytes may be anything:
 * what does not fit sets `bad`, after which every function gives zeros and nothing is read. Source of the encoding:
 * github.com/apache/thrift, doc/specs/thrift-compact-protocol.md */
#ifndef RECORDS_THRIFT_H
#define RECORDS_THRIFT_H

#include <stdbool.h>
#include <stdint.h>

enum thrift_type {
    THRIFT_STOP,
    THRIFT_TRUE,
    THRIFT_FALSE,
    THRIFT_BYTE,
    THRIFT_I16,
    THRIFT_I32,
    THRIFT_I64,
    THRIFT_DOUBLE,
    THRIFT_BINARY,
    THRIFT_LIST,
    THRIFT_SET,
    THRIFT_MAP,
    THRIFT_STRUCT
};

struct thrift {
    const uint8_t *at, *end; /* what is not read yet */
    bool bad;
};

struct thrift_field {
    int64_t number; /* 0 before the first */
    int type;
};

/* The next field of a struct; false behind the last. Its value must then be read or skipped. */
bool thrift_next(struct thrift *thrift, struct thrift_field *field);
/* A field's value, which must be of that kind: an integer of any width, true or false, or bytes (in place). */
int64_t thrift_integer(struct thrift *thrift, const struct thrift_field *field);
bool thrift_truth(struct thrift *thrift, const struct thrift_field *field);
const char *thrift_bytes(struct thrift *thrift, const struct thrift_field *field, int64_t *count);
/* Opens a list of structs: the number of its elements, each of which takes a byte at least. */
int64_t thrift_structs(struct thrift *thrift, const struct thrift_field *field);
/* Whether the field is a struct, which is then read by thrift_next; bad if it is not. */
bool thrift_struct(struct thrift *thrift, const struct thrift_field *field);
void thrift_skip(struct thrift *thrift, const struct thrift_field *field);

#endif
