/* Dropout masks. Whether an element is kept is a function of its token's key, the salt and its column alone: so it does
 * not depend on the layout of ranks, on packing or on recompute. Shared by CPU and GPU kernels; the oracle in tests/ref
 * has its own. */
#ifndef CORE_DROPOUT_H
#define CORE_DROPOUT_H

#include "core/quantization.h"

struct dropout_mask {
    uint32_t key;       /* of the salt */
    uint32_t threshold; /* random bits below it drop an element */
};

/* probability: that an element is dropped, at least 0 and below 1. */
QUANTIZATION_INLINE struct dropout_mask dropout_mask_of(double probability, uint32_t salt)
{
    struct dropout_mask mask = {quantization_mix(salt + 0x9e3779b9u), (uint32_t)(probability * 0x1p32)};
    return mask;
}

/* token: the token's key. column: of the whole tensor, below 2^32. */
QUANTIZATION_INLINE bool dropout_keeps(const struct dropout_mask *mask, int32_t token, int64_t column)
{
    return quantization_random(mask->key, token, column) >= mask->threshold;
}

#endif
