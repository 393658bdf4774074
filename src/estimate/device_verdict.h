/* The verdict of a check of devices (estimate/device_check.h): which ranks and links are wrong or slow. */
#ifndef ESTIMATE_DEVICE_VERDICT_H
#define ESTIMATE_DEVICE_VERDICT_H

#include "estimate/device_place.h"

#include <stdbool.h>
#include <stdint.h>

enum { REPORT_KIND_BYTES = 64, REPORT_LINKS = 48 /* twice the bits of the largest number of ranks, and more */ };

/* A transfer between this rank and another one, in both directions at once. */
struct link_report {
    int rank;          /* the other one */
    bool near;         /* on the same node */
    bool wrong;        /* this rank received other bytes than were sent */
    double per_second; /* bytes per second each way, of the slower end */
};

/* The results of one rank. Plain data, which ranks send as bytes. */
struct device_report {
    struct device_place place;
    char kind[REPORT_KIND_BYTES]; /* name of the device (estimate/device_name.h): equal devices are compared */
    uint64_t product;             /* hash of the bits of a GEMM, whose operands are the same on all ranks */
    bool varies;                  /* repeated GEMMs had other bits */
    bool miscounts;               /* a GEMM of integers, which is exact, was not that of the host */
    bool forgets;                 /* memory did not keep what was written */
    double flops;                 /* of GEMMs, per second */
    double memory;                /* bytes read and written per second */
    int64_t tested;               /* bytes of memory that were written and compared */
    struct link_report links[REPORT_LINKS];
    int link_count;
};

/* Logs medians and extremes of all ranks' reports[count], and judges them. slow: rates below this share of the median
 * of the same kind of device, or of the links within or between nodes, are reported; 0: rates are not judged.
 * ERROR_ENVIRONMENT: the message has a line for each bad rank or link, wrong ones first. Local; for rank 0. */
int device_verdict(const struct device_report *reports, int count, double slow);

#endif
