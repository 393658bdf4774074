/* Reads a GPU's power, clocks, temperature, clock throttling and energy with NVIDIA's management library (NVML, part of
 * the driver), which is loaded at run time. If the library does not exist or does not know the GPU, readings are empty,
 * without an error. */
#ifndef MONITOR_NVML_H
#define MONITOR_NVML_H

#include <stdbool.h>
#include <stdint.h>

enum { NVML_UUID_BYTES = 16 };

/* Reasons of clock throttling. */
enum nvml_throttle {
    NVML_THROTTLE_POWER_CAP,   /* the power limit that software sets */
    NVML_THROTTLE_POWER_BRAKE, /* the limit of the power supply */
    NVML_THROTTLE_THERMAL,     /* too hot, as software detects */
    NVML_THROTTLE_HOT,         /* too hot, as hardware detects */
    NVML_THROTTLE_SLOWDOWN,    /* hardware at least halves the clocks, for one of the reasons above or another */
    NVML_THROTTLES
};

/* A reading. NaN: the GPU does not report the number. */
struct nvml_reading {
    int index;           /* index of the GPU on its node, as in nvidia-smi; -1: nothing was read */
    unsigned throttles;  /* bit t is set for enum nvml_throttle t */
    double power;        /* W */
    double sm_clock;     /* Hz */
    double memory_clock; /* Hz */
    double temperature;  /* degrees Celsius */
    double energy;       /* J since nvml_open */
};

struct nvml {
    void *device; /* NULL: no GPU to read */
    int index;
    double energy; /* J from loading the driver to nvml_open; NaN: not reported */
};

/* Finds the GPU with this UUID. Local. */
void nvml_open(struct nvml *nvml, const unsigned char uuid[NVML_UUID_BYTES]);
/* Reads the GPU, which takes 4 ms on an H200. All fields of `reading` are set, even if there is no GPU to read. Local.
 */
void nvml_read(const struct nvml *nvml, struct nvml_reading *reading);

/* Returns the name of a reason: "power_cap", ... */
const char *nvml_throttle_name(enum nvml_throttle throttle);

#endif
