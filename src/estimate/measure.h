/* Measures the machine profile (estimate/rates.h) on the ranks of a run. */
#ifndef ESTIMATE_MEASURE_H
#define ESTIMATE_MEASURE_H

#include "comm/comm.h"
#include "estimate/rates.h"

struct measure_settings {
    int64_t largest; /* largest GEMM size, a power of two; 0: 16384 on a device with its own memory, else 512 */
    bool quick;      /* fewer sizes, without a tuning pass: the libraries' default kernels */
};

/* Writes rates->device and adds the measured rates: GEMMs of the device's types, attention, memory, copies to the host,
 * and collectives over all ranks of a node, a half, a quarter and so on. On several nodes of equally many consecutive
 * ranks it also sets rates->between_nodes. All ranks measure at the same time, and the slowest counts. A launch is
 * repeated for 0.03 s on a device (0.002 s on a host), after a warm-up of the same length. Collective; the rates are
 * the same on all ranks. */
void measure_rates(struct machine_rates *rates, struct comm *world, struct executor *executor,
                   const struct measure_settings *settings);

#endif
