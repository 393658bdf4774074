/* Reads messages in the wire format of Protocol Buffers: fields of a number and a value (varint, 4 or 8 bytes, or bytes
 * with their length). Source: protobuf.dev, "Encoding". */
#ifndef TOKENIZER_WIRE_FORMAT_H
#define TOKENIZER_WIRE_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

struct wire_field {
    int number;
    bool has_bytes;             /* else `value` is set */
    uint64_t value;             /* of a varint, or the bits of 4 or 8 bytes */
    const unsigned char *bytes; /* [count], in the message */
    int64_t count;
};

struct wire_message {
    const unsigned char *at, *end;
    bool damaged;
};

static inline struct wire_message wire_open(const void *message, int64_t bytes)
{
    return (struct wire_message){message, (const unsigned char *)message + bytes, false};
}

/* Reads the next field. Returns false at the end, and where the message is damaged, which it then notes. */
bool wire_next(struct wire_message *wire, struct wire_field *field);

/* Returns the value of a field of type float. */
float wire_float(const struct wire_field *field);

#endif
