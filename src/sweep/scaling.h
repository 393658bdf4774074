/* Draws plots of the scaling of a sweep's series, with the ideal. */
#ifndef SWEEP_SCALING_H
#define SWEEP_SCALING_H

#include "sweep/outcome.h"

#include <stdio.h>

/* Draws FOLDER/weak.svg and FOLDER/strong.svg. weak: tokens/s per rank, in percent of those of the case with the fewest
 * ranks; the ideal is 100 %. strong: the speed-up over the case with the fewest ranks, times its number of ranks; the
 * ideal is the number of ranks. A plot is omitted if no series has two measured cases. Local. ERROR_USER,
 * ERROR_ENVIRONMENT. */
int scaling_draw(const char *folder, const struct run_outcome *outcomes, int count);
/* Writes the same plots for a page. */
void scaling_write(FILE *file, const struct run_outcome *outcomes, int count);

#endif
