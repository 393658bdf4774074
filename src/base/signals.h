/* Signals as requests (to stop, to save): they only set flags, which all long work polls. A dedicated thread waits for
 * signals, and no handler ever interrupts another thread: oneDNN's sgemm (2.7, AVX-512) keeps data below the stack's
 * red zone, where a handler's frame would destroy it. */
#ifndef BASE_SIGNALS_H
#define BASE_SIGNALS_H

#include <stdbool.h>

/* SIGNALS_END is set with SIGNALS_STOP after a TERM or INT, whose sender may not wait long. */
enum signals_request { SIGNALS_NONE = 0, SIGNALS_SAVE = 1, SIGNALS_STOP = 2, SIGNALS_END = 4 };

/* Starts catching signals. USR1, TERM, INT and HUP request a stop, USR2 a save; a second TERM or INT, more than 0.2 s
 * after the first, ends the process at once, as that signal does by default. TERM, INT and HUP stay ignored if they
 * were ignored at the program's start. PIPE is ignored: writing to a pipe without a reader fails instead. Call it once,
 * before any other thread exists. */
void signals_catch(void);
/* Returns the requests so far, a mask of enum signals_request. A stop request is never cleared. */
int signals_pending(void);
/* Returns whether a save is requested, and clears the request. */
int signals_take_save(void);
/* Returns whether a stop is requested. */
bool signals_stopping(void);

#endif
