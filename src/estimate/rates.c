#include "estimate/rates.h"
#include "base/range.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define PEAK 989e12
#define OF_PEAK_PRODUCT 0.6
#define OF_PEAK_ATTENTION 0.3
#define OF_PEAK_8_BITS 2.0 /* speed of 8-bit GEMMs over wider ones */
#define MEMORY 4e12
#define BETWEEN_RANKS 300e9
#define BETWEEN_NODES 50e9
#define TO_HOST 50e9

void rates_default(struct machine_rates *rates, double peak)
{
    *rates = (struct machine_rates){.peak = peak > 0 ? peak : PEAK, .between_nodes = BETWEEN_NODES, .node = 8};
}

int rate_sizes(enum rate_kind kind)
{
    static const int sizes[RATE_KINDS] = {[RATE_GEMM] = 3,
                                          [RATE_ATTENTION_FORWARD] = 2,
                                          [RATE_ATTENTION_BACKWARD] = 2,
                                          [RATE_MEMORY] = 1,
                                          [RATE_HOST] = 1,
                                          [RATE_ALL_REDUCE] = 2,
                                          [RATE_REDUCE_SCATTER] = 2,
                                          [RATE_ALL_GATHER] = 2,
                                          [RATE_ALL_TO_ALL] = 2,
                                          [RATE_SHIFT] = 2};
    return sizes[kind];
}

bool rates_add(struct machine_rates *rates, const struct machine_rate *rate)
{
    if (rates->count == RATES_MOST)
        return false;
    struct machine_rate *own = &rates->measured[rates->count++];
    *own = *rate;
    for (int i = 0; i < rate_sizes(rate->kind); i++)
        own->log_size[i] = log2(own->size[i]);
    own->log_rate = log2(own->per_second);
    return true;
}

static bool measured(const struct machine_rates *rates, enum rate_kind kind)
{
    for (int i = 0; i < rates->count; i++)
        if (rates->measured[i].kind == kind)
            return true;
    return false;
}

bool rates_predict(const struct machine_rates *rates, bool gpus, int64_t ranks)
{
    bool all = true;
    for (int kind = 0; kind < RATE_KINDS && !gpus; kind++)
        if (kind != RATE_HOST && (kind < RATE_ALL_REDUCE || ranks > 1))
            all &= measured(rates, (enum rate_kind)kind);
    return all;
}

static double unmeasured(const struct machine_rates *rates, enum rate_kind kind, int type)
{
    switch (kind) {
    case RATE_GEMM:
        return rates->peak * OF_PEAK_PRODUCT * (type == RATE_FP8 || type == RATE_FP8_GRADIENT ? OF_PEAK_8_BITS : 1);
    case RATE_ATTENTION_FORWARD:
    case RATE_ATTENTION_BACKWARD:
        return rates->peak * OF_PEAK_ATTENTION;
    case RATE_MEMORY:
        return MEMORY;
    case RATE_HOST:
        return TO_HOST;
    default:
        return BETWEEN_RANKS;
    }
}

double rates_at(const struct machine_rates *rates, enum rate_kind kind, int type, const double size[RATE_SIZES])
{
    const double same = 1e-9;
    const int sizes = rate_sizes(kind);
    double wanted[RATE_SIZES], weights = 0, sum = 0;
    for (int i = 0; i < sizes; i++)
        wanted[i] = log2(size[i]);
    for (const struct machine_rate *r = rates->measured; r < rates->measured + rates->count; r++) {
        double square = 0;
        if (r->kind != kind || r->type != type)
            continue;
        for (int i = 0; i < sizes; i++)
            square += (wanted[i] - r->log_size[i]) * (wanted[i] - r->log_size[i]);
        if (square < same)
            return r->per_second;
        weights += 1 / (square * square);
        sum += r->log_rate / (square * square);
    }
    return weights > 0 ? exp2(sum / weights) : unmeasured(rates, kind, type);
}

/* Returns the smallest measured size of a kind in bytes; 0: not measured. */
static double fewest(const struct machine_rates *rates, enum rate_kind kind)
{
    const int bytes = rate_sizes(kind) - 1;
    double least = 0;
    for (const struct machine_rate *r = rates->measured; r < rates->measured + rates->count; r++)
        if (r->kind == kind && (least == 0 || r->size[bytes] < least))
            least = r->size[bytes];
    return least;
}

double rates_seconds(const struct machine_rates *rates, enum rate_kind kind, int64_t ranks, double bytes)
{
    const double all = fmax(bytes, fewest(rates, kind));
    const double size[RATE_SIZES] = {rate_sizes(kind) == 1 ? all : (double)ranks, all};
    return bytes > 0 ? all / rates_at(rates, kind, 0, size) : 0;
}

int rate_gemm_of(const struct gemm_args *args)
{
    const bool wide = args->a.dtype == DTYPE_F32, eight = dtype_size(args->a.dtype) == 1;
    const bool gradient = args->d.dtype == DTYPE_F32 && (args->accumulate || !wide);
    return (wide ? RATE_F32 : eight ? RATE_FP8 : RATE_BF16) + (gradient ? RATE_F32_GRADIENT : 0);
}

/* Returns the rate of a GEMM with the expected rows of all experts; that of the experts' kernels is not measured. */
static double expert_rate(const struct machine_rates *rates, enum op op, const void *args)
{
    const struct expert_gemm_args *g = args;
    const struct expert_gradient_args *d = args;
    const bool gradient = op == OP_EXPERT_GRADIENT;
    const int64_t mean = gradient ? d->mean_rows : g->mean_rows, most = gradient ? d->x.rows : g->a.rows;
    const double rows = (double)(mean > 0 ? mean : most);
    const double n = (double)(gradient ? d->dy.cols : g->d.cols), k = (double)(gradient ? d->x.cols : g->a.cols);
    const double of_gradient[RATE_SIZES] = {n, k, rows}, of_product[RATE_SIZES] = {rows, n, k};
    const bool wide = (gradient ? d->x.dtype : g->a.dtype) == DTYPE_F32;
    return rates_at(rates, RATE_GEMM, (wide ? RATE_F32 : RATE_BF16) + (gradient && !wide ? RATE_F32_GRADIENT : 0),
                    gradient ? of_gradient : of_product);
}

double rates_op_seconds(const struct machine_rates *rates, enum op op, const void *args, double flops, int64_t tokens)
{
    if (flops <= 0)
        return rates_seconds(rates, RATE_MEMORY, 1, (double)op_bytes(op, args));
    if (op == OP_GEMM) {
        const struct gemm_args *a = args;
        const double m = (double)a->d.rows, n = (double)a->d.cols, size[RATE_SIZES] = {m, n, flops / (2 * m * n)};
        return flops / rates_at(rates, RATE_GEMM, rate_gemm_of(a), size);
    }
    if (op == OP_EXPERT_GEMM || op == OP_EXPERT_GRADIENT)
        return flops / expert_rate(rates, op, args);
    const bool forward = op == OP_ATTENTION_FORWARD;
    const struct attention_forward_args *f = args;
    const struct attention_backward_args *b = args;
    const int64_t window = forward ? f->window : b->window;
    /* queries see about as many keys as in causal segments of two windows */
    const int64_t length = window > 0 ? MIN(tokens, 2 * window) : tokens;
    const double size[RATE_SIZES] = {(double)(forward ? f->head_dim : b->head_dim), (double)length};
    return flops / rates_at(rates, forward ? RATE_ATTENTION_FORWARD : RATE_ATTENTION_BACKWARD,
                            (forward ? f->causal : b->causal) ? RATE_CAUSAL : RATE_FULL, size);
}

/* Ops without a kind, such as transfers between pipeline stages, count as a shift. */
static enum rate_kind kind_of(enum op op)
{
    switch (op) {
    case OP_ALL_REDUCE:
        return RATE_ALL_REDUCE;
    case OP_REDUCE_SCATTER:
        return RATE_REDUCE_SCATTER;
    case OP_ALL_GATHER:
    case OP_BROADCAST:
        return RATE_ALL_GATHER;
    case OP_ALL_TO_ALL:
        return RATE_ALL_TO_ALL;
    default:
        return RATE_SHIFT;
    }
}

double rates_transfer_seconds(const struct machine_rates *rates, enum op op, int64_t ranks, int64_t near, double bytes)
{
    const double seconds = rates_seconds(rates, kind_of(op), near > 1 ? near : 2, bytes);
    return near < ranks ? fmax(seconds, bytes / ((double)near * rates->between_nodes)) : seconds;
}
