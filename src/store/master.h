/* Master weights, as the optimizer needs them: f32 (f64 on the oracle) stored whole, or f32 stored as the bf16 number
 * that units compute with and a 16-bit remainder (core/dtype.h). Without remainders, weights are bf16 numbers; to files
 * they are f32 too. */
#ifndef STORE_MASTER_H
#define STORE_MASTER_H

#include "core/launch.h"

struct master_weights {
    struct tensor value; /* [1, n]: what units compute with; f32, f64 or bf16 */
    struct tensor low;   /* i16 [1, n]: the remainder of bf16 values; absent for f32 and f64, and where there is none */
};

/* The type of a master weight: f64 or f32; f32 where the values are bf16. */
enum dtype master_dtype(const struct master_weights *master);

/* The part [first, first + count) of the weights; borrows their memory. */
struct master_weights master_part(const struct master_weights *master, int64_t first, int64_t count);

/* Start a copy on the stream. from, to: host memory of the executor (MEMORY_HOST), n numbers of master_dtype. Where
 * bf16 values have no remainder, writing rounds. */
void master_write(struct stream *stream, const void *from, const struct master_weights *to);
void master_read(struct stream *stream, const struct master_weights *from, void *to);

#endif
