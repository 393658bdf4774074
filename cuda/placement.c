/* Which rank uses which GPU. */
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "comm/comm.h"
#include "cuda/cuda.h"
#include "cuda/kernel.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES = 512, TABLE_RANKS = 64 };

/* Of a node: dealt out one by one. */
static int device_of(int rank, int devices)
{
    return rank % devices;
}

int cuda_ranks_on(int device, int ranks)
{
    int count = 0;
    for (int rank = 0, devices = cuda_device_count(); rank < ranks; rank++)
        count += device_of(rank, devices) == device;
    return count;
}

/* One line a rank, by rank 0; of a large run the first ranks. */
static void print_places(struct comm *world, int device)
{
    char own[LINE_BYTES] = "", host[128] = "";
    struct cudaDeviceProp properties;
    CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
    gethostname(host, sizeof host - 1);
    snprintf(own, sizeof own, "%s, GPU %d: %s, %.1f GiB, PCI %04x:%02x", host, device, properties.name,
             (double)properties.totalGlobalMem / (1 << 30), (unsigned)properties.pciDomainID,
             (unsigned)properties.pciBusID);
    char *all = memory_allocate((int64_t)LINE_BYTES * world->size);
    comm_all_gather(world, own, all, LINE_BYTES);
    for (int r = 0; r < world->size && r < TABLE_RANKS; r++)
        log_info("# rank %d on %s", r, all + (int64_t)r * LINE_BYTES);
    if (world->size > TABLE_RANKS)
        log_info("# and so on for %d ranks", world->size);
    memory_free(all);
}

int cuda_executor_make(struct executor **executor, const struct device_request *request)
{
    int devices = cuda_device_count(), code = ERROR_NONE;
    if (request->node->size > devices && !request->share)
        code = error_user("%d ranks on a node with %d GPUs: start fewer, or set device.share = true",
                          request->node->size, devices);
#ifndef CISTRON_NCCL
    if (request->world->size > 1)
        code = error_user("%d ranks on GPUs: this build has no NCCL (configure --with-nccl=DIR); start one, or set "
                          "device.kind = \"cpu\"",
                          request->world->size);
#endif
    code = comm_agree(request->world, code);
    if (code != ERROR_NONE)
        return code;
    int device = device_of(request->node->rank, devices);
    *executor = cuda_executor_create(device, request);
    print_places(request->world, device);
    return ERROR_NONE;
}
