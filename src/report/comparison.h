/* `cistron report A B C`: several runs beside each other, as a page and as text. */
#ifndef REPORT_COMPARISON_H
#define REPORT_COMPARISON_H

#include <stdint.h>

struct comparison_settings {
    const char *out; /* the page */
    double target;   /* nats: the time to this loss is told; NaN: none is */
    double tokens;   /* the days that so many take are told; 0: none are beside flops.h's */
    int64_t warm_up; /* steps of a program that speeds leave out */
};

enum { COMPARISON_RUNS = 26 };

/* Runs are folders, or their log.jsonl. Writes the page whole or not at all, and the text to standard output. The runs
 * may be going on. One process, no MPI. ERROR_USER: more runs than COMPARISON_RUNS, no run there; ERROR_ENVIRONMENT.
 * The message is in the record. */
int comparison_run(char *const runs[], int count, const struct comparison_settings *settings);

#endif
