/* The event log, log.jsonl: a line of JSON for each event of a run, written by rank 0 as it happens
 * (doc/formats_logs.md). Every line has "event" and "step". Lines of steps and validations are in the order of steps,
 * each once. The line of a checkpoint is written when its file is complete, which may be some steps later. Lines about
 * the program itself ("start", "end", "diverged", ...) are never dropped.
 *
 * A run continues if its log cannot be written: lines are kept in memory, up to 16 MiB, and written as soon as
 * possible. */
#ifndef MONITOR_EVENT_LOG_H
#define MONITOR_EVENT_LOG_H

#include "monitor/time_account.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct event_log {
    char *path; /* NULL: nothing is written (all ranks except 0) */
    int64_t step;
    bool validates;
    int descriptor;   /* -1: not open */
    double tried;     /* clock of the last attempt to open the file */
    FILE *line;       /* the line being made, in memory */
    char *line_bytes; /* text of this line */
    size_t line_length;
    bool follow;   /* the next member or object needs a comma before it */
    char *waiting; /* unwritten text: the rest of a line, then whole lines */
    int64_t waiting_bytes, waiting_capacity, lost_lines;
    bool failing;                /* the last write failed, and a warning was logged */
    bool unfinished;             /* the last program that wrote to the file left no "end" */
    struct time_account account; /* time of the file's lines when it was opened */
};

/* Opens the log at `path` for appending. First drops the lines of steps after `step`, which a killed program left; with
 * `validates` also the validation of `step`, which will be repeated; and damaged lines, with a warning unless it is a
 * half-written last line. A line "lost" takes the place of the dropped lines: their time (monitor/time_account.h). If
 * that fails, it warns and tries again later. Local. */
void event_log_open(struct event_log *event_log, const char *path, int64_t step, bool validates);
/* Tries a last time to write the waiting lines, warns of lost ones, and frees the event_log. Does nothing on a
 * event_log of zeros. */
void event_log_close(struct event_log *event_log);

/* A line is event_log_begin, any number of members, event_log_end. On a event_log of zeros these functions do nothing.
 */
void event_log_begin(struct event_log *event_log, const char *event, int64_t step);
void event_log_integer(struct event_log *event_log, const char *key, int64_t value);
void event_log_boolean(struct event_log *event_log, const char *key, bool value);
/* Writes numbers with `digits` significant digits; EXACT_DIGITS restore the same double. Infinities and NaN become
 * null. */
enum { EXACT_DIGITS = 17, RATE_DIGITS = 6 };
void event_log_real(struct event_log *event_log, const char *key, double value, int digits);
void event_log_reals(struct event_log *event_log, const char *key, const double *values, int64_t count, int digits);
void event_log_text(struct event_log *event_log, const char *key, const char *value);
/* Writes a list of objects as the value of `key`: event_log_list, for each object event_log_object, members and
 * event_log_object_end, then event_log_list_end. */
void event_log_list(struct event_log *event_log, const char *key);
void event_log_object(struct event_log *event_log);
void event_log_object_end(struct event_log *event_log);
void event_log_list_end(struct event_log *event_log);
void event_log_end(struct event_log *event_log);

#endif
