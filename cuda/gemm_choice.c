#include "cuda/gemm_choice.h"
#include "base/memory.h"
#include "cuda/kernel.h"

#include <string.h>

enum { CHOICES = 1024, NAME_BYTES = 64 };

struct choice {
    struct gemm_key key;
    cublasLtMatmulAlgo_t algorithm;
};

/* Good for one kind of device and one version of the library. */
static struct {
    char magic[8];
    char device[NAME_BYTES];
    uint64_t library;
    int64_t count;
    struct choice choices[CHOICES];
} table;

static const char magic[8] = "cistgem1";

static int64_t table_bytes(int64_t count)
{
    return (int64_t)((char *)&table.choices[count] - (char *)&table);
}

static void name_device(char name[NAME_BYTES])
{
    int device;
    struct cudaDeviceProp properties;
    memset(name, 0, NAME_BYTES);
    CUDA_CHECK(cudaGetDevice(&device));
    CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
    memcpy(name, properties.name, strnlen(properties.name, NAME_BYTES - 1));
}

bool gemm_choice_find(const struct gemm_key *key, cublasLtMatmulAlgo_t *algorithm)
{
    for (int64_t i = 0; i < table.count; i++) {
        if (memcmp(&table.choices[i].key, key, sizeof *key) == 0) {
            *algorithm = table.choices[i].algorithm;
            return true;
        }
    }
    return false;
}

void gemm_choice_keep(const struct gemm_key *key, const cublasLtMatmulAlgo_t *algorithm)
{
    if (table.count < CHOICES)
        table.choices[table.count++] = (struct choice){*key, *algorithm};
}

const void *gemm_choice_bytes(int64_t *bytes)
{
    memcpy(table.magic, magic, sizeof magic);
    name_device(table.device);
    table.library = cublasLtGetVersion();
    *bytes = table_bytes(table.count);
    return &table;
}

bool gemm_choice_take(const void *from, int64_t bytes)
{
    char device[NAME_BYTES];
    int64_t count;
    name_device(device);
    uint64_t library = cublasLtGetVersion();
    if (bytes < table_bytes(0))
        return false;
    const char *head = from;
    memcpy(&count, head + ((char *)&table.count - (char *)&table), sizeof count);
    if (memcmp(head, magic, sizeof magic) != 0 || memcmp(head + sizeof magic, device, NAME_BYTES) != 0 ||
        memcmp(head + sizeof magic + NAME_BYTES, &library, sizeof library) != 0 || count < 0 || count > CHOICES ||
        bytes != table_bytes(count))
        return false;
    memcpy(&table, from, (size_t)bytes);
    return true;
}
