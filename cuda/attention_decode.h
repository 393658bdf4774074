/* Attention of segments with one query each, whose keys lie elsewhere: sequences that go on by a token. */
#ifndef CUDA_ATTENTION_DECODE_H
#define CUDA_ATTENTION_DECODE_H

#include "cuda/kernel.h"

/* Is this such a call, and of aligned heads? */
bool attention_decode_takes(const struct attention_forward_args *args);
void attention_decode(const struct cuda_target *target, const struct attention_forward_args *args);
/* Bytes of scratch of such a call with as many slots as these arguments have, or fewer. */
int64_t attention_decode_workspace(const struct cuda_target *target, const struct attention_forward_args *args);

#endif
