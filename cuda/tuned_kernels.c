#include "cuda/tuned_kernels.h"
#include "core/tuned_kernels.h"
#include "cuda/kernel.h"

#include <cublasLt.h>
#include <stdio.h>

static struct tuning_table table;
static bool made;

/* Makes the table at the first call. It is identified by device and cuBLASLt version; keys and values contain
 * everything else that tuned kernels depend on. */
static struct tuning_table *own_table(void)
{
    if (made)
        return &table;
    char identity[TUNING_IDENTITY_BYTES];
    int device;
    struct cudaDeviceProp properties;
    CUDA_CHECK(cudaGetDevice(&device));
    CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
    snprintf(identity, sizeof identity, "%.64s, cuBLASLt %llu", properties.name,
             (unsigned long long)cublasLtGetVersion());
    tuning_table_create(&table, identity);
    made = true;
    return &table;
}

bool tuned_kernel_find(enum tuned_kernel_kind kind, const void *key, int64_t key_bytes, void *value,
                       int64_t value_bytes)
{
    return tuning_table_find(own_table(), (int)kind, key, key_bytes, value, value_bytes);
}

void tuned_kernel_keep(enum tuned_kernel_kind kind, const void *key, int64_t key_bytes, const void *value,
                       int64_t value_bytes)
{
    tuning_table_keep(own_table(), (int)kind, key, key_bytes, value, value_bytes);
}

const void *tuned_kernels_table(int64_t *bytes)
{
    return tuning_table_bytes(own_table(), bytes);
}

bool tuned_kernels_load(const void *from, int64_t bytes)
{
    return tuning_table_load(own_table(), from, bytes);
}

bool tuned_kernels_add(const void *from, int64_t bytes)
{
    return tuning_table_add(own_table(), from, bytes);
}
