/* What arithmetic and transfers take, by which plans of one deck are compared: an H200's, as measured
 * (bench/results/gpu_layouts.txt), of 989 TFLOP/s; NVLink between the GPUs of a node; 400 Gbit/s for each GPU between
 * nodes; PCIe 5 to the host. Only their ratios matter. */
#ifndef TRAIN_RATES_H
#define TRAIN_RATES_H

#include "deck/deck.h"

#define RATES_PEAK 989.0          /* TFLOP/s, where device.peak is not set */
#define RATES_OF_PEAK 0.6         /* of the peak, in products of precision.compute */
#define RATES_BETWEEN_RANKS 300e9 /* bytes a second that a rank receives from others on its node */
#define RATES_BETWEEN_NODES 50e9  /* and from other nodes */
#define RATES_TO_HOST 50e9        /* to the host's memory, and from it */

/* FLOPs a second of a rank's device. */
static inline double rates_flops(const struct deck *deck)
{
    return (deck->device.peak > 0 ? deck->device.peak : RATES_PEAK) * 1e12 * RATES_OF_PEAK;
}

#endif
