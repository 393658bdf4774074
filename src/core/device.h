/* The request for an executor. Only main knows which kinds exist; other code passes on main's device_make. */
#ifndef CORE_DEVICE_H
#define CORE_DEVICE_H

#include "core/launch.h"

struct comm;

struct device_request {
    int kind;           /* enum deck_device */
    int threads;        /* CPU threads of this rank */
    struct comm *world; /* all ranks; borrowed */
    struct comm *node;  /* ranks of this node: this rank's index there selects its GPU; borrowed */
    bool deterministic; /* results depend only on the arguments, even if kernels are slower */
    bool quiet;         /* do not print which rank has which device */
    bool share;         /* several ranks may share a GPU */
    double timeout;     /* time limit of a collective between devices, in seconds; 0 = none */
};

/* Makes this rank's executor. Collective over request->world; returns the same code on all ranks and prints the
 * message. ERROR_USER: the kind is not in this build or not on this machine, or there are more ranks than GPUs. */
typedef int device_make(struct executor **executor, const struct device_request *request);

#endif
