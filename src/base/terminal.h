/* The terminal that shows this process's standard output. */
#ifndef BASE_TERMINAL_H
#define BASE_TERMINAL_H

/* Its columns; 0: standard output goes elsewhere, or nobody knows how wide it is. Where a launcher (mpirun) stands
 * between, it is the terminal of the launcher on this host. COLUMNS in the environment comes first. */
int terminal_columns(void);

#endif
