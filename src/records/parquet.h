/* Reader of Parquet files: a column of strings, or of lists of strings, in any row groups; see doc/formats.md for what
 * is read of the format. Not compressed as a whole and no pipe: a Parquet file is read from its end.
 * A record is an entry of the column that the settings' field names (records/parquet_footer.h); an empty list is an
 * empty record. Its name is the first word of column "record", or else "id", of strings, or its integer in decimal
 * digits; where there is neither column, or a null or blank in it, the number of its row, from 1; of a list, with .1,
 * .2, ... behind it for its entries. Own code, because distributions have no Parquet library for C. Memory holds a page
 * and a dictionary of each of the two columns. User errors name file, column, row group and page: those of
 * records/parquet_entries.h; and with the row, a null in the column (which settings->skipped leaves out), characters
 * that record_clean refuses, a control character in a name. */
#ifndef RECORDS_PARQUET_H
#define RECORDS_PARQUET_H

#include "records/record_class.h"

extern const struct record_class parquet_class;

#endif
