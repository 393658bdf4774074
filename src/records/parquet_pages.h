/* Reads the pages of a column in one row group of a Parquet file, decompressed, in order; memory holds one page.
 * Format: github.com/apache/parquet-format, README.md ("Data Pages") and Compression.md */
#ifndef RECORDS_PARQUET_PAGES_H
#define RECORDS_PARQUET_PAGES_H

#include "records/parquet_footer.h"
#include "records/parquet_values.h"

/* Limits of a page: bytes, compressed or not; entries; bytes of its header. */
enum { PARQUET_PAGE_BYTES = 1 << 30, PARQUET_PAGE_ENTRIES = 1 << 27, PARQUET_HEADER_BYTES = 1 << 24 };

struct parquet_page {
    bool dictionary; /* a dictionary page; else a data page */
    int64_t entries; /* strings of a dictionary; in data pages, nulls and empty lists included */
    int encoding;
    struct parquet_bytes repetition, definition, values; /* levels are RLE; empty if the column has none */
};

struct parquet_pages;

/* Makes a reader; borrows the source. `column`, borrowed too, determines which levels pages have, and is named in
 * messages. */
struct parquet_pages *parquet_pages_create(struct record_source *source, const struct parquet_column *column);
/* Moves to the pages of a chunk in a row group, whose number is `group` (from 1). ERROR_USER: an unsupported codec. */
int parquet_pages_start(struct parquet_pages *pages, const struct parquet_chunk *chunk, int64_t group);
/* Reads the next page, valid until the next call. To be called only while entries are missing: the end of the chunk is
 * an error. ERROR_USER, naming file, column, row group and page: damaged or truncated pages, wrong checksums, pages
 * beyond the limits above, sizes other than announced. */
int parquet_pages_next(struct parquet_pages *pages, struct parquet_page *page);
/* Records the error that the current page is damaged, with the text `what`; returns ERROR_USER. */
int parquet_pages_damaged(const struct parquet_pages *pages, const char *what);
void parquet_pages_destroy(struct parquet_pages *pages);

#endif
