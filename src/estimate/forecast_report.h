/* What `cistron plan` prints. */
#ifndef ESTIMATE_FORECAST_REPORT_H
#define ESTIMATE_FORECAST_REPORT_H

#include "estimate/fit.h"
#include "estimate/forecast.h"
#include "estimate/layout_choice.h"

/* All that `cistron plan` says of a deck. */
struct forecast_report {
    const struct forecast *forecast;
    const struct layout_choice *choice; /* that made the deck's layout; count 0: it was not chosen */
    const struct machine_rates *rates;  /* by which the forecast tells seconds */
    bool timed;                         /* they do (rates_tell); else no seconds are printed but those at peak */
    const struct memory_fit *fit;
};

/* For a person, on standard output. */
void forecast_print(const struct forecast_report *report);

/* The same numbers as one JSON object, on standard output; bytes, tokens and FLOPs without scaling. */
void forecast_print_json(const struct forecast_report *report);

#endif
