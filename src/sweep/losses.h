/* Draws the losses of a sweep's cases. */
#ifndef SWEEP_LOSSES_H
#define SWEEP_LOSSES_H

#include "sweep/outcome.h"

#include <stdio.h>

/* Draws FOLDER/loss.svg: the smoothed training losses of the six cases with the lowest loss, their validations as
 * points. No picture if fewer than two cases have losses. Local. ERROR_USER, ERROR_ENVIRONMENT. */
int losses_draw(const char *folder, const struct run_outcome *outcomes, int count);
/* Writes the same plot for a page. */
void losses_write(FILE *file, const struct run_outcome *outcomes, int count);

#endif
