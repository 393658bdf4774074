/* Prints the table of a run on standard output: rows of metrics, and repeatedly a header. */
#ifndef MONITOR_RUN_TABLE_H
#define MONITOR_RUN_TABLE_H

#include "monitor/metrics.h"

/* All fields are zero before the first row. */
struct run_table {
    int64_t rows; /* rows printed so far */
    bool narrow;  /* the last header is for terminals of 80 columns */
};

/* Prints a row, after a header if one is due. The columns are those of monitor/metrics.h. Local. */
void run_table_print(struct run_table *table, const struct run_numbers *numbers);

#endif
