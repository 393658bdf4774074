/* What attention by a library needs beside the library (attention_packed.cu): its tables of segments, the log-sum-exp
 * in its layout, and rows that no segment covers, which it leaves as they were. */
#ifndef CUDA_ATTENTION_PACKED_H
#define CUDA_ATTENTION_PACKED_H

#ifdef __cplusplus
extern "C" {
#endif

#include "cuda/kernel.h"

enum { PACKED_TABLES = 5 };

/* lengths: [slots], tokens of each slot's segment. starts[t]: [slots + 1], for a matrix of strides[t] elements a row:
 * the element at which each slot's segment begins, then the end of the last. An empty slot begins where the segment
 * before it ends. NULL tables are left out. */
struct packed_tables {
    int32_t *lengths;
    int64_t *starts[PACKED_TABLES], strides[PACKED_TABLES];
};
void attention_packed_tables(const struct cuda_target *target, const struct attention_segments *segments,
                             const struct packed_tables *tables);

/* Copies lse to the library's statistics, or with `to_lse` back. lse: [heads, T]; statistics: [T, heads] or, where
 * segments are regular, [slots, heads, longest]. Where lse is minus infinity, the library gets 0. */
void attention_packed_statistics(const struct cuda_target *target, struct tensor lse,
                                 const struct attention_segments *segments, float *statistics, bool to_lse);

/* Sets rows that no segment covers to 0, and their lse to minus infinity. */
void attention_packed_clear_forward(const struct cuda_target *target, const struct attention_forward_args *args);
void attention_packed_clear_backward(const struct cuda_target *target, const struct attention_backward_args *args);

#ifdef __cplusplus
}
#endif

#endif
