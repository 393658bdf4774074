/* Executors by name, for tests that run on several kinds. */
#ifndef TESTS_EXECUTORS_H
#define TESTS_EXECUTORS_H

#include "cpu/cpu.h"
#ifdef CISTRON_CUDA
#include "cuda/cuda.h"
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXECUTOR_SKIP = 77 };

/* "cuda": the first GPU, deterministic; a test without one is skipped. Else the CPU's with so many threads. */
static inline struct executor *executor_named(const char *name)
{
    if (strcmp(name, "cuda") != 0)
        return cpu_executor_create(atoi(name));
#ifdef CISTRON_CUDA
    if (cuda_device_count() > 0)
        return cuda_executor_create(0, &(struct device_request){.deterministic = true});
#endif
    printf("skipped: no GPU here\n");
    exit(EXECUTOR_SKIP);
}

#endif
