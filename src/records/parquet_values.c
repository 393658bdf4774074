#include "records/parquet_values.h"
#include "base/memory.h"
#include "base/range.h"

#include <stddef.h>
#include <string.h>

/* Limit of a string built from differences, bytes. */
enum { STRING_BYTES = 1 << 30 };

static bool take_varint(struct parquet_bytes *bytes, uint64_t *value)
{
    *value = 0;
    for (int shift = 0; shift < 64 && bytes->at < bytes->end; shift += 7) {
        const uint8_t byte = *bytes->at++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

static uint64_t unzigzag(uint64_t value)
{
    return value >> 1 ^ (0 - (value & 1));
}

/* -- Runs -------------------------------------------------------------------------------------------------------- */

void parquet_runs_start(struct parquet_runs *runs, struct parquet_bytes bytes, int width)
{
    *runs = (struct parquet_runs){.bytes = bytes, .width = width};
}

/* Reads the next `width` bits, lowest first. */
static bool take_bits(struct parquet_runs *runs, uint64_t *number)
{
    *number = 0;
    for (int taken = 0, count; taken < runs->width; taken += count) {
        if (runs->bit_count == 0) {
            if (runs->bytes.at == runs->bytes.end)
                return false;
            runs->bits = *runs->bytes.at++;
            runs->bit_count = 8;
        }
        count = MIN(runs->width - taken, runs->bit_count);
        *number |= (uint64_t)(runs->bits & ((1u << count) - 1)) << taken;
        runs->bits >>= count;
        runs->bit_count -= count;
    }
    return true;
}

static bool open_run(struct parquet_runs *runs)
{
    uint64_t head;
    runs->bits = 0;
    runs->bit_count = 0;
    if (!take_varint(&runs->bytes, &head))
        return false;
    if (head & 1) {
        runs->packed = head >> 1 > UINT64_MAX / 8 ? 0 : head >> 1 << 3;
        return runs->packed > 0;
    }
    runs->repeats = head >> 1;
    runs->number = 0;
    for (int byte = 0; byte < (runs->width + 7) / 8; byte++) {
        if (runs->bytes.at == runs->bytes.end)
            return false;
        runs->number |= (uint32_t)*runs->bytes.at++ << 8 * byte;
    }
    return runs->repeats > 0;
}

bool parquet_runs_next(struct parquet_runs *runs, uint32_t *number)
{
    if (runs->repeats == 0 && runs->packed == 0 && !open_run(runs))
        return false;
    if (runs->repeats > 0) {
        runs->repeats--;
        *number = runs->number;
        return true;
    }
    uint64_t bits;
    runs->packed--;
    if (!take_bits(runs, &bits))
        return false;
    *number = (uint32_t)bits;
    return true;
}

/* -- Differences ------------------------------------------------------------------------------------------------- */

/* Starts reading; returns false if the header is invalid. */
static bool deltas_start(struct parquet_deltas *deltas, struct parquet_bytes bytes, int width)
{
    uint64_t block, first;
    *deltas = (struct parquet_deltas){.bytes = bytes, .width = width, .first = true};
    if (!take_varint(&deltas->bytes, &block) || !take_varint(&deltas->bytes, &deltas->miniblocks) ||
        !take_varint(&deltas->bytes, &deltas->left) || !take_varint(&deltas->bytes, &first))
        return false;
    if (deltas->miniblocks == 0 || block % deltas->miniblocks != 0 || block / deltas->miniblocks % 32 != 0)
        return false;
    deltas->length = block / deltas->miniblocks;
    deltas->number = unzigzag(first);
    return deltas->length > 0;
}

/* Opens the next miniblock. A block has the widths of all its miniblocks, but numbers only for those that are not
 * empty. */
static bool open_miniblock(struct parquet_deltas *deltas)
{
    struct parquet_bytes *bytes = &deltas->bytes;
    if (deltas->widths.at == deltas->widths.end) {
        uint64_t least;
        if (!take_varint(bytes, &least) || deltas->miniblocks > (uint64_t)(bytes->end - bytes->at))
            return false;
        deltas->least = unzigzag(least);
        deltas->widths = (struct parquet_bytes){bytes->at, bytes->at + deltas->miniblocks};
        bytes->at += deltas->miniblocks;
    }
    const int width = *deltas->widths.at++;
    const uint64_t left = (uint64_t)(bytes->end - bytes->at);
    if (width > deltas->width || (width > 0 && deltas->length / 8 > left / (uint64_t)width))
        return false;
    const uint64_t packed = deltas->length / 8 * (uint64_t)width;
    parquet_runs_start(&deltas->packed, (struct parquet_bytes){bytes->at, bytes->at + packed}, width);
    bytes->at += packed;
    deltas->in_miniblock = deltas->length;
    return true;
}

static bool deltas_next(struct parquet_deltas *deltas, int64_t *number)
{
    uint64_t difference = 0;
    if (deltas->left == 0)
        return false;
    if (!deltas->first) {
        if (deltas->in_miniblock == 0 && !open_miniblock(deltas))
            return false;
        if (!take_bits(&deltas->packed, &difference))
            return false;
        deltas->in_miniblock--;
        deltas->number += deltas->least + difference;
    }
    deltas->first = false;
    deltas->left--;
    *number = deltas->width == 32 ? (int32_t)(uint32_t)deltas->number : (int64_t)deltas->number;
    return true;
}

/* Opens the numbers at the front of *bytes, at most `most`, and moves *bytes past them by reading a copy. */
static bool take_deltas(struct parquet_bytes *bytes, struct parquet_deltas *deltas, int64_t most)
{
    int64_t number;
    if (!deltas_start(deltas, *bytes, 32) || deltas->left > (uint64_t)most)
        return false;
    struct parquet_deltas copy = *deltas;
    while (copy.left > 0)
        if (!deltas_next(&copy, &number))
            return false;
    bytes->at = copy.bytes.at;
    return true;
}

/* -- Strings ----------------------------------------------------------------------------------------------------- */

bool parquet_strings_start(struct parquet_strings *strings, enum parquet_encoding encoding, struct parquet_bytes bytes,
                           int64_t most)
{
    strings->encoding = encoding;
    strings->last_length = strings->place = 0;
    strings->prefixes.left = strings->lengths.left = 0;
    if (encoding == PARQUET_PLAIN_DICTIONARY || encoding == PARQUET_RLE_DICTIONARY) {
        const int width = bytes.at < bytes.end ? *bytes.at++ : 0;
        parquet_runs_start(&strings->indexes, bytes, width);
        return width <= 32;
    }
    if (encoding == PARQUET_DELTA_BINARY && bytes.at < bytes.end)
        return deltas_start(&strings->lengths, bytes, 8 * strings->width);
    if ((encoding == PARQUET_DELTA || encoding == PARQUET_DELTA_LENGTH) && bytes.at < bytes.end) /* else all are null */
        if ((encoding == PARQUET_DELTA && !take_deltas(&bytes, &strings->prefixes, most)) ||
            !take_deltas(&bytes, &strings->lengths, most))
            return false;
    strings->bytes = bytes;
    return true;
}

static bool take_string(struct parquet_bytes *bytes, int64_t length, struct parquet_string *string)
{
    if (length < 0 || length > bytes->end - bytes->at)
        return false;
    *string = (struct parquet_string){bytes->at, length};
    bytes->at += length;
    return true;
}

static bool take_plain(struct parquet_bytes *bytes, struct parquet_string *string)
{
    if (bytes->end - bytes->at < 4)
        return false;
    const uint8_t *at = bytes->at;
    const uint32_t length = (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
    bytes->at += 4;
    return take_string(bytes, length, string);
}

/* Reads a string as a prefix of the previous one and a rest. */
static bool take_difference(struct parquet_strings *strings, struct parquet_string *string)
{
    int64_t prefix, length;
    struct parquet_string rest;
    if (!deltas_next(&strings->prefixes, &prefix) || !deltas_next(&strings->lengths, &length) ||
        !take_string(&strings->bytes, length, &rest))
        return false;
    if (prefix < 0 || prefix > strings->last_length || prefix + length > STRING_BYTES)
        return false;
    if (prefix + length > strings->capacity) {
        strings->capacity = 2 * (prefix + length);
        strings->last = memory_grow(strings->last, strings->capacity);
    }
    if (length > 0)
        memcpy(strings->last + prefix, rest.text, (size_t)length);
    strings->last_length = prefix + length;
    *string = (struct parquet_string){strings->last, strings->last_length};
    return true;
}

/* Reads an integer into the bytes of PLAIN. */
static bool take_number(struct parquet_strings *strings, struct parquet_string *string)
{
    int64_t number;
    if (!deltas_next(&strings->lengths, &number))
        return false;
    for (int b = 0; b < strings->width; b++)
        strings->value[b] = (uint8_t)((uint64_t)number >> 8 * b);
    *string = (struct parquet_string){strings->value, strings->width};
    return true;
}

/* Reads an integer whose bytes are spread: the page has the first bytes of all integers, then the second bytes, ... */
static bool gather_number(struct parquet_strings *strings, struct parquet_string *string)
{
    const int64_t count = (strings->bytes.end - strings->bytes.at) / strings->width;
    if (strings->place == count)
        return false;
    for (int b = 0; b < strings->width; b++)
        strings->value[b] = strings->bytes.at[b * count + strings->place];
    strings->place++;
    *string = (struct parquet_string){strings->value, strings->width};
    return true;
}

bool parquet_strings_next(struct parquet_strings *strings, struct parquet_string *string)
{
    uint32_t index;
    int64_t length;
    switch (strings->encoding) {
    case PARQUET_PLAIN:
        return strings->width > 0 ? take_string(&strings->bytes, strings->width, string)
                                  : take_plain(&strings->bytes, string);
    case PARQUET_DELTA_BINARY:
        return take_number(strings, string);
    case PARQUET_BYTE_STREAM_SPLIT:
        return gather_number(strings, string);
    case PARQUET_DELTA_LENGTH:
        return deltas_next(&strings->lengths, &length) && take_string(&strings->bytes, length, string);
    case PARQUET_DELTA:
        return take_difference(strings, string);
    default:
        if (!parquet_runs_next(&strings->indexes, &index) || index >= strings->entries)
            return false;
        *string = strings->dictionary[index];
        return true;
    }
}
