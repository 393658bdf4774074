/* Prints the report of `cistron plan`. */
#ifndef ESTIMATE_ESTIMATE_REPORT_H
#define ESTIMATE_ESTIMATE_REPORT_H

#include "estimate/fit.h"
#include "estimate/estimate.h"
#include "estimate/host_traffic.h"
#include "estimate/layout_choice.h"

/* The contents of the report. */
struct estimate_report {
    const struct estimate *estimate;
    const struct layout_choice *choice; /* the choice that made the deck's layout; count 0: it was not chosen */
    const struct machine_rates *rates;  /* the machine profile of the estimated times */
    bool timed; /* rates_predict(rates): else no times are printed, except those at the device's peak */
    const struct memory_fit *fit;
    const struct host_traffic *hosts; /* NULL: one rank */
};

/* Prints the report as text on standard output. */
void estimate_print(const struct estimate_report *report);

/* Prints the numbers of estimate_print as one JSON object on standard output; bytes, tokens and FLOPs are not scaled.
 */
void estimate_print_json(const struct estimate_report *report);

#endif
