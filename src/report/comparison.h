/* `cistron report A B C`: compares several runs, as an HTML page and as text. */
#ifndef REPORT_COMPARISON_H
#define REPORT_COMPARISON_H

#include <stdint.h>

struct comparison_settings {
    const char *out; /* path of the page */
    double target;   /* nats: report the time to this loss; NaN: do not */
    double tokens;   /* report the days for this number of tokens too; 0: do not */
    int64_t warm_up; /* first steps of a program that are left out of speeds */
};

enum { COMPARISON_RUNS = 26 };

/* Writes the page, completely or not at all, and the text to standard output. Runs are folders or log.jsonl files, and
 * may still be running. One process, no MPI. Records a message and returns ERROR_USER (more than COMPARISON_RUNS runs,
 * or not a run) or ERROR_ENVIRONMENT. */
int comparison_run(char *const runs[], int count, const struct comparison_settings *settings);

#endif
