/* Numbers that a rank keeps in full, as the optimizer needs them, while units may compute with shorter ones: f32 or f64
 * as they are, or bf16 and, beside them, what these are short of the f32 numbers (core/dtype.h). */
#ifndef STEP_MASTER_H
#define STEP_MASTER_H

#include "core/launch.h"

struct master {
    struct tensor value; /* [1, n] */
    struct tensor low;   /* i16 [1, n], of bf16 values; absent also where they are all that there will be */
};

/* The type of the whole numbers. */
enum dtype master_dtype(const struct master *master);

/* `count` numbers from `first` on. */
struct master master_part(const struct master *master, int64_t first, int64_t count);

/* Starts their copy from and to memory of the executor's on the host, in the type of the whole numbers. Writing rounds
 * where low is absent; reading is then not possible. */
void master_write(struct stream *stream, const void *from, const struct master *to);
void master_read(struct stream *stream, const struct master *from, void *to);

#endif
