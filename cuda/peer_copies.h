/* Collectives of a group on one node by copies between the ranks' memories (peer access), which use no SMs.
 *
 * NCCL's own collectives by copy engines copy this rank's part with a kernel first. Beside a GEMM that has all SMs this
 * kernel waits for the GEMM's end, and the transfer with it. Here the part that is in place already is not copied. */
#ifndef CUDA_PEER_COPIES_H
#define CUDA_PEER_COPIES_H

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "core/tensor.h"

struct peer_copies;

/* Makes the copies of a rank among `size`. Free with peer_copies_destroy. Local. */
struct peer_copies *peer_copies_create(int rank, int size);
void peer_copies_destroy(struct peer_copies *peer);

/* Adds memory that all ranks have registered as `window` (ncclWindow_t), in the same order; the first must have
 * peer_copies_flags bytes, zeroed, and is for the use of this file only. Returns whether this rank reaches the memory
 * of all ranks; if not, nothing is added. Borrows memory and window. Local. */
bool peer_copies_add(struct peer_copies *peer, ncclComm_t nccl, void *memory, int64_t bytes, void *window);
/* Removes memory, but not the first; nothing happens if it was not added. */
void peer_copies_remove(struct peer_copies *peer, const void *memory);
int64_t peer_copies_flags(int size);

/* Returns whether a tensor is in memory that was added. */
bool peer_copies_reach(const struct peer_copies *peer, const struct tensor *tensor);

/* Row r of out [size, n], on all ranks, becomes rank r's in [1, n], which may be this row. out is in added memory, at
 * the same place on all ranks. number: of the stream among the executor's; collectives of one stream run in order. Can
 * be captured. Collective. */
void peer_copies_gather(struct peer_copies *peer, int number, cudaStream_t stream, const struct tensor *in,
                        const struct tensor *out);
/* Row r of in [size, n] goes to row `rank` of rank r's out [size, n]. own: this rank's row too. As above. */
void peer_copies_exchange(struct peer_copies *peer, int number, cudaStream_t stream, const struct tensor *in,
                          const struct tensor *out, bool own);

/* out of the next rank (of the last one: the first) becomes this rank's in, of as many bytes. As above. */
void peer_copies_shift(struct peer_copies *peer, int number, cudaStream_t stream, const struct tensor *in,
                       const struct tensor *out);

/* Stores where this rank reaches each rank's window in addresses [size]. Returns false if not all ranks are on this
 * node, or if NCCL does not map their memory. Waits for the device. (peer_address.cu) */
bool peer_addresses(ncclComm_t nccl, void *window, int size, char **addresses);

#ifdef __cplusplus
}
#endif

#endif
