/* Reader of Parquet files: one column of strings, or of lists of strings, in any row groups; doc/formats_input.md lists
 * the supported features. A Parquet file is read from its end, so it cannot be a pipe or compressed as a whole. The
 * code is our own, because distributions have no Parquet library for C.
 *
 * A record is an entry of the column settings->field (records/parquet_footer.h); an empty list is an empty record. Its
 * name is the first word of column "record", or else "id": a string, or an integer in decimal digits. Without these
 * columns, or if the name is null or blank, it is the row's number from 1. Entries of a list append .1, .2, ... to the
 * name. Labels are entries of the columns settings->labels, strings or numbers; null is none. Memory: a page and a
 * dictionary for each column.
 *
 * User errors name file, column, row group and page: as in records/parquet_entries.h; or the row: a null in the column
 * (dropped and counted if settings->skipped), characters that record_clean rejects, a control character in a name. */
#ifndef RECORDS_PARQUET_H
#define RECORDS_PARQUET_H

#include "records/record_class.h"

extern const struct record_class parquet_class;

#endif
