/* Progress of a long command, for people: one line on standard error with the share that is done, the rate and the time
 * left, redrawn in place. Only rank 0 draws, and only if standard error is a terminal; else every function returns at
 * once. The line never remains: progress_end and each line of the log (base/log.h) erase it. */
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

#include <stdbool.h>

struct progress_line {
    const char *what, *unit; /* such as "reading" and "MB"; borrowed */
    double total, done;      /* in units; total 0: unknown, so the line has no share and no time left */
    double start, last;      /* clock_seconds() at the start and when the line was last drawn; last < 0: never */
    bool shown;
};

/* Begins a progress. A process shows one at a time: one that begins inside another is not shown. */
void progress_start(struct progress_line *progress, const char *what, const char *unit, double total);
/* Adds to `done`, or sets it, and redraws the line at most five times a second. progress_add may be called by several
 * threads. */
void progress_add(struct progress_line *progress, double amount);
void progress_set(struct progress_line *progress, double done);
/* Erases the line. */
void progress_end(struct progress_line *progress);
/* Returns whether the line is shown: for work that only progress needs, such as counting the input first. */
bool progress_wanted(void);

/* Erases the line that any progress has drawn, before other text; the next progress_add draws it again. */
void progress_erase(void);

#endif
