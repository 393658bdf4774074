/* Writes the table of a sweep, with a row for each case. */
#ifndef SWEEP_TABLE_H
#define SWEEP_TABLE_H

#include "sweep/outcome.h"

/* Writes FOLDER/results.csv and FOLDER/results.h5, each completely or not at all. Column names of the first are
 * followed by units. The second has the dataset `cases` of compounds, with the attributes of HDF5's table convention
 * and FIELD_n_UNIT; attributes of the file are cistron_sweep (format version), version, list, build and device. Local.
 * ERROR_USER, ERROR_ENVIRONMENT. */
struct table_heading {
    const char *list, *build, *device; /* path of the list; device "": no case has ended */
};
int table_save(const char *folder, const struct table_heading *heading, const struct run_outcome *outcomes, int count);

/* Prints the main columns on standard output. */
void table_print(const struct run_outcome *outcomes, int count);

#endif
