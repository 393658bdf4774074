/* Signals as wishes: handlers only set flags; whoever works long polls them. */
#ifndef BASE_SIGNALS_H
#define BASE_SIGNALS_H

#include <stdbool.h>

enum signals_wish { SIGNALS_NONE = 0, SIGNALS_SAVE = 1, SIGNALS_STOP = 2 };

/* From now on USR1, TERM and INT mean stop, USR2 means save; a second TERM or INT ends the process at once, as that
 * signal always does. TERM and INT stay ignored where the process was started so. */
void signals_catch(void);
/* The wishes so far, as a mask of enum signals_wish. A wish to stop stands for good. */
int signals_pending(void);
/* Whether there is a wish to save, which this call takes: true once for a USR2. */
int signals_take_save(void);
/* Whether there is a wish to stop. */
bool signals_stopping(void);

#endif
