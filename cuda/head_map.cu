#include "cuda/head_map.cuh"

extern "C" {
#include "base/error.h"
}

using encode_function = CUresult (*)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                                     const cuuint64_t *, const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave,
                                     CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

/* Finds the driver's function through the runtime, since the program is not linked to the driver. */
static encode_function find_encode()
{
    void *function = nullptr;
    enum cudaDriverEntryPointQueryResult found;
    CUDA_CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found));
    if (found != cudaDriverEntryPointSuccess)
        error_fatal("cuda executor: the NVIDIA driver is older than CUDA 12.0 (it has no cuTensorMapEncodeTiled); "
                    "update the driver");
    return reinterpret_cast<encode_function>(function);
}

/* Returns the swizzle of panels of this width (cuda/warpgroup.cuh). */
static CUtensorMapSwizzle permutation_of(int width)
{
    return width == 64   ? CU_TENSOR_MAP_SWIZZLE_128B
           : width == 32 ? CU_TENSOR_MAP_SWIZZLE_64B
                         : CU_TENSOR_MAP_SWIZZLE_32B;
}

CUtensorMap head_map(const struct tensor &x, int64_t head_dim, int width, int rows)
{
    static const encode_function encode = find_encode();
    const int64_t element = dtype_size(x.dtype), stride = x.rows > 1 ? x.stride : x.cols;
    const cuuint64_t sizes[] = {static_cast<cuuint64_t>(head_dim), static_cast<cuuint64_t>(x.cols / head_dim),
                                static_cast<cuuint64_t>(x.rows > 0 ? x.rows : 1)};
    const cuuint64_t strides[] = {static_cast<cuuint64_t>(head_dim * element),
                                  static_cast<cuuint64_t>(stride * element)};
    const cuuint32_t box[] = {static_cast<cuuint32_t>(width), 1, static_cast<cuuint32_t>(rows)}, steps[] = {1, 1, 1};
    CUtensorMap map;
    CUresult status = encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, x.data, sizes, strides, box, steps,
                             CU_TENSOR_MAP_INTERLEAVE_NONE, permutation_of(width), CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (status != CUDA_SUCCESS)
        error_fatal("cuda executor: cuTensorMapEncodeTiled: error %d for %lld rows of %lld, heads of %lld", (int)status,
                    (long long)x.rows, (long long)x.cols, (long long)head_dim);
    return map;
}

struct head_maps head_maps(const struct tensor &x, int64_t head_dim, int width, int rows)
{
    return {head_map(x, head_dim, width, rows), head_map(x, head_dim, width, 8), head_map(x, head_dim, width, 1)};
}
