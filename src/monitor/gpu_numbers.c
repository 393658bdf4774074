#include "monitor/gpu_numbers.h"

#include <math.h>
#include <string.h>

#define READING(field) offsetof(struct nvml_reading, field)

const struct gpu_number gpu_numbers[GPU_NUMBERS] = {
    {"gpu_power", "gpu/power", "cistron_gpu_power_watts", "gauge", "Power that the GPU draws.", READING(power),
     GPU_SUM},
    {"gpu_sm_clock", "gpu/sm_clock", "cistron_gpu_sm_clock_hertz", "gauge", "Clock of the multiprocessors.",
     READING(sm_clock), GPU_LEAST},
    {"gpu_memory_clock", "gpu/memory_clock", "cistron_gpu_memory_clock_hertz", "gauge", "Clock of the memory.",
     READING(memory_clock), GPU_LEAST},
    {"gpu_temperature", "gpu/temperature", "cistron_gpu_temperature_celsius", "gauge", "Temperature of the GPU.",
     READING(temperature), GPU_MOST},
    {"gpu_energy", "gpu/energy", "cistron_gpu_energy_joules_total", "counter", "Energy since this program began.",
     READING(energy), GPU_SUM},
};

double gpu_number_of(const struct gpu_number *number, const struct shown_gpu *gpu)
{
    double value;
    memcpy(&value, (const char *)&gpu->reading + number->offset, sizeof value);
    return value;
}

double gpu_number_together(const struct gpu_number *number, const struct shown_numbers *s)
{
    double whole = gpu_number_of(number, &s->gpus[0]);
    for (int g = 1; g < s->gpu_count; g++) {
        const double one = gpu_number_of(number, &s->gpus[g]);
        whole = number->shows == GPU_SUM     ? whole + one
                : number->shows == GPU_LEAST ? fmin(whole, one)
                                             : fmax(whole, one);
    }
    return whole;
}
