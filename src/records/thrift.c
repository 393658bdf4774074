#include "records/thrift.h"

#include <stddef.h>

enum { DEPTH = 32 /* limit of nested containers in skipped values */ };

static void spoil(struct thrift *thrift)
{
    thrift->bad = true;
    thrift->at = thrift->end;
}

static uint8_t take_byte(struct thrift *thrift)
{
    if (thrift->at == thrift->end) {
        spoil(thrift);
        return 0;
    }
    return *thrift->at++;
}

static uint64_t take_varint(struct thrift *thrift)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        const uint8_t byte = take_byte(thrift);
        value |= shift < 64 ? (uint64_t)(byte & 0x7f) << shift : 0;
        if (byte < 0x80)
            return value;
    }
    spoil(thrift);
    return 0;
}

static int64_t take_integer(struct thrift *thrift)
{
    const uint64_t value = take_varint(thrift); /* zigzag: 0 -1 1 -2 ... */
    return (int64_t)(value >> 1 ^ (0 - (value & 1)));
}

static const uint8_t *take_bytes(struct thrift *thrift, uint64_t count)
{
    const uint8_t *bytes = thrift->at;
    if (count > (uint64_t)(thrift->end - thrift->at)) {
        spoil(thrift);
        return NULL;
    }
    thrift->at += count;
    return bytes;
}

/* Returns the number of a list's elements, or 0 if there are too few bytes for them; sets their type. */
static uint64_t take_list(struct thrift *thrift, int *type)
{
    const uint8_t head = take_byte(thrift);
    const uint64_t count = head >> 4 < 15 ? head >> 4 : take_varint(thrift);
    *type = head & 15;
    if (count > (uint64_t)(thrift->end - thrift->at)) {
        spoil(thrift);
        return 0;
    }
    return count;
}

bool thrift_next(struct thrift *thrift, struct thrift_field *field)
{
    const uint8_t head = take_byte(thrift);
    field->type = head & 15;
    if (thrift->bad || field->type == THRIFT_STOP)
        return false;
    field->number = head >> 4 > 0 ? field->number + (head >> 4) : take_integer(thrift);
    return !thrift->bad;
}

static bool expect(struct thrift *thrift, bool expected)
{
    if (!expected)
        spoil(thrift);
    return !thrift->bad;
}

int64_t thrift_integer(struct thrift *thrift, const struct thrift_field *field)
{
    if (!expect(thrift, field->type == THRIFT_I16 || field->type == THRIFT_I32 || field->type == THRIFT_I64))
        return 0;
    return take_integer(thrift);
}

bool thrift_truth(struct thrift *thrift, const struct thrift_field *field)
{
    expect(thrift, field->type == THRIFT_TRUE || field->type == THRIFT_FALSE);
    return field->type == THRIFT_TRUE;
}

const char *thrift_bytes(struct thrift *thrift, const struct thrift_field *field, int64_t *count)
{
    *count = 0;
    if (!expect(thrift, field->type == THRIFT_BINARY))
        return NULL;
    const uint64_t length = take_varint(thrift);
    const uint8_t *bytes = take_bytes(thrift, length);
    *count = bytes != NULL ? (int64_t)length : 0;
    return (const char *)bytes;
}

int64_t thrift_structs(struct thrift *thrift, const struct thrift_field *field)
{
    int type;
    if (!expect(thrift, field->type == THRIFT_LIST))
        return 0;
    const uint64_t count = take_list(thrift, &type);
    return expect(thrift, count == 0 || type == THRIFT_STRUCT) ? (int64_t)count : 0;
}

bool thrift_struct(struct thrift *thrift, const struct thrift_field *field)
{
    return expect(thrift, field->type == THRIFT_STRUCT);
}

static void skip(struct thrift *thrift, int type, int depth);

/* Skips elements of a list, or pairs of a map. A boolean takes one byte there. */
static void skip_elements(struct thrift *thrift, uint64_t count, const int types[], int kinds, int depth)
{
    for (uint64_t i = 0; i < count && !thrift->bad; i++)
        for (int k = 0; k < kinds; k++)
            skip(thrift, types[k] == THRIFT_TRUE || types[k] == THRIFT_FALSE ? THRIFT_BYTE : types[k], depth);
}

static void skip_map(struct thrift *thrift, int depth)
{
    const uint64_t count = take_varint(thrift);
    const uint8_t head = count > 0 ? take_byte(thrift) : 0;
    const int types[2] = {head >> 4, head & 15};
    if (expect(thrift, count <= (uint64_t)(thrift->end - thrift->at)))
        skip_elements(thrift, count, types, 2, depth);
}

static void skip(struct thrift *thrift, int type, int depth)
{
    struct thrift_field field = {0};
    int element;
    if (!expect(thrift, depth < DEPTH))
        return;
    switch (type) {
    case THRIFT_TRUE:
    case THRIFT_FALSE:
        break;
    case THRIFT_BYTE:
        take_byte(thrift);
        break;
    case THRIFT_I16:
    case THRIFT_I32:
    case THRIFT_I64:
        take_varint(thrift);
        break;
    case THRIFT_DOUBLE:
        take_bytes(thrift, 8);
        break;
    case THRIFT_BINARY:
        take_bytes(thrift, take_varint(thrift));
        break;
    case THRIFT_LIST:
    case THRIFT_SET: {
        const uint64_t count = take_list(thrift, &element);
        skip_elements(thrift, count, &element, 1, depth + 1);
        break;
    }
    case THRIFT_MAP:
        skip_map(thrift, depth + 1);
        break;
    case THRIFT_STRUCT:
        while (thrift_next(thrift, &field))
            skip(thrift, field.type, depth + 1);
        break;
    default:
        spoil(thrift);
    }
}

void thrift_skip(struct thrift *thrift, const struct thrift_field *field)
{
    skip(thrift, field->type, 0);
}
