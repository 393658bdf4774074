/* Reads the entries of a column of strings or numbers of a Parquet file, in order. Memory holds one page and one
 * dictionary. */
#ifndef RECORDS_PARQUET_ENTRIES_H
#define RECORDS_PARQUET_ENTRIES_H

#include "records/parquet_footer.h"
#include "records/parquet_values.h"

struct parquet_entry {
    bool begins_row;
    bool present; /* false: null, or an empty list */
    bool empty_list;
    struct parquet_string string; /* valid until the next call; numbers in decimal digits, reals with
                                     as many as return their bits; empty if not present */
};

struct parquet_entries;

/* Makes a reader of one column. Borrows the source and the column. */
struct parquet_entries *parquet_entries_create(struct record_source *source, const struct parquet_column *column);
/* Moves to the column's chunk in a row group, whose number is `group` (from 1). ERROR_USER: an unsupported codec. */
int parquet_entries_start(struct parquet_entries *entries, const struct parquet_chunk *chunk, int64_t group);
/* Reads the chunk's next entry; *more is false after the last one. ERROR_USER: as in records/parquet_pages.h; values or
 * levels that do not fit the page; an unsupported encoding. */
int parquet_entries_next(struct parquet_entries *entries, struct parquet_entry *entry, bool *more);
void parquet_entries_destroy(struct parquet_entries *entries);

#endif
