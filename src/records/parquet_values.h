/* Encodings of Parquet's pages: numbers (levels, indexes, lengths) and strings. The bytes may be anything: a decoder
 * never reads beyond them, and says when they do not hold what they should. Source:
 * github.com/apache/parquet-format, Encodings.md */
#ifndef RECORDS_PARQUET_VALUES_H
#define RECORDS_PARQUET_VALUES_H

#include <stdbool.h>
#include <stdint.h>

struct parquet_bytes {
    const uint8_t *at, *end;
};

/* Numbers of `width` bits, in runs of one number and in packs of eight (RLE, RLE_DICTIONARY). */
struct parquet_runs {
    struct parquet_bytes bytes;
    int width;                /* 0 .. 32; of packed differences up to 64 */
    uint64_t repeats, packed; /* numbers left of the present run, of the present packs */
    uint32_t number;
    unsigned bits; /* of a byte, not used up, bit_count of them */
    int bit_count;
};

void parquet_runs_start(struct parquet_runs *runs, struct parquet_bytes bytes, int width);
bool parquet_runs_next(struct parquet_runs *runs, uint32_t *number);

/* Numbers as differences (DELTA_BINARY_PACKED). */
struct parquet_deltas {
    struct parquet_bytes bytes;
    int width;                   /* bits of a number, in which differences wrap around: 32 or 64 */
    uint64_t left;               /* numbers not read yet */
    uint64_t miniblocks;         /* in a block; */
    uint64_t length;             /* numbers in one of them */
    struct parquet_bytes widths; /* of the block's miniblocks that are not open yet */
    uint64_t in_miniblock;       /* numbers left of the open one, whose bits lie at `packed` */
    struct parquet_runs packed;
    uint64_t least, number;
    bool first;
};

/* Strings, or integers as strings of `width` bytes, one after the other. */
enum parquet_encoding {
    PARQUET_PLAIN = 0,
    PARQUET_PLAIN_DICTIONARY = 2,
    PARQUET_RLE = 3,
    PARQUET_DELTA_BINARY = 5, /* of integers alone */
    PARQUET_DELTA_LENGTH = 6, /* of strings alone, as DELTA */
    PARQUET_DELTA = 7,
    PARQUET_RLE_DICTIONARY = 8,
    PARQUET_BYTE_STREAM_SPLIT = 9 /* of integers alone */
};

struct parquet_string {
    const uint8_t *text;
    int64_t length;
};

struct parquet_strings {
    int width; /* of integers: 4 or 8; 0: strings */
    enum parquet_encoding encoding;
    struct parquet_bytes bytes; /* of the strings themselves */
    struct parquet_deltas prefixes, lengths;
    struct parquet_runs indexes;
    const struct parquet_string *dictionary; /* [entries] */
    int64_t entries;
    uint8_t *last; /* [room], the string before; freed with free() */
    int64_t last_length, room;
    uint8_t value[8]; /* an integer that does not lie in one piece */
    int64_t place;    /* of the next, BYTE_STREAM_SPLIT */
};

/* `most` is the number of strings that there may be. Keeps the width, the dictionary, `last` and its room of what the
 * struct held. Only encodings of the enum that are of this width, not RLE. False: the bytes do not begin as they
 * should. */
bool parquet_strings_start(struct parquet_strings *strings, enum parquet_encoding encoding, struct parquet_bytes bytes,
                           int64_t most);
/* The next one, which stays until the call after it. False: the bytes hold no more, or nonsense. */
bool parquet_strings_next(struct parquet_strings *strings, struct parquet_string *string);

#endif
