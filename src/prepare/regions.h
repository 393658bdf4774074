/* Regions of records, from a BED file (UCSC's format), plain or compressed: lines of at least three columns, separated
 * by tabs or blanks: record, start (from 0), end (exclusive), and if they are there name, score, strand (+, - or .).
 * Lines that begin with #, track or browser, and blank lines are dropped. */
#ifndef PREPARE_REGIONS_H
#define PREPARE_REGIONS_H

#include <stdbool.h>
#include <stdint.h>

struct bed_region {
    char *record, *name; /* name: column 4, or record:start-end, with (-) on the other strand */
    int64_t start, end;  /* bases, from 0; end exclusive */
    int64_t line;        /* in the file, from 1 */
    bool reverse;
};

struct bed_regions {
    char *path;
    struct bed_region *list; /* [count], sorted by record, then in the file's order */
    int64_t count, capacity;
};

/* Reads a file; call regions_destroy also after an error. ERROR_USER: errors of line_reader.h; a line of another form;
 * no region. */
int regions_read(struct bed_regions *regions, const char *path);
void regions_destroy(struct bed_regions *regions);

/* Returns the regions of a record, *count of them, in the file's order. */
const struct bed_region *regions_of(const struct bed_regions *regions, const char *record, int64_t *count);

#endif
