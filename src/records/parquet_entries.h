/* The entries of a column of strings or integers in a Parquet file, one after the other. Memory holds one page and one
 * dictionary.
 */
#ifndef RECORDS_PARQUET_ENTRIES_H
#define RECORDS_PARQUET_ENTRIES_H

#include "records/parquet_footer.h"
#include "records/parquet_values.h"

struct parquet_entry {
    bool begins_row;
    bool present; /* else null, or an empty list: */
    bool empty_list;
    struct parquet_string string; /* until the next call; empty where there is none; an integer in decimal digits */
};

struct parquet_entries;

/* Borrows the source and the column. */
struct parquet_entries *parquet_entries_create(struct record_source *source, const struct parquet_column *column);
/* Goes to a chunk of the row group of that number (from 1). User errors: a codec that is not read. */
int parquet_entries_start(struct parquet_entries *entries, const struct parquet_chunk *chunk, int64_t group);
/* The chunk's next entry; *more is false behind the last. User errors: those of records/parquet_pages.h; values or
 * levels that do not fit the page, an encoding that is not read. */
int parquet_entries_next(struct parquet_entries *entries, struct parquet_entry *entry, bool *more);
void parquet_entries_destroy(struct parquet_entries *entries);

#endif
