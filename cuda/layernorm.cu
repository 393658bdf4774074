#include "cuda/norm.cuh"

void cuda_layernorm_forward(const struct cuda_target *target, const struct layernorm_forward_args *args)
{
    norm_forward_launch<true>(target, "layernorm_forward", args->x, args->weight, args->bias, args->y, args->mean,
                              args->rstd, args->eps, args->one_plus);
}

int64_t cuda_layernorm_backward_workspace(const struct cuda_target *, const struct layernorm_backward_args *args)
{
    return norm_backward_workspace<true>(args->x, tensor_present(&args->dweight) + tensor_present(&args->dbias) +
                                                      tensor_present(&args->sum));
}

void cuda_layernorm_backward(const struct cuda_target *target, const struct layernorm_backward_args *args)
{
    const norm_backward_tensors tensors = {args->x,       args->weight,   args->mean,       args->rstd,
                                           args->dy,      args->residual, args->dx,         args->dweight,
                                           args->dbias,   args->sum,      args->accumulate, args->accumulate_sum,
                                           args->one_plus};
    if (tensor_present(&args->sum))
        norm_backward_launch<true, true>(target, "layernorm_backward", tensors);
    else
        norm_backward_launch<true, false>(target, "layernorm_backward", tensors);
}
