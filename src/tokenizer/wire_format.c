#include "tokenizer/wire_format.h"

#include <string.h>

enum wire_type { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

static bool read_varint(struct wire_message *wire, uint64_t *value)
{
    *value = 0;
    for (int shift = 0; shift < 64 && wire->at < wire->end; shift += 7) {
        const unsigned char byte = *wire->at++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

static bool read_fixed(struct wire_message *wire, int bytes, uint64_t *value)
{
    *value = 0;
    if (wire->end - wire->at < bytes)
        return false;
    for (int i = 0; i < bytes; i++)
        *value |= (uint64_t)wire->at[i] << (8 * i);
    wire->at += bytes;
    return true;
}

static bool read_bytes(struct wire_message *wire, struct wire_field *field)
{
    uint64_t count;
    if (!read_varint(wire, &count) || count > (uint64_t)(wire->end - wire->at))
        return false;
    field->has_bytes = true;
    field->bytes = wire->at;
    field->count = (int64_t)count;
    wire->at += count;
    return true;
}

static bool read_value(struct wire_message *wire, enum wire_type type, struct wire_field *field)
{
    switch (type) {
    case WIRE_VARINT:
        return read_varint(wire, &field->value);
    case WIRE_64:
        return read_fixed(wire, 8, &field->value);
    case WIRE_32:
        return read_fixed(wire, 4, &field->value);
    case WIRE_BYTES:
        return read_bytes(wire, field);
    default:
        return false;
    }
}

bool wire_next(struct wire_message *wire, struct wire_field *field)
{
    enum { TYPE_BITS = 3, MOST = 1 << 29 };
    uint64_t key;
    if (wire->damaged || wire->at == wire->end)
        return false;
    *field = (struct wire_field){0};
    wire->damaged = !read_varint(wire, &key) || key >> TYPE_BITS == 0 || key >> TYPE_BITS >= MOST;
    if (wire->damaged)
        return false;
    field->number = (int)(key >> TYPE_BITS);
    wire->damaged = !read_value(wire, (enum wire_type)(key & 7), field);
    return !wire->damaged;
}

float wire_float(const struct wire_field *field)
{
    const uint32_t bits = (uint32_t)field->value;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
