/* Reads and writes files of a machine profile (estimate/rates.h): libconfig text, which may be edited by hand.
 *
 *    cistron_rates = 1;          # version of the format
 *    device = "NVIDIA H200";
 *    between_nodes = 50.0;       # GB/s that a rank receives from other nodes
 *    product = ( { type = "bf16"; m = 16384.0; n = 4096.0; k = 4096.0; rate = 690.0; }, ... );
 *
 * GEMMs and attention are in TFLOP/s, all other rates in GB/s (10^9 bytes per second). There is one list for each
 * measured kind, named after it. */
#ifndef ESTIMATE_RATES_FILE_H
#define ESTIMATE_RATES_FILE_H

#include "estimate/rates.h"

#include <stdio.h>

/* Adds the file's rates to `rates`. Local. ERROR_USER: the file does not exist, is not a profile, has another version,
 * or is damaged; the message names it. */
int rates_file_read(struct machine_rates *rates, const char *path);

/* Writes the rates that predictions use: rates_default, and the rates of the file `path` unless it is "". Local. Errors
 * as rates_file_read. */
int rates_choose(struct machine_rates *rates, const char *path, double peak);

/* Writes the rates to an open file. The caller checks for write errors when closing it. */
void rates_file_write(const struct machine_rates *rates, FILE *file);

#endif
