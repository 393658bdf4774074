/* A file of metrics for Prometheus, in its text format 0.0.4, as node_exporter's textfile collector reads it. It is
 * exchanged whole, by rename, at most once a second and at the end of a program; then it stays. A file that cannot be
 * written stops no run. */
#ifndef MONITOR_PROMETHEUS_H
#define MONITOR_PROMETHEUS_H

#include "monitor/metrics.h"

struct prometheus {
    char *path; /* NULL: nothing is written */
    char *run;  /* the run's folder from the root, a label of each metric: a collector has several runs, and may refuse
                 * the metrics of all if two have the same labels */
    double written;
    bool failing; /* the last try failed, and that was told */
};

/* May the file of this name be replaced? ERROR_USER: something else than a file of a run's metrics is there. */
int prometheus_check(const char *folder, const char *name);

/* name: log.prometheus of the deck; "": no file; without a "/" it is in the run's folder. Local. */
void prometheus_open(struct prometheus *prometheus, const char *folder, const char *name);
void prometheus_close(struct prometheus *prometheus);

/* What stands there now; left out where the last write is less than a second old. */
void prometheus_write(struct prometheus *prometheus, const struct shown_row *shown);
/* The same at the end of the program, whose exit code is added. */
void prometheus_end(struct prometheus *prometheus, const struct shown_row *shown, int code);

#endif
