/* Pictures of how a sweep's series scale, with the ideal. */
#ifndef SWEEP_SCALING_H
#define SWEEP_SCALING_H

#include "sweep/outcome.h"

/* Draws FOLDER/weak.svg, tokens/s of a rank beside that of the series' fewest ranks, whose ideal is 100 %, and
 * FOLDER/strong.svg, how many times as fast as the fewest ranks' steps those of more are, times these; its ideal is the
 * number of ranks. A kind without a series of two measured cases or more has no picture. Local. ERROR_USER,
 * ERROR_ENVIRONMENT. */
int scaling_draw(const char *folder, const struct run_outcome *outcomes, int count);

#endif
