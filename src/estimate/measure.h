/* Rates of this machine (estimate/rates.h), measured on its ranks. */
#ifndef ESTIMATE_MEASURE_H
#define ESTIMATE_MEASURE_H

#include "comm/comm.h"
#include "estimate/rates.h"

struct measure_settings {
    int64_t largest; /* of a product's sizes, a power of two; 0: 16384 on a device with memory of its own, else 512 */
    bool quick;      /* fewer sizes, and the kernels that libraries name first, not those that a run would choose */
};

/* Fills rates->device and adds what it measures: products of the device's types, attention, memory, copies to the host,
 * and collectives of all ranks and of halves, quarters and so on of them. All ranks measure at the same time, and the
 * slowest counts. Each is repeated for some hundredths of a second after as many to settle clocks in. Collective; the
 * same on all ranks afterwards. */
void measure_rates(struct machine_rates *rates, struct comm *world, struct executor *executor,
                   const struct measure_settings *settings);

#endif
