/* Assigns GPUs to ranks. */
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

/* Returns this rank's placement, and how many GPUs the ranks of its node see. Collective over the node. */
static struct device_placement choose(struct comm *node, int *devices)
{
    const int64_t count = cuda_device_count(), most = comm_max_i64(node, count);
    int64_t *counts = memory_allocate((int64_t)sizeof *counts * node->size);
    struct placement_id *own = memory_allocate((int64_t)sizeof *own * most);
    struct placement_id *ids = memory_allocate((int64_t)sizeof *ids * most * node->size);
    struct device_placement *places = memory_allocate((int64_t)sizeof *places * node->size);
    for (int64_t i = 0; i < count; i++)
        own[i] = cuda_device_id((int)i);
    comm_all_gather(node, &count, counts, sizeof count);
    comm_all_gather(node, own, ids, (int64_t)sizeof *own * most);
    *devices = placement_choose(places, ids, counts, most, node->size);
    struct device_placement place = places[node->rank];
    memory_free(counts);
    memory_free(own);
    memory_free(ids);
    memory_free(places);
    return place;
}

/* Rank 0 prints one line per rank; in a large run only for the first ranks. */
static void print_places(struct comm *world, int device)
{
    char own[LINE_BYTES] = "", host[128] = "";
    struct cudaDeviceProp properties;
    CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
    gethostname(host, sizeof host - 1);
    snprintf(own, sizeof own, "%s, GPU %d: %s, %.1f GiB, PCI %04x:%02x:%02x", host, device, properties.name,
             (double)properties.totalGlobalMem / (1 << 30), (unsigned)properties.pciDomainID,
             (unsigned)properties.pciBusID, (unsigned)properties.pciDeviceID);
    const int64_t ranks = world->rank == 0 ? world->size : 0;
    char *all = memory_allocate(LINE_BYTES * (ranks + 1));
    comm_gather(world, own, all, LINE_BYTES);
    for (int r = 0; r < ranks && r < TABLE_RANKS; r++)
        log_info("# rank %d on %s", r, all + (int64_t)r * LINE_BYTES);
    if (ranks > TABLE_RANKS)
        log_info("# ... of %d ranks", world->size);
    memory_free(all);
}

int cuda_executor_make(struct executor **executor, const struct device_request *request)
{
    int devices, code = ERROR_NONE;
    const struct device_placement place = choose(request->node, &devices);
    if (place.sharing > 1 && !request->share)
        code = error_user("%d ranks of this node see %d GPUs, and %d ranks would use the same GPU: start fewer ranks, "
                          "give each rank a GPU of its own, or set device.share = true",
                          request->node->size, devices, place.sharing);
#ifndef CISTRON_NCCL
    if (request->world->size > 1)
        code = error_user("%d ranks on GPUs need NCCL, and this build has none (configure --with-nccl=DIR); start one "
                          "rank, or set device.kind = \"cpu\"",
                          request->world->size);
#endif
    code = comm_agree(request->world, code);
    if (code != ERROR_NONE)
        return code;
    *executor = cuda_executor_create(place.device, place.sharing, request);
    if (!request->quiet)
        print_places(request->world, place.device);
    return ERROR_NONE;
}
