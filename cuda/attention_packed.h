/* What attention by a library needs beside the library (attention_packed.cu): its tables of segments, the log-sum-exp
 * in its layout, and rows that no segment covers, which it leaves as they were. */
#ifndef CUDA_ATTENTION_PACKED_H
#define CUDA_ATTENTION_PACKED_H

#ifdef __cplusplus
extern "C" {
#endif

#include "cuda/kernel.h"

enum { PACKED_TABLES = 5 };

/* lengths[slots]; for each table starts[slots + 1], the first element of each slot's segment in a matrix of that
 * stride, behind them the end of all. Empty slots are where the segments before them end. NULL tables are left out. */
struct packed_tables {
    int32_t *lengths;
    int64_t *starts[PACKED_TABLES], strides[PACKED_TABLES];
};
void attention_packed_tables(const struct cuda_target *target, const struct attention_segments *segments,
                             const struct packed_tables *tables);

/* Between lse [heads, T] and the library's statistics, which are [T, heads] or, where segments are regular,
 * [slots, heads, longest]. Where lse is minus infinity, the library gets 0. */
void attention_packed_statistics(const struct cuda_target *target, struct tensor lse,
                                 const struct attention_segments *segments, float *statistics, bool to_lse);

/* Rows that no segment covers become 0, of lse minus infinity. */
void attention_packed_clear_forward(const struct cuda_target *target, const struct attention_forward_args *args);
void attention_packed_clear_backward(const struct cuda_target *target, const struct attention_backward_args *args);

#ifdef __cplusplus
}
#endif

#endif
