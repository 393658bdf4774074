/* What quantization lost in a run, for its report: from the lines "statistics" of its log. */
#ifndef REPORT_QUANTIZATION_REPORT_H
#define REPORT_QUANTIZATION_REPORT_H

#include "report/history.h"

#include <stdio.h>

/* One sentence on the gradients' underflow: the worst of all steps, and the last one measured. Freed with free(); NULL:
 * nothing was measured. */
char *quantization_report_text(const struct run_history *history);

/* A section of the page with maps, layer by step; nothing where nothing was measured. */
void quantization_report_write(FILE *file, const struct run_history *history);

#endif
