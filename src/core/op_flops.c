/* The cost of an op: 2 x multiply-adds, and bytes. */
#include "core/op.h"

static int64_t gemm_flops(const struct gemm_args *a)
{
    return 2 * a->d.rows * a->d.cols * (a->transpose_a ? a->a.rows : a->a.cols);
}

/* Segment lengths are on the device and change in each step, so attention is counted as if rows were divided evenly
 * among the slots: tokens * (tokens per slot), halved when causal, less the triangle outside of a window. Two GEMMs
 * forward, five backward. */
static int64_t attention_flops(int64_t products, const struct tensor *q, const struct tensor *k, int64_t slots,
                               bool causal, int64_t window)
{
    const int64_t keys = k->rows / (slots > 0 ? slots : 1), all = 2 * products * q->rows * q->cols * keys;
    if (!causal)
        return all;
    const double outside = window > 0 && window < keys ? 1.0 - (double)window / (double)keys : 0.0;
    return outside > 0 ? (int64_t)((double)all / 2 * (1.0 - outside * outside)) : all / 2;
}

static int64_t attention_forward_flops(const struct attention_forward_args *a)
{
    return attention_flops(2, &a->q, &a->k, a->segments.q_start.cols, a->causal, a->window);
}

static int64_t attention_backward_flops(const struct attention_backward_args *a)
{
    return attention_flops(5, &a->q, &a->k, a->segments.q_start.cols, a->causal, a->window);
}

/* Each row of a pair is multiplied with one expert's matrix. The router's choice is on the device, so the expected
 * number of pairs is counted. */
static int64_t expert_gemm_flops(const struct expert_gemm_args *a)
{
    return 2 * (a->mean_rows > 0 ? a->mean_rows : a->a.rows) * a->a.cols * a->d.cols;
}

static int64_t expert_gradient_flops(const struct expert_gradient_args *a)
{
    return 2 * (a->mean_rows > 0 ? a->mean_rows : a->dy.rows) * a->dy.cols * a->x.cols;
}

int64_t op_flops(enum op op, const void *args)
{
    switch (op) {
    case OP_GEMM:
        return gemm_flops(args);
    case OP_EXPERT_GEMM:
        return expert_gemm_flops(args);
    case OP_EXPERT_GRADIENT:
        return expert_gradient_flops(args);
    case OP_ATTENTION_FORWARD:
        return attention_forward_flops(args);
    case OP_ATTENTION_BACKWARD:
        return attention_backward_flops(args);
    default:
        return 0;
    }
}

/* Returns the bytes of the rows of a matrix of pairs that are not expected to exist. */
static int64_t absent_bytes(const struct tensor *pairs, int64_t mean_rows)
{
    return mean_rows > 0 ? (pairs->rows - mean_rows) * pairs->cols * dtype_size(pairs->dtype) : 0;
}

/* Returns the bytes of all matrices of an op whose last rows are not expected to exist: the pairs of a rank's experts,
 * of which the router's choice, on the device, leaves fewer than there is memory for. */
static int64_t all_absent_bytes(enum op op, const void *args)
{
    const struct embedding_forward_args *e = args;
    const struct swiglu_forward_args *s = args;
    const struct swiglu_backward_args *b = args;
    const struct combine_forward_args *c = args;
    const struct combine_backward_args *d = args;
    switch (op) {
    case OP_EMBEDDING_FORWARD:
        return absent_bytes(&e->y, e->mean_rows);
    case OP_SWIGLU_FORWARD:
        return absent_bytes(&s->x, s->mean_rows) + absent_bytes(&s->y, s->mean_rows);
    case OP_SWIGLU_BACKWARD:
        return absent_bytes(&b->x, b->mean_rows) + absent_bytes(&b->dy, b->mean_rows) +
               absent_bytes(&b->dx, b->mean_rows);
    case OP_COMBINE_FORWARD:
        return absent_bytes(&c->x, c->mean_rows);
    case OP_COMBINE_BACKWARD:
        return absent_bytes(&d->x, d->mean_rows) + absent_bytes(&d->dx, d->mean_rows);
    default:
        return 0;
    }
}

int64_t op_bytes(enum op op, const void *args)
{
    int64_t bytes = -all_absent_bytes(op, args);
    for (int i = 0; i < op_info(op)->field_count; i++) {
        const struct tensor *t = op_tensor(op, args, i);
        int64_t once = tensor_present(t) ? tensor_count(t) * dtype_size(t->dtype) : 0;
        bytes += op_field_access(op, args, i) == OP_READ_WRITE ? 2 * once : once;
    }
    return bytes;
}
