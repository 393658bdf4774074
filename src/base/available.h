/* What this machine, or what its system lets this process have of it, can hand out: memory and CPUs. */
#ifndef BASE_AVAILABLE_H
#define BASE_AVAILABLE_H

#include <stdint.h>

/* Bytes: MemAvailable of proc(5), or what the control groups of this process leave (cgroup(7), both versions), where
 * that is less: a job system or a container sets their limits. At least 1; 0 where the system does not say. `root`: ""
 * (tests have a tree of their own). */
int64_t available_memory(const char *root);

/* CPUs whose time the control groups of this process may use (cpu.max, cpu.cfs_quota_us), which need not be a whole
 * number; INFINITY without a limit. The affinity mask is another limit. */
double available_cpus(const char *root);

#endif
