/* The terminal that shows this process's standard output. */
#ifndef BASE_TERMINAL_H
#define BASE_TERMINAL_H

/* Returns the terminal's columns; 0 if standard output is not a terminal or the width is unknown. COLUMNS in the
 * environment takes precedence. Under a launcher (mpirun), the width is that of the launcher's terminal, if it is on
 * this host. */
int terminal_columns(void);

#endif
