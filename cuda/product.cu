/* Small kernels that accompany cuBLASLt's GEMMs. */
#include "cuda/walk.cuh"

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

static __global__ WALK_BOUNDS void add_bias(struct row_walk walk, view<float> d, const float *bias)
{
    walk_packs<4>(
        walk, [&](uint32_t row, uint32_t col) { return *pack_at<1>(d, row, col) + bias[col]; },
        [&](uint32_t row, uint32_t col, float sum) { *pack_at<1>(d, row, col) = sum; });
}

void cuda_add_bias(const struct cuda_target *target, struct tensor bias, struct tensor d)
{
    walk_launch(target, "add_bias", add_bias, d.rows, d.cols, view_of<float>(d), static_cast<const float *>(bias.data));
}
