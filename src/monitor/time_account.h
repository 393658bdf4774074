/* The account of a run's wall-clock time since its first program began, from the lines of its log.jsonl. A restart
 * drops lines of the log (monitor/event_log.h); what they say about time it writes to the log as one line "lost". The
 * account thus outlives every program, and needs no other file. */
#ifndef MONITOR_TIME_ACCOUNT_H
#define MONITOR_TIME_ACCOUNT_H

#include <jansson.h>
#include <stdint.h>

/* The kinds of time. They do not overlap; the rest of the wall-clock time is TIME_REST. */
enum time_kind {
    TIME_STEPS,      /* steps that count: no later start has repeated them */
    TIME_LOST,       /* steps, validations and saves that a later start has repeated */
    TIME_START,      /* from a program's begin to its line "start": MPI, reading, planning, tuning */
    TIME_VALIDATION, /* validations that count */
    TIME_SAVES,      /* waiting for checkpoints */
    TIME_BETWEEN,    /* from the last line of a program to the begin of the next one */
    TIME_REST,
    TIME_KINDS
};

struct time_account {
    double seconds[TIME_REST];
    double begun, until;          /* Unix seconds: begin of the first program, last line; NaN: no line has a time */
    int64_t programs, lost_steps; /* programs that have begun; repeated steps */
};

/* The time of the lines that a restart drops. */
struct time_lost {
    int64_t steps;  /* repeated steps */
    double seconds; /* of these steps, and of dropped validations and saves */
    double counted; /* of steps that the checkpoint includes, although their line is dropped */
    double until;   /* Unix seconds of the last of the lines; NaN: none has a time */
};

/* Returns the text of a kind, such as "start-up". */
const char *time_kind_name(enum time_kind kind);

struct time_account time_account_create(void);
/* Adds a line of the log, in the order of the file. */
void time_account_add(struct time_account *account, const json_t *line);
/* Adds a line that a start at `step` drops. `lost` begins as {.until = NAN}. */
void time_lost_add(struct time_lost *lost, const json_t *line, int64_t step);

/* Returns the seconds of a kind. now: Unix seconds up to which TIME_REST is counted. */
double time_account_seconds(const struct time_account *account, enum time_kind kind, double now);

#endif
