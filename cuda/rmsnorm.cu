#include "cuda/norm.cuh"

void cuda_rmsnorm_forward(const struct cuda_target *target, const struct rmsnorm_forward_args *args)
{
    norm_forward_launch<false>(target, "rmsnorm_forward", args->x, args->weight, {}, args->y, {}, args->rstd, args->eps,
                               args->one_plus);
}

int64_t cuda_rmsnorm_backward_workspace(const struct cuda_target *, const struct rmsnorm_backward_args *args)
{
    return norm_backward_workspace<false>(args->x, tensor_present(&args->dweight) ? 1 : 0);
}

void cuda_rmsnorm_backward(const struct cuda_target *target, const struct rmsnorm_backward_args *args)
{
    norm_backward_launch<false, false>(target, "rmsnorm_backward",
                                       {args->x,
                                        args->weight,
                                        {},
                                        args->rstd,
                                        args->dy,
                                        args->residual,
                                        args->dx,
                                        args->dweight,
                                        {},
                                        {},
                                        args->accumulate,
                                        false,
                                        args->one_plus});
}
