/* Private functions of the meter's .c files: lines of log.jsonl. */
#ifndef MONITOR_METER_PRIVATE_H
#define MONITOR_METER_PRIVATE_H

#include "monitor/meter.h"

/* Begin and end a line about a step; the caller adds members in between. */
void meter_begin_line(struct run_meter *meter, const char *event, int64_t step);
void meter_end_line(struct run_meter *meter);

/* Writes the line "start". */
void meter_start(struct run_meter *meter);
/* Writes the line "straggler" about a rank that slows down the others. */
void meter_straggler(struct run_meter *meter, int64_t step, const struct straggler_found *found);

#endif
