/* Signals as requests (to stop, to save): they only set flags, which long work polls. A thread of its own waits for
 * them and no handler ever interrupts another thread: oneDNN's sgemm (2.7, AVX-512) keeps data below the stack's red
 * zone, where a handler's frame would destroy it. */
#ifndef BASE_SIGNALS_H
#define BASE_SIGNALS_H

#include <stdbool.h>

/* END is set beside STOP after a TERM or INT, whose sender may not wait long. */
enum signals_wish { SIGNALS_NONE = 0, SIGNALS_SAVE = 1, SIGNALS_STOP = 2, SIGNALS_END = 4 };

/* From now on USR1, TERM, INT and HUP mean stop, USR2 means save; a second TERM or INT, 0.2 s or more after the
 * first, ends the process at once, as that signal always does. TERM, INT and HUP stay ignored where the process was
 * started so. PIPE is ignored: writing to a pipe without a reader fails instead. To be called once, before any other
 * thread is there. */
void signals_catch(void);
/* The requests so far, as a mask of enum signals_wish. A request to stop is never cleared. */
int signals_pending(void);
/* Is there a request to save? Clears it: true once for each USR2. */
int signals_take_save(void);
/* Is there a request to stop? */
bool signals_stopping(void);

#endif
