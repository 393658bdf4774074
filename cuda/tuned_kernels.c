#include "cuda/tuned_kernels.h"
#include "core/tuned_kernels.h"
#include "cuda/kernel.h"

#include <cublasLt.h>
#include <stdio.h>

static struct choice_table table;
static bool made;

/* Makes the table at the first call. It is identified by device and cuBLASLt version; keys and values contain
 * everything else that choices depend on. */
static struct choice_table *own_table(void)
{
    if (made)
        return &table;
    char identity[CHOICE_IDENTITY_BYTES];
    int device;
    struct cudaDeviceProp properties;
    CUDA_CHECK(cudaGetDevice(&device));
    CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
    snprintf(identity, sizeof identity, "%.64s, cuBLASLt %llu", properties.name,
             (unsigned long long)cublasLtGetVersion());
    choice_table_create(&table, identity);
    made = true;
    return &table;
}

bool choice_find(enum choice_kind kind, const void *key, int64_t key_bytes, void *value, int64_t value_bytes)
{
    return choice_table_find(own_table(), (int)kind, key, key_bytes, value, value_bytes);
}

void choice_keep(enum choice_kind kind, const void *key, int64_t key_bytes, const void *value, int64_t value_bytes)
{
    choice_table_keep(own_table(), (int)kind, key, key_bytes, value, value_bytes);
}

const void *choice_bytes(int64_t *bytes)
{
    return choice_table_bytes(own_table(), bytes);
}

bool choice_take(const void *from, int64_t bytes)
{
    return choice_table_take(own_table(), from, bytes);
}

bool choice_add(const void *from, int64_t bytes)
{
    return choice_table_add(own_table(), from, bytes);
}
