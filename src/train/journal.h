/* log.jsonl: a line of JSON for each thing that a run did, written by rank 0 as it happens (doc/formats.md). Every line
 * has "event" and "step"; the lines of a run stand in the order of its steps. */
#ifndef TRAIN_JOURNAL_H
#define TRAIN_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct journal {
    FILE *file;  /* NULL: nothing is written (all ranks but 0) */
    bool follow; /* the next member or object follows another one */
};

/* Opens `path` for appending. First it drops the lines of steps after `step`, which a killed program left, its
 * validation of `step` where that is made again (`validates`), and damaged lines, with a warning unless it is a
 * half-written last one. Local. ERROR_ENVIRONMENT. */
int journal_open(struct journal *journal, const char *path, int64_t step, bool validates);
/* Warns if any line could not be written. */
void journal_close(struct journal *journal);

/* A line: begin, any number of members, end. Without a file all of them do nothing. */
void journal_begin(struct journal *journal, const char *event, int64_t step);
void journal_integer(struct journal *journal, const char *key, int64_t value);
/* With so many significant digits (17 give the same double back); what is not finite, JSON calls null. */
void journal_real(struct journal *journal, const char *key, double value, int digits);
void journal_reals(struct journal *journal, const char *key, const double *values, int64_t count, int digits);
void journal_text(struct journal *journal, const char *key, const char *value);
/* The value of `key` is a list of objects: list, then for each object members between object and object_end. */
void journal_list(struct journal *journal, const char *key);
void journal_object(struct journal *journal);
void journal_object_end(struct journal *journal);
void journal_list_end(struct journal *journal);
void journal_end(struct journal *journal);

#endif
