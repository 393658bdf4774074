/* A library to preload (LD_PRELOAD) into a training on GPUs: NCCL's collectives return at once and transfer nothing, so
 * that the step's time is what it would be if transfers cost nothing (bench/gpu/step_speed --no-transfers). Losses are
 * wrong. What is gathered outside recordings is filled with this rank's own part, and what is exchanged comes back,
 * since a GPU multiplies zeros faster than numbers. In recordings little is filled, but tokens are: a table has no rows
 * for other numbers. NCCL's windows are off, because the program's own copies (cuda/peer_copies.h) need them; the
 * additions of sums by copies are left out with them.
 *
 * NO_TRANSFERS: which are left out, by default all: some of "gather", "reduce", "scatter", "exchange". On all ranks.
 *   cc -shared -fPIC -I/usr/local/cuda/include -o no_transfers.so bench/gpu/no_transfers.c */
#define _GNU_SOURCE
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nccl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

__attribute__((constructor)) static void turn_windows_off(void)
{
    setenv("NCCL_WIN_ENABLE", "0", 1);
}

static int width_of(ncclDataType_t type)
{
    return type == ncclFloat64 ? 8 : type == ncclFloat32 || type == ncclInt32 ? 4 : type == ncclBfloat16 ? 2 : 1;
}

static bool left_out(const char *kind)
{
    const char *kinds = getenv("NO_TRANSFERS");
    return kinds == NULL || strstr(kinds, kind) != NULL;
}

/* NCCL's own function of that name and type, called. */
#define CALL(name, ...) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))(__VA_ARGS__)

ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream)
{
    enum { LITTLE = 1 << 20 /* bytes */ };
    enum cudaStreamCaptureStatus capturing;
    int ranks;
    if (!left_out("gather"))
        return CALL(ncclAllGather, from, to, count, type, comm, stream);
    const size_t bytes = count * (size_t)width_of(type);
    if (cudaStreamIsCapturing(stream, &capturing) != cudaSuccess ||
        (capturing != cudaStreamCaptureStatusNone && bytes > LITTLE) || ncclCommCount(comm, &ranks) != ncclSuccess)
        return ncclSuccess;
    for (int r = 0; r < ranks; r++)
        if ((char *)to + (size_t)r * bytes != from)
            cudaMemcpyAsync((char *)to + (size_t)r * bytes, from, bytes, cudaMemcpyDeviceToDevice, stream);
    return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream)
{
    return left_out("reduce") ? ncclSuccess : CALL(ncclAllReduce, from, to, count, type, op, comm, stream);
}

ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream)
{
    return left_out("scatter") ? ncclSuccess : CALL(ncclReduceScatter, from, to, count, type, op, comm, stream);
}

ncclResult_t ncclAlltoAll(const void *from, void *to, size_t count, ncclDataType_t type, ncclComm_t comm,
                          cudaStream_t stream)
{
    int ranks;
    if (!left_out("exchange"))
        return CALL(ncclAlltoAll, from, to, count, type, comm, stream);
    if (ncclCommCount(comm, &ranks) == ncclSuccess)
        cudaMemcpyAsync(to, from, (size_t)ranks * count * (size_t)width_of(type), cudaMemcpyDeviceToDevice, stream);
    return ncclSuccess;
}

ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    return left_out("exchange") ? ncclSuccess : CALL(ncclSend, from, count, type, peer, comm, stream);
}

ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    return left_out("exchange") ? ncclSuccess : CALL(ncclRecv, to, count, type, peer, comm, stream);
}
