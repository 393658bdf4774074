/* The pages of a column in one row group of a Parquet file, decompressed one after the other; memory holds one page.
 * Source of the format: github.com/apache/parquet-format, README.md ("Data Pages") and Compression.md */
#ifndef RECORDS_PARQUET_PAGES_H
#define RECORDS_PARQUET_PAGES_H

#include "records/parquet_footer.h"
#include "records/parquet_values.h"

/* The most that a page may have: bytes, decompressed or not; entries; bytes of its header. */
enum { PARQUET_PAGE_BYTES = 1 << 30, PARQUET_PAGE_ENTRIES = 1 << 27, PARQUET_HEADER_BYTES = 1 << 24 };

struct parquet_page {
    bool dictionary; /* not data */
    int64_t entries; /* strings of a dictionary; else with nulls and empty lists */
    int encoding;
    struct parquet_bytes repetition, definition, values; /* levels: RLE; empty where the column has none */
};

struct parquet_pages;

/* Borrows the source. `column` is what messages name, and says which levels a page has. */
struct parquet_pages *parquet_pages_create(struct record_source *source, const struct parquet_column *column);
/* Goes to the pages of a chunk of the row group of that number (from 1). User errors: a codec that is not read. */
int parquet_pages_start(struct parquet_pages *pages, const struct parquet_chunk *chunk, int64_t group);
/* The next page, which stays until the call after it. Only while entries are wanted: a chunk that ends is an error.
 * User errors name file, column, row group and page: damaged or truncated pages, wrong checksums, pages beyond the
 * limits above, sizes that are not those announced. */
int parquet_pages_next(struct parquet_pages *pages, struct parquet_page *page);
/* ERROR_USER: the present page is damaged; the message says so and `what`. */
int parquet_pages_damaged(const struct parquet_pages *pages, const char *what);
void parquet_pages_destroy(struct parquet_pages *pages);

#endif
