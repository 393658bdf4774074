/* The router of a mixture of experts: route, expert_load, expert_order. A warp has a token, and each of its lanes every
 * 32nd expert. */
#include "cuda/device.cuh"
#include "cuda/token_order.cuh"

enum { ROUTE_THREADS = 256, ROUTE_WARPS = ROUTE_THREADS / WARP, LANE_EXPERTS = EXPERTS_MOST / WARP };

/* Reads this lane's logits; those of experts that there are not, and NaN, are minus infinity. */
__device__ __forceinline__ void read_logits(const float *logits, int experts, float (&to)[LANE_EXPERTS])
{
#pragma unroll
    for (int i = 0; i < LANE_EXPERTS; i++) {
        const int e = threadIdx.x % WARP + i * WARP;
        to[i] = e < experts ? logits[e] : -INFINITY;
    }
}

/* Returns the expert with the largest logit among those that are not used, to all lanes. used: a bit for each of the
 * lane's experts. */
__device__ __forceinline__ int best_expert(const float (&logits)[LANE_EXPERTS], int experts, unsigned used)
{
    int best = EXPERTS_MOST;
    float largest = -INFINITY;
#pragma unroll
    for (int i = 0; i < LANE_EXPERTS; i++) {
        const int e = threadIdx.x % WARP + i * WARP;
        if (e < experts && !(used >> i & 1u) && (best == EXPERTS_MOST || logits[i] > largest)) {
            best = e;
            largest = isnan(logits[i]) ? -INFINITY : logits[i];
        }
    }
#pragma unroll
    for (int offset = WARP / 2; offset > 0; offset /= 2) {
        const int other = __shfl_xor_sync(0xffffffffu, best, offset);
        const float its = __shfl_xor_sync(0xffffffffu, largest, offset);
        if (other < EXPERTS_MOST && (best == EXPERTS_MOST || its > largest || (its == largest && other < best))) {
            best = other;
            largest = its;
        }
    }
    return best;
}

static __global__ void __launch_bounds__(ROUTE_THREADS)
    route_forward_kernel(view<const float> logits, view<int32_t> experts, view<float> weights)
{
    const int64_t t = (int64_t)blockIdx.x * ROUTE_WARPS + threadIdx.x / WARP;
    if (t >= logits.rows)
        return;
    float own[LANE_EXPERTS], first = 0.0f, sum = 0.0f;
    unsigned used = 0;
    read_logits(logits.row(t), (int)logits.cols, own);
    for (int c = 0; c < experts.cols; c++) {
        const int best = best_expert(own, (int)logits.cols, used);
        const float logit = logits.row(t)[best];
        if (best % WARP == threadIdx.x % WARP)
            used |= 1u << best / WARP;
        if (c == 0)
            first = logit;
        const float weight = exponential(logit - first);
        sum += weight;
        if (threadIdx.x % WARP == 0) {
            experts.row(t)[c] = best;
            weights.row(t)[c] = weight;
        }
    }
    for (int c = 0; c < experts.cols && threadIdx.x % WARP == 0; c++)
        weights.row(t)[c] /= sum;
}

void cuda_route_forward(const struct cuda_target *target, const struct route_forward_args *args)
{
    if (args->logits.rows == 0)
        return;
    route_forward_kernel<<<(unsigned)ceil_div(args->logits.rows, ROUTE_WARPS), ROUTE_THREADS, 0, target->stream>>>(
        view_of<const float>(args->logits), view_of<int32_t>(args->experts), view_of<float>(args->weights));
    CUDA_CHECK_LAUNCH("route_forward");
}

/* Adds the gradient of the auxiliary loss. load: counts by expert, then the number of labels. */
__device__ __forceinline__ void add_auxiliary(const float *logits, const float *load, int experts, float factor,
                                              float (&gradient)[LANE_EXPERTS])
{
    float p[LANE_EXPERTS], share[LANE_EXPERTS], most = -INFINITY, sum = 0.0f, mean = 0.0f;
    read_logits(logits, experts, p);
#pragma unroll
    for (int i = 0; i < LANE_EXPERTS; i++)
        most = fmaxf(most, p[i]);
    most = warp_max(most);
#pragma unroll
    for (int i = 0; i < LANE_EXPERTS; i++) {
        const int e = threadIdx.x % WARP + i * WARP;
        p[i] = e < experts ? exponential(p[i] - most) : 0.0f;
        share[i] = e < experts ? load[e] / load[experts] : 0.0f;
        sum += p[i];
    }
    sum = warp_sum(sum);
#pragma unroll
    for (int i = 0; i < LANE_EXPERTS; i++) {
        p[i] /= sum;
        mean += p[i] * share[i];
    }
    mean = warp_sum(mean);
#pragma unroll
    for (int i = 0; i < LANE_EXPERTS; i++)
        gradient[i] += factor * p[i] * (share[i] - mean);
}

/* load.data NULL: no auxiliary loss. row_tokens: tokens of a row of load. */
template <typename T>
static __global__ void __launch_bounds__(ROUTE_THREADS)
    route_backward_kernel(view<const float> logits, view<const int32_t> experts, view<const float> weights,
                          view<const float> d_weights, const int32_t *labels, view<const float> load, view<T> d_logits,
                          int64_t row_tokens, float auxiliary)
{
    const int64_t t = (int64_t)blockIdx.x * ROUTE_WARPS + threadIdx.x / WARP;
    if (t >= logits.rows)
        return;
    float gradient[LANE_EXPERTS] = {}, mean = 0.0f;
    for (int c = 0; c < experts.cols; c++)
        mean += weights.row(t)[c] * d_weights.row(t)[c];
    for (int c = 0; c < experts.cols; c++)
#pragma unroll
        for (int i = 0; i < LANE_EXPERTS; i++)
            if (experts.row(t)[c] == threadIdx.x % WARP + i * WARP)
                gradient[i] = weights.row(t)[c] * (d_weights.row(t)[c] - mean);
    if (load.data != NULL && labels[t] >= 0)
        add_auxiliary(logits.row(t), load.row(t / row_tokens), (int)logits.cols, auxiliary, gradient);
#pragma unroll
    for (int i = 0; i < LANE_EXPERTS; i++) {
        const int e = threadIdx.x % WARP + i * WARP;
        if (e < d_logits.cols)
            d_logits.row(t)[e] = from_float<T>(gradient[i]);
    }
}

void cuda_route_backward(const struct cuda_target *target, const struct route_backward_args *args)
{
    const int64_t tokens = args->logits.rows;
    if (tokens == 0)
        return;
    visit(args->d_logits.dtype, [&](auto zero) {
        using T = decltype(zero);
        route_backward_kernel<T><<<(unsigned)ceil_div(tokens, ROUTE_WARPS), ROUTE_THREADS, 0, target->stream>>>(
            view_of<const float>(args->logits), view_of<const int32_t>(args->experts),
            view_of<const float>(args->weights), view_of<const float>(args->d_weights),
            static_cast<const int32_t *>(args->labels.data), view_of<const float>(args->load),
            view_of<T>(args->d_logits), tensor_present(&args->load) ? tokens / args->load.rows : 1,
            (float)args->auxiliary);
        CUDA_CHECK_LAUNCH("route_backward");
    });
}

/* A block counts a row of load. */
static __global__ void __launch_bounds__(ROUTE_THREADS)
    expert_load_kernel(view<const int32_t> experts, const int32_t *labels, view<float> load, int64_t row_tokens)
{
    __shared__ int32_t counts[EXPERTS_MOST + 1];
    const int64_t first = blockIdx.x * row_tokens;
    for (int e = threadIdx.x; e < load.cols; e += ROUTE_THREADS)
        counts[e] = 0;
    __syncthreads();
    for (int64_t t = first + threadIdx.x; t < first + row_tokens; t += ROUTE_THREADS) {
        if (labels[t] < 0)
            continue;
        atomicAdd(&counts[load.cols - 1], 1);
        for (int c = 0; c < experts.cols; c++)
            atomicAdd(&counts[experts.row(t)[c]], 1);
    }
    __syncthreads();
    for (int e = threadIdx.x; e < load.cols; e += ROUTE_THREADS)
        load.row(blockIdx.x)[e] = (float)counts[e];
}

void cuda_expert_load(const struct cuda_target *target, const struct expert_load_args *args)
{
    expert_load_kernel<<<(unsigned)args->load.rows, ROUTE_THREADS, 0, target->stream>>>(
        view_of<const int32_t>(args->experts), static_cast<const int32_t *>(args->labels.data),
        view_of<float>(args->load), args->experts.rows / args->load.rows);
    CUDA_CHECK_LAUNCH("expert_load");
}

/* order: the pairs, numbered token by token, in the order of their experts; pairs of other experts than those with ends
 * are last. A thread has a place, and writes the ends of the experts up to its own, from that of the place before; the
 * last one also those after. */
static __global__ void __launch_bounds__(ROUTE_THREADS)
    expert_places_kernel(const int32_t *order, struct token_rows experts, int pairs, int count, int32_t *places,
                         int32_t *tokens, int32_t *ends)
{
    const int place = blockIdx.x * ROUTE_THREADS + threadIdx.x, ends_count = (int)experts.rows;
    if (place >= pairs)
        return;
    const int pair = order[place], expert = experts.at(pair), before = place > 0 ? experts.at(order[place - 1]) : 0;
    places[pair] = expert < ends_count ? place : -1;
    if (expert < ends_count)
        tokens[place] = pair / count;
    for (int e = before; e < expert; e++)
        ends[e] = place;
    for (int e = expert; place == pairs - 1 && e < ends_count; e++)
        ends[e] = pairs;
}

int64_t cuda_expert_order_workspace(const struct cuda_target *, const struct expert_order_args *args)
{
    return token_order_workspace(tensor_count(&args->experts));
}

void cuda_expert_order(const struct cuda_target *target, const struct expert_order_args *args)
{
    const int64_t pairs = tensor_count(&args->experts);
    const struct token_rows experts = {static_cast<const int32_t *>(args->experts.data), (uint32_t)args->first,
                                       (uint32_t)args->ends.cols};
    int32_t *ends = static_cast<int32_t *>(args->ends.data);
    if (!tensor_contiguous(&args->experts) || !tensor_contiguous(&args->places) || pairs > INT32_MAX / 2)
        error_fatal("cuda executor: expert_order of %lld pairs: at most %d, in contiguous matrices", (long long)pairs,
                    INT32_MAX / 2);
    if (pairs == 0) {
        CUDA_CHECK(cudaMemsetAsync(ends, 0, (size_t)args->ends.cols * sizeof *ends, target->stream));
        return;
    }
    const int32_t *order = token_order(target, experts, pairs, target->workspace);
    expert_places_kernel<<<(unsigned)ceil_div(pairs, ROUTE_THREADS), ROUTE_THREADS, 0, target->stream>>>(
        order, experts, (int)pairs, (int)args->experts.cols, static_cast<int32_t *>(args->places.data),
        static_cast<int32_t *>(args->tokens.data), ends);
    CUDA_CHECK_LAUNCH("expert_order");
}
