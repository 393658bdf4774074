/* What data/windows.c keeps of a store: the number of each sequence's first window, in a side file or in memory. */
#ifndef DATA_WINDOWS_INDEX_H
#define DATA_WINDOWS_INDEX_H

#include "data/windows.h"

/* Windows and tokens of a store go to *header, by reading its offsets; no side file is made. ERROR_USER: offsets that
 * are not monotone; ERROR_REQUEUE: a signal came. */
int windows_index_measure(const struct token_store *store, const struct windows_layout *layout,
                          struct windows_header *header);

/* Gives windows->first and ->header from the side file, which must be of this very file and as it was written: its hash
 * is compared. Where there is none such it is made, for which the store is read whole and compared with its checksum;
 * where that cannot be done, windows->first stays NULL. Who is killed while he makes one leaves PATH.tmp, under a lock
 * that dies with him; the next to come here takes it over. Errors: those of token_store_verify and of
 * windows_index_measure. */
int windows_index_obtain(struct windows *windows, const struct windows_layout *layout);

/* The same from a side file that is of a store with this checksum and layout, without comparing its hash unless `hash`;
 * it is not made. False where there is none. */
bool windows_index_map(struct windows *windows, const struct windows_layout *layout, bool hash);

/* The same as a table in this process's memory. Errors of windows_index_measure. */
int windows_index_tabulate(struct windows *windows, const struct windows_layout *layout);

/* The side file's path, freed with free(). */
char *windows_index_path(const struct token_store *store, const struct windows_layout *layout);

#endif
