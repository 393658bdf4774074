/* Decoders of the encodings in Parquet pages: numbers (levels, indexes, lengths) and strings. Input may be any bytes:
 * decoders never read beyond its end, and report invalid data. Format: github.com/apache/parquet-format,
 * Encodings.md */
#ifndef RECORDS_PARQUET_VALUES_H
#define RECORDS_PARQUET_VALUES_H

#include <stdbool.h>
#include <stdint.h>

struct parquet_bytes {
    const uint8_t *at, *end;
};

/* Numbers of `width` bits, in runs of equal numbers and in packs of eight (RLE, RLE_DICTIONARY). */
struct parquet_runs {
    struct parquet_bytes bytes;
    int width;                /* 0 .. 32; up to 64 for packed differences */
    uint64_t repeats, packed; /* numbers left in the current run, or in the current packs */
    uint32_t number;
    unsigned bits; /* bit_count unused bits of the current byte */
    int bit_count;
};

void parquet_runs_start(struct parquet_runs *runs, struct parquet_bytes bytes, int width);
bool parquet_runs_next(struct parquet_runs *runs, uint32_t *number);

/* Numbers encoded as differences (DELTA_BINARY_PACKED). */
struct parquet_deltas {
    struct parquet_bytes bytes;
    int width;                   /* bits of a number, 32 or 64; differences wrap around */
    uint64_t left;               /* numbers not read yet */
    uint64_t miniblocks;         /* miniblocks per block */
    uint64_t length;             /* numbers per miniblock */
    struct parquet_bytes widths; /* widths of the block's remaining miniblocks */
    uint64_t in_miniblock;       /* numbers left in the current miniblock, which `packed` reads */
    struct parquet_runs packed;
    uint64_t least, number;
    bool first;
};

/* Encodings of strings, or of integers, which are read as strings of `width` bytes. */
enum parquet_encoding {
    PARQUET_PLAIN = 0,
    PARQUET_PLAIN_DICTIONARY = 2,
    PARQUET_RLE = 3,
    PARQUET_DELTA_BINARY = 5, /* integers only */
    PARQUET_DELTA_LENGTH = 6, /* strings only, as DELTA */
    PARQUET_DELTA = 7,
    PARQUET_RLE_DICTIONARY = 8,
    PARQUET_BYTE_STREAM_SPLIT = 9 /* integers only */
};

struct parquet_string {
    const uint8_t *text;
    int64_t length;
};

struct parquet_strings {
    int width; /* bytes of an integer: 4 or 8; 0: strings */
    enum parquet_encoding encoding;
    struct parquet_bytes bytes; /* input */
    struct parquet_deltas prefixes, lengths;
    struct parquet_runs indexes;
    const struct parquet_string *dictionary; /* [entries] */
    int64_t entries;
    uint8_t *last; /* [capacity] previous string; freed with free() */
    int64_t last_length, capacity;
    uint8_t value[8]; /* an integer whose bytes are not contiguous in the input */
    int64_t place;    /* BYTE_STREAM_SPLIT: index of the next integer */
};

/* Starts decoding bytes with at most `most` strings. Keeps width, dictionary, entries, last and capacity of *strings.
 * encoding: one of the enum that fits the width, but not RLE. Returns false if the bytes do not begin as the encoding
 * requires. */
bool parquet_strings_start(struct parquet_strings *strings, enum parquet_encoding encoding, struct parquet_bytes bytes,
                           int64_t most);
/* Reads the next string, valid until the next call. Returns false at the end, or for invalid data. */
bool parquet_strings_next(struct parquet_strings *strings, struct parquet_string *string);

#endif
