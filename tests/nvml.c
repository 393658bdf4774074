/* A library that stands in for NVML: one GPU of known numbers, whose energy grows by 500 J at each question, and one
 * that says nothing. */
#include <string.h>

enum { NOT_SUPPORTED = 3, NOT_FOUND = 6 };

static int talks, silent;

int nvmlInit_v2(void)
{
    return 0;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **device)
{
    *device = strcmp(uuid, "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f") == 0   ? (void *)&talks
              : strcmp(uuid, "GPU-10010203-0405-0607-0809-0a0b0c0d0e0f") == 0 ? (void *)&silent
                                                                              : NULL;
    return *device == NULL ? NOT_FOUND : 0;
}

int nvmlDeviceGetIndex(void *device, unsigned *index)
{
    *index = device == &talks ? 3 : 4;
    return 0;
}

#define ANSWER(NAME, TYPE, VALUE)                                                                                      \
    int NAME(void *device, TYPE *value)                                                                                \
    {                                                                                                                  \
        *value = VALUE;                                                                                                \
        return device == &talks ? 0 : NOT_SUPPORTED;                                                                   \
    }
ANSWER(nvmlDeviceGetPowerUsage, unsigned, 612345)
ANSWER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, 0x4 | 0x20 | 0x1 | 0x100)

int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoules)
{
    static unsigned long long energy = 1000000;
    *millijoules = energy += 500000;
    return device == &talks ? 0 : NOT_SUPPORTED;
}

int nvmlDeviceGetClockInfo(void *device, int type, unsigned *megahertz)
{
    *megahertz = type == 1 ? 1755 : type == 2 ? 2619 : 1;
    return device == &talks ? 0 : NOT_SUPPORTED;
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius)
{
    *celsius = 58;
    return device == &talks && sensor == 0 ? 0 : NOT_SUPPORTED;
}
