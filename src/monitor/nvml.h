/* What a GPU says of itself: power, clocks, temperature, what holds its clocks down, energy. By NVIDIA's management
 * library (NVML, part of the driver), which is looked for when it is wanted: where it is not there, or does not know
 * the GPU, nothing is read and nothing is wrong. */
#ifndef MONITOR_NVML_H
#define MONITOR_NVML_H

#include <stdbool.h>
#include <stdint.h>

enum { NVML_UUID_BYTES = 16 };

/* Why the clocks are lower than they could be. */
enum nvml_throttle {
    NVML_THROTTLE_POWER_CAP,   /* the limit of power that software sets */
    NVML_THROTTLE_POWER_BRAKE, /* that of the power supply */
    NVML_THROTTLE_THERMAL,     /* too warm, as software finds */
    NVML_THROTTLE_HOT,         /* the same, as hardware does */
    NVML_THROTTLE_SLOWDOWN,    /* hardware halves the clocks or more, for one of these reasons or another */
    NVML_THROTTLES
};

/* NaN: the GPU does not say. */
struct nvml_reading {
    int index;           /* of the GPU on its node, as nvidia-smi counts; -1: nothing was read */
    unsigned throttles;  /* bit t: enum nvml_throttle t */
    double power;        /* W */
    double sm_clock;     /* Hz */
    double memory_clock; /* Hz */
    double temperature;  /* degrees Celsius */
    double energy;       /* J since nvml_open */
};

struct nvml {
    void *device; /* NULL: nothing to read */
    int index;
    double energy; /* J since the driver was loaded, at nvml_open; NaN: it does not say */
};

/* Finds the GPU of this UUID. Local. */
void nvml_open(struct nvml *nvml, const unsigned char uuid[NVML_UUID_BYTES]);
/* Takes 4 ms on an H200. `reading` is complete even where there is nothing to read. */
void nvml_read(const struct nvml *nvml, struct nvml_reading *reading);

/* "power_cap", ... */
const char *nvml_throttle_name(enum nvml_throttle throttle);

#endif
