/* Of the meter's own files: how they write a line of log.jsonl. */
#ifndef TRAIN_METER_PRIVATE_H
#define TRAIN_METER_PRIVATE_H

#include "train/meter.h"

enum { EXACT_DIGITS = 17, RATE_DIGITS = 6 };

/* A line of a step that is shown by it; what goes between is the caller's. */
void meter_begin_line(struct meter *meter, const char *event, int64_t step);
/* Also of lines that the journal alone began. */
void meter_end_line(struct meter *meter);

/* The line of a program that begins or goes on. */
void meter_start(struct meter *meter);
/* The line of a rank that holds up the others. */
void meter_straggler(struct meter *meter, int64_t step, const struct straggler_found *found);

#endif
