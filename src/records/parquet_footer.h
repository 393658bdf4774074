/* The footer of a Parquet file: its columns, and where each row group has their data. Format:
 * github.com/apache/parquet-format, README.md and src/main/thrift/parquet.thrift */
#ifndef RECORDS_PARQUET_FOOTER_H
#define RECORDS_PARQUET_FOOTER_H

#include <stdbool.h>
#include <stdint.h>

struct record_source;
struct parquet_footer;

/* Limits of a footer: bytes, elements (groups and columns) of the schema, depth of nested groups. */
enum { PARQUET_FOOTER_BYTES = 1 << 28, PARQUET_ELEMENTS = 1 << 17, PARQUET_DEPTH = 32 };

/* A column of strings, integers or reals. Levels (format README, "Nested Encoding"): an entry with a definition level
 * below the maximum is null, or stands for an empty list; one with repetition level 0 begins a row. */
struct parquet_column {
    char *name;                 /* as requested from parquet_footer_find; freed with free() */
    int64_t place, type;        /* place: index among all columns; type: number in the format */
    int definition, repetition; /* maximum levels */
    int empty;                  /* list: definition level of an empty list */
    int width;                  /* bytes of a number; 0: strings */
    bool no_sign;               /* integers are unsigned */
    bool real;                  /* numbers are IEEE floats */
};

/* A column's data in a row group: the bytes of its pages in the file, and the number of entries. */
struct parquet_chunk {
    int64_t start, bytes, entries;
    int codec;
};

/* Reads the footer; borrows the source. Call parquet_footer_destroy also after an error. ERROR_USER: not a regular
 * file, not Parquet, an encrypted or damaged footer, or one beyond the limits above. */
int parquet_footer_read(struct parquet_footer **footer, struct record_source *source);
/* Finds a column by name: its parts joined by dots, where the parts that a list adds (list.element) may be omitted.
 * ERROR_USER: no column of this name (the message lists the columns), two of them, not strings, lists of lists. */
int parquet_footer_find(const struct parquet_footer *footer, const char *name, struct parquet_column *column);
/* Finds the top-level column `name`, which names the records; *found is false if there is none. ERROR_USER: there are
 * two, or it has neither strings nor integers. */
int parquet_footer_names(const struct parquet_footer *footer, const char *name, struct parquet_column *column,
                         bool *found);
/* Finds a column of labels by name, as parquet_footer_find. ERROR_USER: no column of this name, two of them, a list, or
 * neither strings nor integers nor reals. */
int parquet_footer_label(const struct parquet_footer *footer, const char *name, struct parquet_column *column);
/* Reads the next row group: its number of rows, and the data of these columns to chunks[count], of 0 bytes for a column
 * without entries. *more is false after the last one. ERROR_USER: a damaged footer, encrypted columns, columns in other
 * files. */
int parquet_footer_next(struct parquet_footer *footer, const struct parquet_column *columns, int count,
                        struct parquet_chunk *chunks, int64_t *rows, bool *more);
void parquet_footer_destroy(struct parquet_footer *footer);

#endif
