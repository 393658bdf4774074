/* Files of rates (estimate/rates.h), as `cistron measure` writes them: libconfig text, to be read and changed by hand
 * too.
 *
 *   cistron_rates = 1;          # of this form
 *   device = "NVIDIA H200";
 *   between_nodes = 50.0;       # GB/s that a rank receives from other nodes, given by hand
 *   product = ( { type = "bf16"; m = 16384.0; n = 4096.0; k = 4096.0; rate = 690.0; }, ... );
 *
 * Products and attention are in TFLOP/s, all else in GB/s (10^9 bytes a second). A list has the name of its kind and
 * is left out where it was not measured. */
#ifndef ESTIMATE_RATES_FILE_H
#define ESTIMATE_RATES_FILE_H

#include "estimate/rates.h"

#include <stdio.h>

/* Adds the file's to `rates`. Local. ERROR_USER, naming the file: it is not there, no file of rates or of another form,
 * or damaged. */
int rates_file_read(struct machine_rates *rates, const char *path);

/* Rates by which steps are predicted: those of the file `path` or, where it is "", rates_default. Local. Errors as
 * above. */
int rates_choose(struct machine_rates *rates, const char *path, double peak);

/* Writes them to an open file; whoever closes it looks whether all was written. */
void rates_file_write(const struct machine_rates *rates, FILE *file);

#endif
