#include "cuda/device.cuh"

static __global__ void product_factors(const float *scale_a, const float *scale_b, float addend, float *factors)
{
    factors[0] = (scale_a != NULL ? *scale_a : 1.0f) * (scale_b != NULL ? *scale_b : 1.0f);
    factors[1] = addend;
}

void cuda_product_factors(const struct cuda_target *target, const float *scale_a, const float *scale_b, float addend,
                          float *factors)
{
    product_factors<<<1, 1, 0, target->stream>>>(scale_a, scale_b, addend, factors);
    CUDA_CHECK_LAUNCH("product_factors");
}
