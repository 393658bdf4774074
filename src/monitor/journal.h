/* log.jsonl: a line of JSON for each event of a run, written by rank 0 as it happens (doc/formats.md). Every line has
 * "event" and "step". Lines of steps and validations are in the order of their steps, each once; that of a checkpoint
 * comes when its file is there, which may be some steps later. Lines on the program itself ("start", "end", "diverged",
 * ...) stay where they were written.
 *
 * A log that cannot be written stops no run: its lines wait in memory, some megabytes of them, and are written as soon
 * as possible. */
#ifndef MONITOR_JOURNAL_H
#define MONITOR_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct run_journal {
    char *path; /* NULL: nothing is written (all ranks but 0) */
    int64_t step;
    bool validates;
    int descriptor;   /* -1: not open, or not yet */
    double tried;     /* clock of the last try to open it */
    FILE *line;       /* the line that is being made, in memory */
    char *line_bytes; /* its text */
    size_t line_length;
    bool follow;   /* the next member or object follows another one */
    char *waiting; /* what is not written yet: the rest of a line, then whole ones */
    int64_t waiting_bytes, waiting_room, lost_lines;
    bool failing;    /* the last try to write failed, and that was told */
    bool unfinished; /* the last program of the file has left no "end" */
};

/* Appends to `path`. First it drops the lines of steps after `step`, which a killed program left, its validation of
 * `step` where that is made again (`validates`), and damaged lines, with a warning unless it is a half-written last
 * one. Where that fails there is a warning, and it is tried again later. Local. */
void journal_open(struct run_journal *journal, const char *path, int64_t step, bool validates);
/* Tries once more to write what waits, and warns of what is lost. Does nothing on a journal of zeros. */
void journal_close(struct run_journal *journal);

/* A line: begin, any number of members, end. On a journal of zeros all of them do nothing. */
void journal_begin(struct run_journal *journal, const char *event, int64_t step);
void journal_integer(struct run_journal *journal, const char *key, int64_t value);
void journal_truth(struct run_journal *journal, const char *key, bool value);
/* With `digits` significant digits: EXACT_DIGITS give the same double back. What is not finite is null in JSON. */
enum { EXACT_DIGITS = 17, RATE_DIGITS = 6 };
void journal_real(struct run_journal *journal, const char *key, double value, int digits);
void journal_reals(struct run_journal *journal, const char *key, const double *values, int64_t count, int digits);
void journal_text(struct run_journal *journal, const char *key, const char *value);
/* The value of `key` is a list of objects: list, then for each object members between object and object_end. */
void journal_list(struct run_journal *journal, const char *key);
void journal_object(struct run_journal *journal);
void journal_object_end(struct run_journal *journal);
void journal_list_end(struct run_journal *journal);
void journal_end(struct run_journal *journal);

#endif
