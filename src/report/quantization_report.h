/* Reports the quantization errors of a run, from the lines "statistics" of its log. */
#ifndef REPORT_QUANTIZATION_REPORT_H
#define REPORT_QUANTIZATION_REPORT_H

#include "report/history.h"

#include <stdio.h>

/* Returns a sentence on the gradients' underflow: the worst of all steps, and that of the last measured one. Freed with
 * free(); NULL: nothing was measured. */
char *quantization_report_text(const struct run_history *history);

/* Writes a section of the page with maps of layer by step; nothing if nothing was measured. */
void quantization_report_write(FILE *file, const struct run_history *history);

#endif
