/* The page of a sweep. */
#ifndef SWEEP_SWEEP_PAGE_H
#define SWEEP_SWEEP_PAGE_H

#include "sweep/table.h"

/* Writes FOLDER/report.html, completely or not at all: a table of the cases, the lowest loss and the highest speed
 * marked, and the pictures of losses and scaling. Local. ERROR_USER, ERROR_ENVIRONMENT. */
int sweep_page_save(const char *folder, const struct table_heading *heading, const struct run_outcome *outcomes,
                    int count);

#endif
