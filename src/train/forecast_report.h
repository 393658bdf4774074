/* What `cistron plan` prints. */
#ifndef TRAIN_FORECAST_REPORT_H
#define TRAIN_FORECAST_REPORT_H

#include "train/fit.h"
#include "train/forecast.h"

/* A forecast for a person, on standard output. */
void forecast_print(const struct forecast *forecast, const struct deck *deck, const struct fit *fit);

/* The same numbers as one JSON object, on standard output; bytes, tokens and FLOPs without scaling. */
void forecast_print_json(const struct forecast *forecast, const struct deck *deck, const struct fit *fit);

#endif
