/* The host and device on which a rank computes, for messages that name a bad device. */
#ifndef ESTIMATE_DEVICE_PLACE_H
#define ESTIMATE_DEVICE_PLACE_H

#include "core/executor.h"

enum { PLACE_HOST_BYTES = 64, PLACE_DEVICE_BYTES = 48, PLACE_TEXT_BYTES = 160 };

/* Plain data, which ranks send as bytes. */
struct device_place {
    char host[PLACE_HOST_BYTES];
    char
        device[PLACE_DEVICE_BYTES]; /* the GPU's UUID as nvidia-smi -L prints it; "" if the rank computes on its host */
};

/* Writes this rank's place. */
void device_place_find(struct device_place *place, struct executor *executor);

/* Writes "rank 3 on node07, GPU-5b1c..." to out; returns out. */
const char *device_place_text(char out[PLACE_TEXT_BYTES], int rank, const struct device_place *place);

#endif
