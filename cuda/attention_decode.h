/* Attention of segments with one query each and keys elsewhere (a cache): generation of one token per sequence. */
#ifndef CUDA_ATTENTION_DECODE_H
#define CUDA_ATTENTION_DECODE_H

#include "cuda/kernel.h"

/* Returns whether attention_decode supports these arguments. */
bool attention_decode_takes(const struct attention_forward_args *args);
void attention_decode(const struct cuda_target *target, const struct attention_forward_args *args);
/* Returns the bytes of scratch for these arguments, which suffice for fewer slots too. */
int64_t attention_decode_workspace(const struct cuda_target *target, const struct attention_forward_args *args);

#endif
