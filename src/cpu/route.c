/* The router of a mixture of experts: route, expert_load, expert_order. */
#include "cpu/convert.h"

#include <math.h>

/* Writes the experts of a token. A logit that is NaN is larger than none. */
static void choose(const float *logits, int64_t experts, int64_t count, int32_t *chosen)
{
    bool used[EXPERTS_MOST] = {false};
    for (int64_t c = 0; c < count; c++) {
        int64_t best = -1;
        for (int64_t e = 0; e < experts; e++)
            if (!used[e] && (best < 0 || logits[e] > logits[best]))
                best = e;
        used[best] = true;
        chosen[c] = (int32_t)best;
    }
}

void cpu_route_forward(struct cpu *cpu, const struct route_forward_args *args)
{
    const int64_t experts = args->logits.cols, count = args->experts.cols;
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(&args->logits))) schedule(static)
    for (int64_t t = 0; t < args->logits.rows; t++) {
        const float *logits = tensor_at(&args->logits, t, 0);
        int32_t *chosen = tensor_at(&args->experts, t, 0);
        float *weights = tensor_at(&args->weights, t, 0), sum = 0.0f;
        choose(logits, experts, count, chosen);
        for (int64_t c = 0; c < count; c++)
            sum += weights[c] = cpu_exp(logits[chosen[c]] - logits[chosen[0]]);
        for (int64_t c = 0; c < count; c++)
            weights[c] /= sum;
    }
}

/* Adds the gradient of the auxiliary loss of a token. load: counts by expert, then the number of labels. */
static void add_auxiliary(const float *logits, const float *load, int64_t experts, float factor, float *gradient)
{
    float p[EXPERTS_MOST], most = logits[0], sum = 0.0f, mean = 0.0f;
    for (int64_t e = 1; e < experts; e++)
        most = logits[e] > most ? logits[e] : most;
    for (int64_t e = 0; e < experts; e++)
        sum += p[e] = cpu_exp(logits[e] - most);
    for (int64_t e = 0; e < experts; e++)
        mean += p[e] / sum * (load[e] / load[experts]);
    for (int64_t e = 0; e < experts; e++)
        gradient[e] += factor * (p[e] / sum) * (load[e] / load[experts] - mean);
}

void cpu_route_backward(struct cpu *cpu, const struct route_backward_args *args)
{
    const int64_t experts = args->logits.cols, count = args->experts.cols;
    const bool balances = tensor_present(&args->load);
    const int64_t row_tokens = balances ? args->logits.rows / args->load.rows : 1;
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(&args->logits))) schedule(static)
    for (int64_t t = 0; t < args->logits.rows; t++) {
        const int32_t *chosen = tensor_at(&args->experts, t, 0);
        const float *weights = tensor_at(&args->weights, t, 0), *d_weights = tensor_at(&args->d_weights, t, 0);
        float gradient[EXPERTS_MOST] = {0.0f}, mean = 0.0f;
        for (int64_t c = 0; c < count; c++)
            mean += weights[c] * d_weights[c];
        for (int64_t c = 0; c < count; c++)
            gradient[chosen[c]] = weights[c] * (d_weights[c] - mean);
        if (balances && ((const int32_t *)args->labels.data)[t] >= 0)
            add_auxiliary(tensor_at(&args->logits, t, 0), tensor_at(&args->load, t / row_tokens, 0), experts,
                          (float)args->auxiliary, gradient);
        cpu_narrow(gradient, tensor_at(&args->d_logits, t, 0), args->d_logits.dtype, experts);
    }
}

void cpu_expert_load(struct cpu *cpu, const struct expert_load_args *args)
{
    (void)cpu;
    const int64_t experts = args->load.cols - 1, row_tokens = args->experts.rows / args->load.rows;
    const int32_t *labels = args->labels.data;
    for (int64_t r = 0; r < args->load.rows; r++) {
        float *load = tensor_at(&args->load, r, 0);
        memset(load, 0, (size_t)(experts + 1) * sizeof *load);
        for (int64_t t = r * row_tokens; t < (r + 1) * row_tokens; t++) {
            const int32_t *chosen = tensor_at(&args->experts, t, 0);
            if (labels[t] < 0)
                continue;
            load[experts] += 1.0f;
            for (int64_t c = 0; c < args->experts.cols; c++)
                load[chosen[c]] += 1.0f;
        }
    }
}

/* Returns the number of a pair's expert, from `first` on; -1: the expert is not one of args->ends. */
static int64_t expert_at(const struct expert_order_args *args, int64_t t, int64_t c)
{
    const int64_t e = *(const int32_t *)tensor_at(&args->experts, t, c) - args->first;
    return e >= 0 && e < args->ends.cols ? e : -1;
}

/* A counting sort. */
void cpu_expert_order(struct cpu *cpu, const struct expert_order_args *args)
{
    (void)cpu;
    const int64_t experts = args->ends.cols;
    int32_t next[EXPERTS_MOST + 1] = {0}, *ends = args->ends.data, *tokens = args->tokens.data;
    for (int64_t t = 0; t < args->experts.rows; t++)
        for (int64_t c = 0; c < args->experts.cols; c++) {
            const int64_t e = expert_at(args, t, c);
            if (e >= 0)
                next[e + 1]++;
        }
    for (int64_t e = 0; e < experts; e++)
        ends[e] = next[e + 1] += next[e];
    for (int64_t t = 0; t < args->experts.rows; t++)
        for (int64_t c = 0; c < args->experts.cols; c++) {
            const int64_t e = expert_at(args, t, c);
            const int32_t place = e >= 0 ? next[e]++ : -1;
            *(int32_t *)tensor_at(&args->places, t, c) = place;
            if (place >= 0)
                tokens[place] = (int32_t)t;
        }
}
