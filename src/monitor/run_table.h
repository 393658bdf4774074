/* The table of a run on standard output: a row of what it shows, and now and then a header above it. */
#ifndef MONITOR_RUN_TABLE_H
#define MONITOR_RUN_TABLE_H

#include "monitor/metrics.h"

/* All zero before the first row. */
struct run_table {
    int64_t rows; /* so far */
    bool narrow;  /* for terminals of 80 columns, as the last header is */
};

/* The columns are those of the metrics (monitor/metrics.h). Local. */
void run_table_print(struct run_table *table, const struct run_numbers *numbers);

#endif
