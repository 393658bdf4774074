/* The CPU executor: blocked, vectorised, threaded; f32 and bf16 storage (8-bit operands in gemm), f32 accumulation.
 * Synchronous, so events and synchronize do nothing. Results depend on the arguments alone, not on how threads are
 * scheduled; only those of gemm may depend on the number of threads. */
#ifndef CPU_CPU_H
#define CPU_CPU_H

#include "core/device.h"

/* Ops use up to `threads` (>= 1) OpenMP threads. Free with class->destroy. */
struct executor *cpu_executor_create(int threads);

/* The same, as core/device.h asks for it: never fails. */
int cpu_executor_make(struct executor **executor, const struct device_request *request);

#endif
