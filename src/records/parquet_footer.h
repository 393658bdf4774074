/* The footer of a Parquet file: its columns, and where each row group has them. Source of the format:
 * github.com/apache/parquet-format, README.md and src/main/thrift/parquet.thrift */
#ifndef RECORDS_PARQUET_FOOTER_H
#define RECORDS_PARQUET_FOOTER_H

#include <stdbool.h>
#include <stdint.h>

struct record_source;
struct parquet_footer;

/* The most that a footer may have: bytes, groups and columns of its schema, groups in groups. */
enum { PARQUET_FOOTER_BYTES = 1 << 28, PARQUET_ELEMENTS = 1 << 17, PARQUET_DEPTH = 32 };

/* A column of strings or integers. Levels (format README, "Nested Encoding"): an entry whose definition is less than
 * the most is null, or stands for an empty list; one whose repetition is 0 begins a row. */
struct parquet_column {
    char *name;                 /* as parquet_footer_find was asked; freed with free() */
    int64_t place, type;        /* type: as the format numbers them */
    int definition, repetition; /* the most */
    int empty;                  /* of a list: the definition of an empty one */
    int width;                  /* bytes of an integer; 0: strings */
    bool no_sign;               /* of integers */
};

/* Where a row group has a column: bytes of the file that hold its pages, and their entries. */
struct parquet_chunk {
    int64_t start, bytes, entries;
    int codec;
};

/* Borrows the source. User errors: no regular file, no Parquet, an encrypted or a damaged footer, one beyond the limits
 * above. *footer needs parquet_footer_destroy in any case. */
int parquet_footer_read(struct parquet_footer **footer, struct record_source *source);
/* The column of that name: parts with dots between them, of which those that only say "list" (list.element) may be left
 * out. User errors: there is none (the message names those there are), two, it holds no strings, lists of lists. */
int parquet_footer_find(const struct parquet_footer *footer, const char *name, struct parquet_column *column);
/* The column of that name, not in groups, that names the records; *found is false where there is none. User errors:
 * there are two, it holds neither strings nor integers. */
int parquet_footer_names(const struct parquet_footer *footer, const char *name, struct parquet_column *column,
                         bool *found);
/* The next row group: where it has these columns; a column without entries is nowhere, of 0 bytes. *more is false
 * behind the last. User errors: a damaged footer, encrypted columns, columns in other files. */
int parquet_footer_next(struct parquet_footer *footer, const struct parquet_column *columns, int count,
                        struct parquet_chunk *chunks, int64_t *rows, bool *more);
void parquet_footer_destroy(struct parquet_footer *footer);

#endif
