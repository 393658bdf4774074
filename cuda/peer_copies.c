#include "cuda/peer_copies.h"
#include "base/error.h"
#include "base/memory.h"
#include "core/executor.h"
#include "cuda/kernel.h"

#include <cuda.h>

/* Flags are 0 between collectives. A rank sets its flag on all other ranks and waits for theirs on its own memory, at
 * the beginning of a collective and at its end. A rank that has passed the end has cleared the flags of the beginning,
 * so the next collective's can be set: no numbers are needed, and a captured graph can be replayed. */
enum { AT_BEGIN, AT_END, MEETINGS };
enum { LONGEST_BATCH = 128 /* operations in a call of the driver */ };

/* Memory of all ranks. */
struct peer_memory {
    char *own;
    int64_t bytes;
    char **ranks; /* [size]: where this rank reaches each rank's */
    struct peer_memory *next;
};

struct peer_copies {
    int rank, size;
    struct peer_memory *memories;
    struct peer_memory *flags; /* the memory added first: u32 [STREAM_COUNT][MEETINGS][size] */
};

struct peer_copies *peer_copies_create(int rank, int size)
{
    struct peer_copies *peer = memory_allocate(sizeof *peer);
    peer->rank = rank;
    peer->size = size;
    return peer;
}

static void free_memory(struct peer_memory *memory)
{
    memory_free(memory->ranks);
    memory_free(memory);
}

void peer_copies_destroy(struct peer_copies *peer)
{
    for (struct peer_memory *memory = peer->memories, *next; memory != NULL; memory = next) {
        next = memory->next;
        free_memory(memory);
    }
    memory_free(peer);
}

int64_t peer_copies_flags(int size)
{
    return (int64_t)sizeof(uint32_t) * STREAM_COUNT * MEETINGS * size;
}

bool peer_copies_add(struct peer_copies *peer, ncclComm_t nccl, void *memory, int64_t bytes, void *window)
{
    struct peer_memory *added = memory_allocate(sizeof *added);
    *added = (struct peer_memory){memory, bytes, memory_allocate(peer->size * (int64_t)sizeof(char *)), peer->memories};
    if (!peer_addresses(nccl, window, peer->size, added->ranks)) {
        free_memory(added);
        return false;
    }
    peer->memories = added;
    if (peer->flags == NULL)
        peer->flags = added;
    return true;
}

void peer_copies_remove(struct peer_copies *peer, const void *memory)
{
    struct peer_memory **at = &peer->memories;
    while (*at != NULL && (*at)->own != memory)
        at = &(*at)->next;
    struct peer_memory *removed = *at;
    if (removed == NULL)
        return;
    *at = removed->next;
    free_memory(removed);
}

static const struct peer_memory *find(const struct peer_copies *peer, const void *address, int64_t bytes)
{
    for (const struct peer_memory *memory = peer->memories; memory != NULL; memory = memory->next)
        if ((const char *)address >= memory->own && (const char *)address + bytes <= memory->own + memory->bytes)
            return memory;
    return NULL;
}

bool peer_copies_reach(const struct peer_copies *peer, const struct tensor *tensor)
{
    return find(peer, tensor->data, tensor_extent(tensor)) != NULL;
}

/* Returns where this rank reaches what is at `address` of another rank's memory; memory contains `address`. */
static char *address_of(const struct peer_memory *memory, int rank, const void *address)
{
    return memory->ranks[rank] + ((const char *)address - memory->own);
}

/* Runs operations on words of memory when the stream reaches them. Through the runtime, since the program is not linked
 * to the driver. */
static void run_batch(cudaStream_t stream, CUstreamBatchMemOpParams *operations, unsigned count)
{
    typedef CUresult batch_function(CUstream, unsigned, CUstreamBatchMemOpParams *, unsigned);
    static batch_function *batch;
    if (batch == NULL) {
        enum cudaDriverEntryPointQueryResult found;
        void *function;
        CUDA_CHECK(cudaGetDriverEntryPointByVersion("cuStreamBatchMemOp", &function, 12000, cudaEnableDefault, &found));
        if (found != cudaDriverEntryPointSuccess)
            error_fatal("cuda executor: the NVIDIA driver has no cuStreamBatchMemOp; update the driver");
        *(void **)&batch = function;
    }
    if (count > 0 && batch(stream, count, operations, 0) != CUDA_SUCCESS)
        error_fatal("cuda executor: cuStreamBatchMemOp failed");
}

struct batch {
    cudaStream_t stream;
    unsigned count;
    CUstreamBatchMemOpParams operations[LONGEST_BATCH];
};

static void batch_add(struct batch *batch, enum CUstreamBatchMemOpType_enum operation, const void *address,
                      uint32_t value)
{
    CUstreamBatchMemOpParams *added = &batch->operations[batch->count++];
    *added = (CUstreamBatchMemOpParams){0};
    if (operation == CU_STREAM_MEM_OP_WAIT_VALUE_32) {
        added->waitValue.operation = operation;
        added->waitValue.address = (CUdeviceptr)address;
        added->waitValue.value = value;
        added->waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    } else {
        added->writeValue.operation = operation;
        added->writeValue.address = (CUdeviceptr)address;
        added->writeValue.value = value;
        added->writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
    }
    if (batch->count == LONGEST_BATCH) {
        run_batch(batch->stream, batch->operations, batch->count);
        batch->count = 0;
    }
}

/* When the stream passes this point, all ranks' streams have reached it. */
static void meet(struct peer_copies *peer, int number, cudaStream_t stream, int meeting)
{
    const struct peer_memory *memory = peer->flags;
    const uint32_t *flags = (const uint32_t *)memory->own + ((int64_t)number * MEETINGS + meeting) * peer->size;
    struct batch batch = {.stream = stream};
    for (int i = 1; i < peer->size; i++)
        batch_add(&batch, CU_STREAM_MEM_OP_WRITE_VALUE_32,
                  address_of(memory, (peer->rank + i) % peer->size, &flags[peer->rank]), 1);
    for (int i = 1; i < peer->size; i++)
        batch_add(&batch, CU_STREAM_MEM_OP_WAIT_VALUE_32, &flags[(peer->rank + i) % peer->size], 1);
    for (int i = 1; i < peer->size; i++)
        batch_add(&batch, CU_STREAM_MEM_OP_WRITE_VALUE_32, &flags[(peer->rank + i) % peer->size], 0);
    run_batch(stream, batch.operations, batch.count);
}

static void copy_to(cudaStream_t stream, const void *from, void *to, size_t bytes)
{
    CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
}

void peer_copies_gather(struct peer_copies *peer, int number, cudaStream_t stream, const struct tensor *in,
                        const struct tensor *out)
{
    const size_t bytes = (size_t)tensor_extent(in);
    const struct peer_memory *memory = find(peer, out->data, tensor_extent(out));
    char *place = tensor_at(out, peer->rank, 0);
    meet(peer, number, stream, AT_BEGIN);
    for (int i = 1; i < peer->size; i++)
        copy_to(stream, in->data, address_of(memory, (peer->rank + i) % peer->size, place), bytes);
    if (in->data != place)
        copy_to(stream, in->data, place, bytes);
    meet(peer, number, stream, AT_END);
}

void peer_copies_exchange(struct peer_copies *peer, int number, cudaStream_t stream, const struct tensor *in,
                          const struct tensor *out, bool own)
{
    const size_t bytes = (size_t)(in->cols * dtype_size(in->dtype));
    const struct peer_memory *memory = find(peer, out->data, tensor_extent(out));
    char *place = tensor_at(out, peer->rank, 0);
    meet(peer, number, stream, AT_BEGIN);
    for (int i = 1; i < peer->size; i++) {
        const int to = (peer->rank + i) % peer->size;
        copy_to(stream, tensor_at(in, to, 0), address_of(memory, to, place), bytes);
    }
    if (own)
        copy_to(stream, tensor_at(in, peer->rank, 0), place, bytes);
    meet(peer, number, stream, AT_END);
}

void peer_copies_shift(struct peer_copies *peer, int number, cudaStream_t stream, const struct tensor *in,
                       const struct tensor *out)
{
    const struct peer_memory *memory = find(peer, out->data, tensor_extent(out));
    meet(peer, number, stream, AT_BEGIN);
    copy_to(stream, in->data, address_of(memory, (peer->rank + 1) % peer->size, out->data), (size_t)tensor_extent(in));
    meet(peer, number, stream, AT_END);
}
