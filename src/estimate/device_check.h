/* Checks the devices of all ranks, and the links between them, before a long run depends on them:
 *
 *   products   a GEMM has the same bits on all devices of a kind, and each time; a GEMM of integers, whose sums are
 *              exact in any order, is compared with the host's, so that a single device is checked too
 *   memory     most of the free memory keeps a pattern, and then its complement: each bit has been 0 and 1
 *   transfers  between pairs of ranks: rank i of a node with rank i xor 2^r of it in round r, and with the ranks at its
 *              place on node j xor 2^r; each direction has bytes of its own
 *
 * Rates are those of the fastest of several repetitions, so that a short disturbance does not count. All ranks measure
 * at the same time, as in a run. The number of rounds is the logarithm of the number of ranks. */
#ifndef ESTIMATE_DEVICE_CHECK_H
#define ESTIMATE_DEVICE_CHECK_H

#include "comm/comm.h"

struct device_check_settings {
    double slow;    /* as in device_verdict; usually DEVICE_CHECK_SLOW */
    double seconds; /* time of the products and limit of the memory test; a pair of ranks has a tenth. 0: 1 s for
                       devices with their own memory, else 0.1 s */
};

#define DEVICE_CHECK_SLOW 0.75

/* Runs the check. node: the ranks of this node. The executor must not be in use, and most of its memory free. Logs a
 * summary. Collective over world; an agreed code. ERROR_ENVIRONMENT: a device or link is wrong or slow; the message
 * names each with rank and host. */
int device_check(struct comm *world, struct comm *node, struct executor *executor,
                 const struct device_check_settings *settings);

#endif
