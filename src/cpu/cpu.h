/* The CPU executor: blocked, vectorised, threaded; f32 and bf16 storage (8-bit operands in gemm), f32 accumulation. It
 * is synchronous, so events and synchronize do nothing. Results depend only on the arguments, not on the scheduling of
 * threads; only results of gemm may depend on the number of threads. */
#ifndef CPU_CPU_H
#define CPU_CPU_H

#include "core/device.h"

/* Makes an executor whose ops use up to `threads` (>= 1) OpenMP threads. Free with class->destroy. */
struct executor *cpu_executor_create(int threads);

/* As cpu_executor_create; a device_make (core/device.h). Never fails. */
int cpu_executor_make(struct executor **executor, const struct device_request *request);

#endif
