/* GEMMs of experts by warpgroups (expert_gemm_warpgroup.cu), for bf16 on sm_90a. */
#ifndef CUDA_EXPERT_GEMM_CUH
#define CUDA_EXPERT_GEMM_CUH

#include "cuda/device.cuh"

/* Return whether the kernels support the arguments: bf16 operands whose rows are aligned to 16 bytes. */
bool expert_gemm_has_warpgroups(const struct expert_gemm_args *args);
bool expert_gradient_has_warpgroups(const struct expert_gradient_args *args);

void expert_gemm_by_warpgroups(const struct cuda_target *target, const struct expert_gemm_args *args);
void expert_gradient_by_warpgroups(const struct cuda_target *target, const struct expert_gradient_args *args);

#endif
