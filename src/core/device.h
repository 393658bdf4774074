/* How to ask for an executor. Only main knows which kinds there are; other code passes its device_make on. */
#ifndef CORE_DEVICE_H
#define CORE_DEVICE_H

#include "core/launch.h"

struct comm;

struct device_request {
    int kind;           /* enum deck_device */
    int threads;        /* CPU threads of this rank */
    struct comm *world; /* all ranks; borrowed */
    struct comm *node;  /* those of this node: this rank's number in it chooses its GPU; borrowed */
    bool deterministic; /* results depend on the arguments alone, at whatever speed */
    bool quiet;         /* which rank has which device is not printed */
    bool share;         /* ranks may have one GPU together */
    double timeout;     /* seconds that a collective between devices may take; 0 = any */
};

/* Makes this rank's executor. Collective over request->world; the same code on all ranks, printed. ERROR_USER: the kind
 * is not in this build or not on this machine, or there are more ranks than GPUs. */
typedef int device_make(struct executor **executor, const struct device_request *request);

#endif
