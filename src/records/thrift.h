/* Reads values in Thrift's compact protocol, the encoding of Parquet's metadata. Input may be any bytes: invalid data
 * sets `bad`; then all functions return zeros and read nothing. Format: github.com/apache/thrift,
 * doc/specs/thrift-compact-protocol.md */
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
    const uint8_t *at, *end; /* unread bytes */
    bool bad;
};

struct thrift_field {
    int64_t number; /* 0 before the first field */
    int type;
};

/* Moves to the next field of a struct; returns false after the last one. The caller must then read or skip its
 * value. */
bool thrift_next(struct thrift *thrift, struct thrift_field *field);
/* Return the value of a field, which must be an integer of any width, a boolean, or bytes (in place). */
int64_t thrift_integer(struct thrift *thrift, const struct thrift_field *field);
bool thrift_truth(struct thrift *thrift, const struct thrift_field *field);
const char *thrift_bytes(struct thrift *thrift, const struct thrift_field *field, int64_t *count);
/* Opens a list of structs; returns the number of its elements, at most the number of unread bytes. */
int64_t thrift_structs(struct thrift *thrift, const struct thrift_field *field);
/* Returns whether the field is a struct, which thrift_next then reads; otherwise sets bad. */
bool thrift_struct(struct thrift *thrift, const struct thrift_field *field);
void thrift_skip(struct thrift *thrift, const struct thrift_field *field);

#endif
