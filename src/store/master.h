/* Master weights, as the optimizer needs them: fp32 (f64 on the oracle), stored either whole or as the bf16 weight that
 * units compute with and a 16-bit remainder (core/dtype.h). A store without remainders has bf16 weights only, which
 * files see as fp32. */
#ifndef STORE_MASTER_H
#define STORE_MASTER_H

#include "core/launch.h"

struct master_weights {
    struct tensor value; /* [1, n]: the weights that units compute with; f32, f64 or bf16 */
    struct tensor low; /* i16 [1, n]: fp32 remainders of bf16 weights; absent for f32 and f64, and without remainders */
};

/* Returns the type of a master weight: f64, or f32, also for bf16 weights. */
enum dtype master_dtype(const struct master_weights *master);

/* Returns a view of the elements [first, first + count). */
struct master_weights master_part(const struct master_weights *master, int64_t first, int64_t count);

/* Start a copy on the stream. from, to: host memory of the executor (MEMORY_HOST), n numbers of master_dtype. Without
 * remainders, writing rounds to bf16. */
void master_write(struct stream *stream, const void *from, const struct master_weights *to);
void master_read(struct stream *stream, const struct master_weights *from, void *to);

#endif
