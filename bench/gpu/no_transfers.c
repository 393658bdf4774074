/* A library to preload (LD_PRELOAD) into a training on GPUs: NCCL's collectives return at once and transfer nothing, so
 * that the step's time is what it would be if transfers cost nothing (bench/gpu/table --no-transfers). Losses are
 * wrong. What is gathered outside recordings is filled with this rank's own part, and what is exchanged comes back,
 * since a GPU multiplies zeros faster than numbers.
 *   cc -shared -fPIC -I/usr/local/cuda/include -o no_transfers.so bench/gpu/no_transfers.c */
#include <cuda_runtime_api.h>
#include <nccl.h>

static int width_of(ncclDataType_t type)
{
    return type == ncclFloat64 ? 8 : type == ncclFloat32 || type == ncclInt32 ? 4 : type == ncclBfloat16 ? 2 : 1;
}

ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream)
{
    enum cudaStreamCaptureStatus capturing;
    int ranks;
    if (cudaStreamIsCapturing(stream, &capturing) != cudaSuccess || capturing != cudaStreamCaptureStatusNone ||
        ncclCommCount(comm, &ranks) != ncclSuccess)
        return ncclSuccess;
    const size_t bytes = count * (size_t)width_of(type);
    for (int r = 0; r < ranks; r++)
        if ((char *)to + (size_t)r * bytes != from)
            cudaMemcpyAsync((char *)to + (size_t)r * bytes, from, bytes, cudaMemcpyDeviceToDevice, stream);
    return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream)
{
    (void)from, (void)to, (void)count, (void)type, (void)op, (void)comm, (void)stream;
    return ncclSuccess;
}

ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream)
{
    (void)from, (void)to, (void)count, (void)type, (void)op, (void)comm, (void)stream;
    return ncclSuccess;
}

ncclResult_t ncclAlltoAll(const void *from, void *to, size_t count, ncclDataType_t type, ncclComm_t comm,
                          cudaStream_t stream)
{
    int ranks;
    if (ncclCommCount(comm, &ranks) == ncclSuccess)
        cudaMemcpyAsync(to, from, (size_t)ranks * count * (size_t)width_of(type), cudaMemcpyDeviceToDevice, stream);
    return ncclSuccess;
}

ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    (void)from, (void)count, (void)type, (void)peer, (void)comm, (void)stream;
    return ncclSuccess;
}

ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    (void)to, (void)count, (void)type, (void)peer, (void)comm, (void)stream;
    return ncclSuccess;
}
