#include "monitor/nvml.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>

/* -- The library -------------------------------------------------------------------------------------------------
 * Types and numbers as NVML's manual has them. Its functions return 0 when all went well. */

enum { CLOCK_SM = 1, CLOCK_MEMORY = 2, SENSOR_GPU = 0, UUID_TEXT = 48 };

/* Bits of nvmlDeviceGetCurrentClocksThrottleReasons, in the order of enum nvml_throttle. */
static const unsigned long long throttle_bits[NVML_THROTTLES] = {0x4, 0x80, 0x20, 0x40, 0x8};

static struct {
    int (*init)(void);
    int (*by_uuid)(const char *uuid, void **device);
    int (*index)(void *device, unsigned *index);
    int (*power)(void *device, unsigned *milliwatts);
    int (*clock)(void *device, int type, unsigned *megahertz);
    int (*temperature)(void *device, int sensor, unsigned *celsius);
    int (*throttles)(void *device, unsigned long long *reasons);
    int (*energy)(void *device, unsigned long long *millijoules);
} library;

/* Loads the library, until the program ends. */
static bool load(void)
{
    void *const loaded = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (loaded == NULL)
        return false;
    *(void **)&library.init = dlsym(loaded, "nvmlInit_v2");
    *(void **)&library.by_uuid = dlsym(loaded, "nvmlDeviceGetHandleByUUID");
    *(void **)&library.index = dlsym(loaded, "nvmlDeviceGetIndex");
    *(void **)&library.power = dlsym(loaded, "nvmlDeviceGetPowerUsage");
    *(void **)&library.clock = dlsym(loaded, "nvmlDeviceGetClockInfo");
    *(void **)&library.temperature = dlsym(loaded, "nvmlDeviceGetTemperature");
    *(void **)&library.throttles = dlsym(loaded, "nvmlDeviceGetCurrentClocksThrottleReasons");
    *(void **)&library.energy = dlsym(loaded, "nvmlDeviceGetTotalEnergyConsumption");
    return library.init != NULL && library.by_uuid != NULL && library.index != NULL && library.init() == 0;
}

/* -- Readings ---------------------------------------------------------------------------------------------------- */

static double energy_of(void *device)
{
    unsigned long long millijoules;
    return library.energy != NULL && library.energy(device, &millijoules) == 0 ? 1e-3 * (double)millijoules : NAN;
}

static double clock_of(void *device, int type)
{
    unsigned megahertz;
    return library.clock != NULL && library.clock(device, type, &megahertz) == 0 ? 1e6 * megahertz : NAN;
}

/* Prints a UUID as "GPU-00112233-4455-6677-8899-aabbccddeeff". */
static void print_uuid(char text[UUID_TEXT], const unsigned char *uuid)
{
    int used = snprintf(text, UUID_TEXT, "GPU");
    for (int i = 0; i < NVML_UUID_BYTES; i++)
        used += snprintf(text + used, (size_t)(UUID_TEXT - used), "%s%02x",
                         i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

void nvml_open(struct nvml *nvml, const unsigned char uuid[NVML_UUID_BYTES])
{
    char text[UUID_TEXT];
    unsigned index;
    *nvml = (struct nvml){.device = NULL};
    print_uuid(text, uuid);
    if (!load() || library.by_uuid(text, &nvml->device) != 0 || library.index(nvml->device, &index) != 0) {
        nvml->device = NULL;
        return;
    }
    nvml->index = (int)index;
    nvml->energy = energy_of(nvml->device);
}

void nvml_read(const struct nvml *nvml, struct nvml_reading *reading)
{
    void *const device = nvml->device;
    unsigned number;
    unsigned long long bits;
    *reading = (struct nvml_reading){-1, 0, NAN, NAN, NAN, NAN, NAN};
    if (device == NULL)
        return;
    reading->index = nvml->index;
    if (library.power != NULL && library.power(device, &number) == 0)
        reading->power = 1e-3 * number;
    reading->sm_clock = clock_of(device, CLOCK_SM);
    reading->memory_clock = clock_of(device, CLOCK_MEMORY);
    if (library.temperature != NULL && library.temperature(device, SENSOR_GPU, &number) == 0)
        reading->temperature = number;
    if (library.throttles != NULL && library.throttles(device, &bits) == 0)
        for (int t = 0; t < NVML_THROTTLES; t++)
            reading->throttles |= (bits & throttle_bits[t]) != 0 ? 1u << t : 0;
    reading->energy = energy_of(device) - nvml->energy;
}

const char *nvml_throttle_name(enum nvml_throttle throttle)
{
    static const char *const names[NVML_THROTTLES] = {"power_cap", "power_brake", "thermal", "hot", "slowdown"};
    return names[throttle];
}
