/* Collects reports of all ranks at each row of the meter, in one collective: tokens, memory and state of their GPUs,
 * and how long each rank worked, by which stragglers are found. Nothing is communicated between rows. */
#ifndef MONITOR_WATCH_H
#define MONITOR_WATCH_H

#include "comm/comm.h"
#include "monitor/metrics.h"
#include "monitor/straggler.h"

enum { WATCH_HOST_BYTES = 64 };

/* Counts of one rank: the first two since the last row, the third of the whole run. */
struct watch_counts {
    int64_t tokens;    /* tokens without padding */
    int64_t positions; /* tokens with padding */
    int64_t unpadded;  /* tokens without padding since the run began */
};

struct rank_watch {
    struct comm *world;        /* borrowed */
    struct executor *executor; /* borrowed */
    int stage;                 /* this rank's stage (monitor/straggler.h) */
    struct nvml nvml;
    double row, read;                /* clock at the last row, and at the last row at which GPUs were read */
    bool reads;                      /* GPUs are read at the next row */
    double collectives;              /* seconds in collectives of steps since the last row */
    char (*hosts)[WATCH_HOST_BYTES]; /* [ranks], owned */
    struct shown_gpu *gpus;          /* [gpu_count] last readings in the order of ranks, owned; on rank 0 */
    int gpu_count;

    struct straggler straggler; /* on rank 0 */
    /* since the last look for stragglers */
    double started; /* clock */
    double apart;   /* seconds of validations, saves and reporting */
    double waited;
    double work[STRAGGLER_PHASES]; /* except STRAGGLER_COMPUTE, which is the rest */
    double host_mark, device_mark; /* total seconds waited, at the last watch_step or watch_phase */
    double optimizer_mark;         /* seconds of the optimizer's launches, at the last look */
};

/* The results at a row, complete on rank 0. */
struct watch_row {
    struct watch_counts counts; /* sums over ranks */
    /* Bytes in use on GPUs: on rank 0's, mean and maximum over ranks; NaN: no GPUs. */
    double device, device_mean, device_max;
    double collectives; /* seconds in collectives since the last row, mean over ranks */
    bool read;          /* GPUs were read at this row */
    bool slow;          /* `straggler` is set, and to be reported */
    struct straggler_found straggler;
};

/* Opens the watch on this rank. Collective; watch_close is local. */
void watch_open(struct rank_watch *watch, struct comm *world, struct executor *executor, int stage);
void watch_close(struct rank_watch *watch);

/* Counts the waiting time of a step that has ended. Local. */
void watch_step(struct rank_watch *watch);
/* Counts `seconds` of a phase. Local. */
void watch_phase(struct rank_watch *watch, enum straggler_phase phase, double seconds);
/* Exchanges the reports at a row; counts: this rank's. Collective. */
struct watch_row watch_look(struct rank_watch *watch, const struct watch_counts *counts);
/* Counts `seconds` that rank 0 spent on reporting a row, which are not work of a phase. */
void watch_reported(struct rank_watch *watch, double seconds);

#endif
