#include "monitor/metrics.h"
#include "monitor/event_log.h"

#include <math.h>
#include <string.h>

#define NUMBER(member) offsetof(struct run_numbers, member)
#define READING(member) offsetof(struct nvml_reading, member)

/* The order of these rows is the order in log.jsonl, TensorBoard and the table. */
const struct run_metric run_metrics[RUN_METRICS] = {
    {.unit = "steps",
     .help = "Steps that the run has done.",
     .offset = NUMBER(step),
     .prometheus = {1, "cistron_step", "gauge", true},
     .wide = {10, "", "step", 1, "%.0f"},
     .narrow = {7, "", "step", 1, "%.0f"}},
    {.unit = "steps",
     .help = "Steps of the whole run (train.steps).",
     .offset = NUMBER(steps_total),
     .prometheus = {2, "cistron_steps_wanted", "gauge", true}},
    {.unit = "s",
     .help = "When this file was written, Unix time.",
     .offset = NUMBER(time),
     .prometheus = {3, "cistron_update_timestamp_seconds", "gauge", true}},
    {.unit = "nats/label",
     .help = "Training loss in nats per label, of the step.",
     .offset = NUMBER(loss),
     .log = {"loss", EXACT_DIGITS}},
    {.unit = "nats/label",
     .help = "Training loss in nats per label, mean since the previous line.",
     .offset = NUMBER(mean_loss),
     .log = {"mean_loss", EXACT_DIGITS},
     .board = {"train/loss", 1},
     .prometheus = {7, "cistron_loss", "gauge"},
     .wide = {9, "loss", "nats", 1, "%.5f"},
     .narrow = {7, "loss", "nats", 1, "%.4f"}},
    {.unit = "1",
     .help = "Exponential of the training loss.",
     .offset = NUMBER(perplexity),
     .log = {"perplexity", RATE_DIGITS},
     .board = {"train/perplexity", 1},
     .prometheus = {8, "cistron_perplexity", "gauge"}},
    {.unit = "1",
     .help = "Learning rate of the last step.",
     .offset = NUMBER(learning_rate),
     .log = {"lr", EXACT_DIGITS},
     .board = {"train/learning_rate", 1},
     .prometheus = {10, "cistron_learning_rate", "gauge"},
     .wide = {10, "learning", "rate", 1, "%.4e"},
     .narrow = {8, "learning", "rate", 1, "%.2e"}},
    {.unit = "nats/label",
     .help = "L2 norm of the gradient before clipping.",
     .offset = NUMBER(grad_norm),
     .log = {"grad_norm", 9},
     .board = {"train/grad_norm", 1},
     .prometheus = {11, "cistron_gradient_norm", "gauge"},
     .wide = {10, "gradient", "norm", 1, "%#.4g"},
     .narrow = {8, "gradient", "norm", 1, "%#.3g"}},
    {.unit = "steps",
     .help = "Steps whose gradient norm was far above that of the previous steps.",
     .offset = NUMBER(outliers),
     .log = {"grad_norm_outliers"},
     .board = {"train/grad_norm_outliers", 1},
     .prometheus = {12, "cistron_gradient_norm_outliers_total", "counter"}},
    {.unit = "tokens",
     .help = "Tokens that the run has trained on, padding included.",
     .offset = NUMBER(tokens),
     .log = {"consumed_tokens"},
     .board = {"train/consumed_tokens", 1},
     .prometheus = {4, "cistron_tokens_total", "counter"}},
    {.unit = "tokens",
     .help = "Tokens that the run has trained on, without padding.",
     .offset = NUMBER(unpadded),
     .log = {"consumed_unpadded_tokens"},
     .board = {"train/consumed_unpadded_tokens", 1},
     .prometheus = {5, "cistron_unpadded_tokens_total", "counter"}},
    {.unit = "rows",
     .help = "Rows that the run has trained on.",
     .offset = NUMBER(samples),
     .log = {"consumed_samples"},
     .board = {"train/consumed_samples", 1},
     .prometheus = {6, "cistron_samples_total", "counter"}},
    {.unit = "tokens/s",
     .help = "Tokens a second without padding, all ranks.",
     .offset = NUMBER(rate),
     .log = {"tokens_per_second", RATE_DIGITS},
     .board = {"train/tokens_per_second", 1},
     .prometheus = {16, "cistron_tokens_per_second", "gauge"},
     .wide = {11, "speed", "tokens/s", 1, "%.0f"},
     .narrow = {8, "speed", "tokens/s", 1, "%.0f"}},
    {.unit = "tokens/s",
     .help = "Tokens a second with padding, all ranks.",
     .offset = NUMBER(padded_rate),
     .log = {"padded_tokens_per_second", RATE_DIGITS},
     .board = {"train/padded_tokens_per_second", 1},
     .prometheus = {17, "cistron_padded_tokens_per_second", "gauge"}},
    /* BioNeMo's recipes call tokens with padding "tokens", and those without "unpadded" */
    {.unit = "tokens/s",
     .help = "Tokens a second with padding, of a rank.",
     .offset = NUMBER(padded_rank_rate),
     .board = {"train/tokens_per_second_per_gpu", 1}},
    {.unit = "tokens/s",
     .help = "Tokens a second without padding, of a rank.",
     .offset = NUMBER(rank_rate),
     .board = {"train/unpadded_tokens_per_second_per_gpu", 1}},
    {.unit = "s",
     .help = "Time of the steps since the previous line.",
     .offset = NUMBER(seconds),
     .log = {"seconds", RATE_DIGITS}},
    {.unit = "s",
     .help = "Time of a step, mean since the previous line.",
     .offset = NUMBER(step_seconds),
     .board = {"train/step_seconds", 1},
     .prometheus = {13, "cistron_step_seconds", "gauge"},
     .wide = {9, "time", "s/step", 1, "%#.4g"},
     .narrow = {7, "time", "s/step", 1, "%#.3g"}},
    {.unit = "s",
     .help = "Time of the steps since the previous line in which rank 0 waited for data.",
     .offset = NUMBER(data_wait),
     .log = {"data_wait", RATE_DIGITS}},
    {.unit = "ratio",
     .help = "Share of the steps' time in which rank 0 waited for data.",
     .offset = NUMBER(data_wait_ratio),
     .prometheus = {14, "cistron_data_wait_ratio", "gauge"},
     .wide = {9, "data wait", "%", 100, "%.1f"},
     .narrow = {4, "data", "%", 100, "%.0f"}},
    {.unit = "s",
     .help = "Time of the steps since the previous line that ranks were in collectives, mean over ranks.",
     .offset = NUMBER(collectives),
     .optional = true,
     .log = {"collectives", RATE_DIGITS}},
    {.unit = "ratio",
     .help = "Share of the steps' time that ranks were in collectives, mean over ranks.",
     .offset = NUMBER(collectives_ratio),
     .optional = true,
     .prometheus = {15, "cistron_collectives_ratio", "gauge"}},
    {.unit = "bytes",
     .help = "Peak resident set of rank 0.",
     .offset = NUMBER(memory),
     .log = {"memory", EXACT_DIGITS},
     .prometheus = {19, "cistron_memory_peak_bytes", "gauge"},
     .wide = {9, "memory", "MiB", 0x1p-20, "%.0f"},
     .narrow = {5, "mem.", "GiB", 0x1p-30, "%.1f"}},
    {.unit = "bytes",
     .help = "Memory in use on the GPU of rank 0.",
     .offset = NUMBER(device_memory),
     .optional = true,
     .log = {"device_memory", EXACT_DIGITS},
     .board = {"train/device_memory", 1}},
    {.unit = "bytes",
     .help = "Memory in use on a GPU, mean over ranks.",
     .offset = NUMBER(device_memory_mean),
     .optional = true,
     .log = {"device_memory_mean", EXACT_DIGITS},
     .board = {"train/gpu_memory_allocated_mean_gb", 0x1p-30},
     .prometheus = {21, "cistron_device_memory_mean_bytes", "gauge"}},
    {.unit = "bytes",
     .help = "Memory in use on the GPU that has the most in use.",
     .offset = NUMBER(device_memory_max),
     .optional = true,
     .log = {"device_memory_max", EXACT_DIGITS},
     .board = {"train/gpu_memory_allocated_max_gb", 0x1p-30},
     .prometheus = {20, "cistron_device_memory_max_bytes", "gauge"}},
    {.unit = "bytes",
     .help = "The most memory in use on a GPU in all lines of this program.",
     .offset = NUMBER(device_memory_peak),
     .optional = true,
     .log = {"device_memory_peak", EXACT_DIGITS}},
    {.unit = "ratio",
     .help = "Model FLOPs utilisation, of causal attention.",
     .offset = NUMBER(utilisation[FLOPS_CAUSAL]),
     .optional = true,
     .log = {"mfu_causal", RATE_DIGITS},
     .board = {"train/mfu", 1},
     .prometheus = {18, "cistron_mfu_ratio", "gauge"},
     .wide = {5, "MFU", "%", 100, "%.1f"},
     .narrow = {5, "MFU", "%", 100, "%.1f"}},
    {.unit = "ratio",
     .help = "Model FLOPs utilisation, of attention between all pairs.",
     .offset = NUMBER(utilisation[FLOPS_FULL]),
     .optional = true,
     .log = {"mfu_full", RATE_DIGITS}},
    {.unit = "ratio",
     .help = "Model FLOPs utilisation, as OpenGenome2's paper counts.",
     .offset = NUMBER(utilisation[FLOPS_OPENGENOME2]),
     .optional = true,
     .log = {"mfu_opengenome2", RATE_DIGITS}},
    {.unit = "ratio",
     .help = "Share of the wall-clock time since the run's first start that became steps that count.",
     .offset = NUMBER(effective_time),
     .optional = true,
     .log = {"effective_time", RATE_DIGITS},
     .board = {"train/effective_time", 1},
     .prometheus = {22, "cistron_effective_time_ratio", "gauge"}},
    {.unit = "nats/label",
     .help = "Last validation loss in nats per label.",
     .offset = NUMBER(validation_loss),
     .prometheus = {9, "cistron_validation_loss", "gauge"}},
    {.unit = "s",
     .help = "Time to the end of the run at the pace of this program.",
     .offset = NUMBER(seconds_left),
     .wide = {12, "time left", "d-hh:mm:ss"},
     .narrow = {10, "time left", "hh:mm:ss"}},
};

double run_metric_of(const struct run_metric *metric, const struct run_numbers *numbers)
{
    double value;
    memcpy(&value, (const char *)numbers + metric->offset, sizeof value);
    return value;
}

void run_metric_set(const struct run_metric *metric, struct run_numbers *numbers, double value)
{
    memcpy((char *)numbers + metric->offset, &value, sizeof value);
}

bool run_metric_shows(const struct run_metric *metric, const struct run_numbers *numbers)
{
    return !metric->optional || isfinite(run_metric_of(metric, numbers));
}

const struct gpu_metric gpu_metrics[GPU_METRICS] = {
    [GPU_POWER] = {"gpu_power", "gpu/power", "cistron_gpu_power_watts", "gauge", "Power that the GPU draws.",
                   READING(power), GPU_SUM},
    [GPU_SM_CLOCK] = {"gpu_sm_clock", "gpu/sm_clock", "cistron_gpu_sm_clock_hertz", "gauge", "Clock of the SMs.",
                      READING(sm_clock), GPU_LEAST},
    [GPU_MEMORY_CLOCK] = {"gpu_memory_clock", "gpu/memory_clock", "cistron_gpu_memory_clock_hertz", "gauge",
                          "Clock of the memory.", READING(memory_clock), GPU_LEAST},
    [GPU_TEMPERATURE] = {"gpu_temperature", "gpu/temperature", "cistron_gpu_temperature_celsius", "gauge",
                         "Temperature of the GPU.", READING(temperature), GPU_MOST},
    [GPU_ENERGY] = {"gpu_energy", "gpu/energy", "cistron_gpu_energy_joules_total", "counter",
                    "Energy since this program began.", READING(energy), GPU_SUM},
};

double gpu_metric_of(const struct gpu_metric *metric, const struct shown_gpu *gpu)
{
    double value;
    memcpy(&value, (const char *)&gpu->reading + metric->offset, sizeof value);
    return value;
}

double gpu_metric_together(const struct gpu_metric *metric, const double *values, int64_t count)
{
    double whole = count > 0 ? values[0] : (double)NAN;
    for (int64_t i = 1; i < count; i++)
        whole = metric->together == GPU_SUM     ? whole + values[i]
                : metric->together == GPU_LEAST ? fmin(whole, values[i])
                                                : fmax(whole, values[i]);
    return whole;
}
