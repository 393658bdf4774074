/* What a run shows: the table, the JSON lines, the timers. Rank 0 writes; some calls are collective because they sum
 * over ranks. */
#ifndef TRAIN_METER_H
#define TRAIN_METER_H

#include "comm/comm.h"

#include <stdio.h>

/* Where a rank's time goes. */
enum meter_timer { METER_STEP, METER_DATA, METER_VALIDATION, METER_CHECKPOINT, METER_TIMERS };

struct meter {
    struct comm *world;
    FILE *lines; /* rank 0's log.jsonl */
    int64_t rows_printed;
    int64_t tokens;  /* real tokens of this rank since the last row */
    double loss_sum; /* nats of all ranks since the last row */
    double labels;
    double since;     /* clock at the last row */
    double data_wait; /* seconds since the last row */
    double idle;      /* seconds since the last row that are not training: validation, checkpoints */
    double seconds[METER_TIMERS];
    int64_t calls[METER_TIMERS];
    double started;
};

/* Collective. Opens FOLDER/log.jsonl for appending; lines of steps after `step`, left by a run that was killed, are
 * dropped first. Returns an agreed code. */
int meter_open(struct meter *meter, struct comm *world, const char *folder, int64_t step);
void meter_close(struct meter *meter);

/* Adds a call to a timer of this rank. */
void meter_add(struct meter *meter, enum meter_timer timer, double seconds);

/* Counts a step's losses and real tokens towards the next row. */
void meter_count(struct meter *meter, double loss_sum, double labels, int64_t tokens);

struct meter_row {
    int64_t step;
    double loss, learning_rate, grad_norm; /* of this step */
};
/* One table row and JSON line for the steps since the last one. The table shows the mean loss over their labels, the
 * line both that and the last step's own. Collective. */
void meter_step(struct meter *meter, const struct meter_row *row);
/* A line for a validation, and one for a checkpoint. */
void meter_validation(struct meter *meter, int64_t step, double loss, double labels);
void meter_checkpoint(struct meter *meter, int64_t step, const char *path, uint64_t digest, double seconds);

/* What else happened at a step: a table comment and a JSON line with this event's name. */
void meter_note(struct meter *meter, int64_t step, const char *event, const char *text);

/* The timer summary: seconds as minimum, mean and maximum over ranks, calls of rank 0; and the ops, dry runs of the
 * planner included. Collective. */
void meter_summary(struct meter *meter);

#endif
