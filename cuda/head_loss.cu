/* Losses of fine-tuning heads: mean squared error, weights of classes. Rows are few and short: a thread has a row. */
#include "cuda/device.cuh"

enum { HEAD_THREADS = 256 };

template <typename T>
__global__ void __launch_bounds__(HEAD_THREADS)
    mse(view<const T> predictions, const int32_t *labels, view<const float> targets, view<T> gradient, float *loss)
{
    const int64_t t = (int64_t)blockIdx.x * HEAD_THREADS + threadIdx.x;
    if (t >= predictions.rows)
        return;
    const int32_t label = labels[t];
    const float share = 1.0f / (float)predictions.cols;
    double sum = 0.0;
    for (int64_t j = 0; j < predictions.cols; j++) {
        float difference = label < 0 ? 0.0f : to_float(predictions.row(t)[j]) - targets.row(label)[j];
        sum += (double)difference * (double)difference;
        if (gradient.data != NULL)
            gradient.row(t)[j] = from_float<T>(2.0f * share * difference);
    }
    loss[t] = (float)(sum / (double)predictions.cols);
}

template <typename T>
__global__ void __launch_bounds__(HEAD_THREADS)
    class_weight(const int32_t *labels, int64_t rows, const float *weights, float *loss, view<T> gradient)
{
    const int64_t t = (int64_t)blockIdx.x * HEAD_THREADS + threadIdx.x;
    if (t >= rows || labels[t] < 0)
        return;
    const float weight = weights[labels[t]];
    loss[t] *= weight;
    for (int64_t j = 0; gradient.data != NULL && j < gradient.cols; j++)
        gradient.row(t)[j] = from_float<T>(weight * to_float(gradient.row(t)[j]));
}

/* Adds losses and their number, or the sum of their weights, in one block. */
static __global__ void __launch_bounds__(HEAD_THREADS)
    head_total(const int32_t *labels, int64_t rows, const float *weights, const float *loss, double *total)
{
    __shared__ double shared[WARP];
    double sum = 0.0, count = 0.0;
    for (int64_t t = threadIdx.x; t < rows; t += HEAD_THREADS) {
        const int32_t label = labels[t];
        if (label < 0)
            continue;
        sum += (double)loss[t];
        count += weights != NULL ? (double)weights[label] : 1.0;
    }
    sum = block_sum(sum, shared);
    count = block_sum(count, shared);
    if (threadIdx.x == 0) {
        total[0] += sum;
        total[1] += count;
    }
}

static void add_total(const struct cuda_target *target, const struct tensor &labels, const float *weights,
                      const struct tensor &loss, const struct tensor &total)
{
    head_total<<<1, HEAD_THREADS, 0, target->stream>>>(static_cast<const int32_t *>(labels.data), labels.cols, weights,
                                                       static_cast<const float *>(loss.data),
                                                       static_cast<double *>(total.data));
    CUDA_CHECK_LAUNCH("head_total");
}

void cuda_mse(const struct cuda_target *target, const struct mse_args *args)
{
    const int64_t rows = args->predictions.rows;
    if (rows == 0)
        return;
    visit(args->predictions.dtype, [&](auto zero) {
        using T = decltype(zero);
        mse<T><<<(unsigned)ceil_div(rows, HEAD_THREADS), HEAD_THREADS, 0, target->stream>>>(
            view_of<const T>(args->predictions), static_cast<const int32_t *>(args->labels.data),
            view_of<const float>(args->targets), view_of<T>(args->gradient), static_cast<float *>(args->loss.data));
        CUDA_CHECK_LAUNCH("mse");
    });
    add_total(target, args->labels, NULL, args->loss, args->total);
}

void cuda_class_weight(const struct cuda_target *target, const struct class_weight_args *args)
{
    const int64_t rows = args->labels.cols;
    const float *weights = static_cast<const float *>(args->weights.data);
    if (rows == 0)
        return;
    visit(tensor_present(&args->gradient) ? args->gradient.dtype : DTYPE_F32, [&](auto zero) {
        using T = decltype(zero);
        class_weight<T><<<(unsigned)ceil_div(rows, HEAD_THREADS), HEAD_THREADS, 0, target->stream>>>(
            static_cast<const int32_t *>(args->labels.data), rows, weights, static_cast<float *>(args->loss.data),
            view_of<T>(args->gradient));
        CUDA_CHECK_LAUNCH("class_weight");
    });
    add_total(target, args->labels, weights, args->loss, args->total);
}
