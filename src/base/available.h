/* The memory and CPUs that the machine, or the system's limits, leave to this process. */
#ifndef BASE_AVAILABLE_H
#define BASE_AVAILABLE_H

#include <stdint.h>

/* Returns bytes: MemAvailable of proc(5), or less if the control groups of this process (cgroup(7), both versions),
 * whose limits job systems and containers set, leave less. At least 1; 0 if the system does not say. `root` is "";
 * tests pass a tree of their own. */
int64_t available_memory(const char *root);

/* Returns the number of CPUs that the control groups of this process allow (cpu.max, cpu.cfs_quota_us), which need not
 * be a whole number; INFINITY without a limit. The affinity mask is a separate limit. */
double available_cpus(const char *root);

#endif
