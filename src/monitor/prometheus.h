/* Writes a file of metrics for Prometheus (text format 0.0.4), which node_exporter's textfile collector reads. The file
 * is replaced atomically, at most once a second and at the end of the program, and remains afterwards. A run continues
 * if the file cannot be written. */
#ifndef MONITOR_PROMETHEUS_H
#define MONITOR_PROMETHEUS_H

#include "monitor/metrics.h"

struct prometheus {
    char *path; /* NULL: no file */
    /* Absolute path of the run folder, a label of each metric: a collector reads the files of several runs, and may
     * refuse all metrics if two of them have the same labels. */
    char *run;
    double written;
    bool failing; /* the last write failed, and a warning was logged */
};

/* Checks that the file may be replaced. ERROR_USER: it exists and is not a file of a run's metrics. Local. */
int prometheus_check(const char *folder, const char *name);

/* Opens the file. name: log.prometheus of the deck; "": no file; without a "/", it is in the run folder. Local. */
void prometheus_open(struct prometheus *prometheus, const char *folder, const char *name);
void prometheus_close(struct prometheus *prometheus);

/* Writes the metrics, unless the last write is less than a second old. */
void prometheus_write(struct prometheus *prometheus, const struct shown_row *shown);
/* Writes the metrics at the end of the program, with its exit code. */
void prometheus_end(struct prometheus *prometheus, const struct shown_row *shown, int code);

#endif
