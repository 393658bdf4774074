/* What the ranks tell rank 0 at each row of the meter, all in one collective: tokens, memory and state of their GPUs,
 * and how long each was at work, by which a rank that holds up the others is found. Nothing is exchanged in between. */
#ifndef MONITOR_WATCH_H
#define MONITOR_WATCH_H

#include "comm/comm.h"
#include "monitor/metrics.h"
#include "monitor/straggler.h"

enum { WATCH_HOST_BYTES = 64 };

/* Of one rank: tokens and positions since the last row, and unpadded tokens of the whole run. */
struct watch_counts {
    int64_t tokens;    /* that are no padding */
    int64_t positions; /* that were computed */
    int64_t unpadded;  /* tokens since the run began */
};

struct rank_watch {
    struct comm *world;        /* borrowed */
    struct executor *executor; /* borrowed */
    int part;                  /* of the model, that this rank has (monitor/straggler.h) */
    struct nvml nvml;
    double row, read;                /* clock of the last row, and of the last at which GPUs were read */
    bool reads;                      /* at the next row */
    double collectives;              /* seconds in them since the last row, of steps */
    char (*hosts)[WATCH_HOST_BYTES]; /* [ranks], owned */
    struct shown_gpu *gpus;          /* [gpu_count] of the last readings, in the order of ranks, owned; rank 0's */
    int gpu_count;

    struct straggler straggler; /* rank 0's */
    /* since the last look */
    double begun; /* clock */
    double apart; /* seconds of validations, saves and of telling of it */
    double waited;
    double work[STRAGGLER_PHASES]; /* but STRAGGLER_COMPUTE, which is the rest */
    double host_mark, device_mark; /* of what was waited in all, at the last watch_step or watch_phase */
    double optimizer_mark;         /* of the optimizer's launches, at the last look */
};

/* What was found at a row; rank 0's is complete. */
struct watch_row {
    struct watch_counts counts;             /* summed over ranks */
    double device, device_mean, device_max; /* bytes in use on GPUs: rank 0's, mean and largest over ranks; NaN */
    double collectives;                     /* seconds in them since the last row, mean over ranks */
    bool read;                              /* GPUs were read anew */
    bool slow;                              /* `straggler` is to be told of */
    struct straggler_found straggler;
};

/* Collective, as is watch_look. */
void watch_open(struct rank_watch *watch, struct comm *world, struct executor *executor, int part);
void watch_close(struct rank_watch *watch);

/* A step has ended. */
void watch_step(struct rank_watch *watch);
/* `seconds` have gone to a phase. */
void watch_phase(struct rank_watch *watch, enum straggler_phase phase, double seconds);
/* At a row. `counts` are this rank's. */
struct watch_row watch_look(struct rank_watch *watch, const struct watch_counts *counts);
/* Telling of a row has taken rank 0 these seconds, which are no work of its own. */
void watch_told(struct rank_watch *watch, double seconds);

#endif
