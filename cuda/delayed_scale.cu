/* delayed_scale: a block updates a tensor's history. */
#include "cuda/device.cuh"

enum { HISTORY_THREADS = 256 };

static __global__ void __launch_bounds__(HISTORY_THREADS)
    delayed_scale(view<float> amax, view<float> history, view<float> scale, view<const float> largest, bool latest)
{
    __shared__ float warp_most[HISTORY_THREADS / WARP];
    const int64_t i = blockIdx.x;
    const float newest = *amax.row(i);
    float *entry = history.row(i), most = newest;
    __syncthreads(); /* all threads have read amax */
    if (threadIdx.x == 0)
        *amax.row(i) = 0.0f;
    if (!(newest > 0.0f && newest <= FLT_MAX))
        return;
    /* Moves from the end on, so that each entry is read before it is overwritten. */
    for (int64_t end = history.cols; end > 0; end -= HISTORY_THREADS) {
        int64_t to = end - 1 - threadIdx.x;
        float moved = to > 0 ? entry[to - 1] : newest;
        __syncthreads();
        if (to >= 0)
            entry[to] = moved;
        if (to >= 0 && !latest)
            most = fmaxf(most, moved);
    }
    most = warp_max(most);
    if (threadIdx.x % WARP == 0)
        warp_most[threadIdx.x / WARP] = most;
    __syncthreads();
    if (threadIdx.x > 0)
        return;
#pragma unroll
    for (int warp = 1; warp < HISTORY_THREADS / WARP; warp++)
        most = fmaxf(most, warp_most[warp]);
    *scale.row(i) = quantization_reciprocal(quantization_multiplier(most, *largest.row(i), false));
}

void cuda_delayed_scale(const struct cuda_target *target, const struct delayed_scale_args *args)
{
    if (args->amax.rows == 0)
        return;
    delayed_scale<<<(unsigned)args->amax.rows, HISTORY_THREADS, 0, target->stream>>>(
        view_of<float>(args->amax), view_of<float>(args->history), view_of<float>(args->scale),
        view_of<const float>(args->largest), args->latest);
    CUDA_CHECK_LAUNCH("delayed_scale");
}
