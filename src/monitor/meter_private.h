/* Of the meter's own files: how they write a line of log.jsonl. */
#ifndef MONITOR_METER_PRIVATE_H
#define MONITOR_METER_PRIVATE_H

#include "monitor/meter.h"

/* A line of log.jsonl that tells of a step; its members, which the caller adds, go between the two. */
void meter_begin_line(struct run_meter *meter, const char *event, int64_t step);
void meter_end_line(struct run_meter *meter);

/* The line of a program that begins or goes on. */
void meter_start(struct run_meter *meter);
/* The line of a rank that holds up the others. */
void meter_straggler(struct run_meter *meter, int64_t step, const struct straggler_found *found);

#endif
