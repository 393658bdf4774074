/* The oracle's attention. Every sum over keys is written out per query head and query row. */
#include "reference.h"
#include "reference_ops.h"

#include "base/memory.h"

struct reference_span reference_span(const struct attention_segments *segments, int64_t slot)
{
    return (struct reference_span){
        reference_index(&segments->q_start, slot), reference_index(&segments->q_length, slot),
        reference_index(&segments->kv_start, slot), reference_index(&segments->kv_length, slot),
        reference_index(&segments->q_offset, slot)};
}

struct index_range reference_visible_keys(const struct reference_span *span, int64_t i, bool causal, int64_t window)
{
    const int64_t diagonal = i + span->q_offset; /* the key at the query's own position */
    struct index_range visible = {0, 0};
    for (int64_t j = 0; j < span->kv_length; j++)
        if (!causal || (j <= diagonal && (window == 0 || j > diagonal - window))) {
            if (visible.count == 0)
                visible.first = j;
            visible.count++;
        }
    return visible;
}

/* Returns the dot product of head `x_head` of a row of x and head `y_head` of a row of y. */
static double dot(const struct tensor *x, int64_t x_row, int64_t x_head, const struct tensor *y, int64_t y_row,
                  int64_t y_head, int64_t head_dim)
{
    double sum = 0.0;
    for (int64_t i = 0; i < head_dim; i++)
        sum += reference_load(x, x_row, x_head * head_dim + i) * reference_load(y, y_row, y_head * head_dim + i);
    return sum;
}

static void zero(const struct tensor *x)
{
    reference_fill(&(struct fill_args){.x = *x, .value = 0.0});
}

static void add(const struct tensor *x, int64_t row, int64_t col, double value)
{
    reference_store(x, row, col, reference_load(x, row, col) + value);
}

static void forward_row(const struct attention_forward_args *args, const struct reference_span *span, int64_t head,
                        int64_t i)
{
    const struct index_range visible = reference_visible_keys(span, i, args->causal, args->window);
    const int64_t n = visible.count, first = span->kv_start + visible.first;
    if (n == 0)
        return;
    int64_t row = span->q_start + i, kv_head = head / (args->heads / args->kv_heads), dim = args->head_dim;
    double scale = args->scale, largest = -INFINITY, sum = 0.0;
    for (int64_t j = 0; j < n; j++)
        largest = fmax(largest, scale * dot(&args->q, row, head, &args->k, first + j, kv_head, dim));
    for (int64_t j = 0; j < n; j++)
        sum += exp(scale * dot(&args->q, row, head, &args->k, first + j, kv_head, dim) - largest);
    double lse = largest + log(sum);
    reference_store(&args->lse, head, row, lse);

    double o[dim];
    memset(o, 0, sizeof o);
    for (int64_t j = 0; j < n; j++) {
        double p = exp(scale * dot(&args->q, row, head, &args->k, first + j, kv_head, dim) - lse);
        for (int64_t c = 0; c < dim; c++)
            o[c] += p * reference_load(&args->v, first + j, kv_head * dim + c);
    }
    for (int64_t c = 0; c < dim; c++)
        reference_store(&args->o, row, head * dim + c, o[c]);
}

void reference_attention_forward(const struct attention_forward_args *args)
{
    zero(&args->o);
    reference_fill(&(struct fill_args){.x = args->lse, .value = -INFINITY});
    for (int64_t slot = 0; slot < args->segments.q_start.cols; slot++) {
        struct reference_span span = reference_span(&args->segments, slot);
        for (int64_t head = 0; head < args->heads; head++)
            for (int64_t i = 0; i < span.q_length; i++)
                forward_row(args, &span, head, i);
    }
}

/* Adds the contributions of one query row to dq, dk and dv, which are f64 here. With p = exp(s - lse), dp = d_o v' and
 * delta = d_o o': ds = p (dp - delta). lse and o are those that the forward stored. */
static void backward_row(const struct attention_backward_args *args, const struct reference_span *span, int64_t head,
                         int64_t i, const struct tensor *dq, const struct tensor *dk, const struct tensor *dv)
{
    int64_t row = span->q_start + i, kv_head = head / (args->heads / args->kv_heads), dim = args->head_dim;
    double scale = args->scale, lse = reference_load(&args->lse, head, row);
    double delta = dot(&args->d_o, row, head, &args->o, row, head, dim);
    const struct index_range visible = reference_visible_keys(span, i, args->causal, args->window);
    for (int64_t j = 0; j < visible.count; j++) {
        int64_t key = span->kv_start + visible.first + j;
        double p = exp(scale * dot(&args->q, row, head, &args->k, key, kv_head, dim) - lse);
        double ds = p * (dot(&args->d_o, row, head, &args->v, key, kv_head, dim) - delta);
        for (int64_t c = 0; c < dim; c++) {
            add(dq, row, head * dim + c, scale * ds * reference_load(&args->k, key, kv_head * dim + c));
            add(dk, key, kv_head * dim + c, scale * ds * reference_load(&args->q, row, head * dim + c));
            add(dv, key, kv_head * dim + c, p * reference_load(&args->d_o, row, head * dim + c));
        }
    }
}

void reference_attention_backward(const struct attention_backward_args *args)
{
    const struct tensor *to[3] = {&args->dq, &args->dk, &args->dv};
    struct tensor sum[3]; /* f64, because rounding comes only once, at the end */
    for (int i = 0; i < 3; i++) {
        sum[i] = tensor_matrix(memory_allocate(tensor_count(to[i]) * 8), DTYPE_F64, to[i]->rows, to[i]->cols);
        if (i == 0 ? args->accumulate_q : args->accumulate_kv)
            reference_copy(&(struct copy_args){.from = *to[i], .to = sum[i]});
    }
    for (int64_t slot = 0; slot < args->segments.q_start.cols; slot++) {
        struct reference_span span = reference_span(&args->segments, slot);
        for (int64_t head = 0; head < args->heads; head++)
            for (int64_t i = 0; i < span.q_length; i++)
                backward_row(args, &span, head, i, &sum[0], &sum[1], &sum[2]);
    }
    for (int i = 0; i < 2 && tensor_present(&args->positions); i++)
        reference_rope(&(struct rope_args){.x = sum[i],
                                           .positions = args->positions,
                                           .table = args->table,
                                           .head_dim = args->head_dim,
                                           .interleaved = args->interleaved,
                                           .inverse = true});
    for (int i = 0; i < 3; i++) {
        reference_copy(&(struct copy_args){.from = sum[i], .to = *to[i]});
        memory_free(sum[i].data);
    }
}

/* Merges one head of one row. A part with weight 0 is skipped, whatever its o contains. */
static void merge_head(const struct attention_merge_args *args, int64_t row, int64_t head)
{
    double old = args->first ? -INFINITY : reference_load(&args->lse, head, row);
    double part = reference_load(&args->part_lse, head, row), largest = fmax(old, part);
    double old_weight = old == -INFINITY ? 0.0 : exp(old - largest);
    double part_weight = part == -INFINITY ? 0.0 : exp(part - largest), sum = old_weight + part_weight;
    for (int64_t col = head * args->head_dim; col < (head + 1) * args->head_dim; col++) {
        double o = 0.0;
        if (old_weight > 0.0)
            o += old_weight / sum * reference_load(&args->o, row, col);
        if (part_weight > 0.0)
            o += part_weight / sum * reference_load(&args->part_o, row, col);
        reference_store(&args->o, row, col, o);
        if (tensor_present(&args->to))
            reference_store(&args->to, row, col, o);
    }
    reference_store(&args->lse, head, row, sum > 0.0 ? largest + log(sum) : -INFINITY);
}

void reference_attention_merge(const struct attention_merge_args *args)
{
    for (int64_t row = 0; row < args->o.rows; row++)
        for (int64_t head = 0; head < args->heads; head++)
            merge_head(args, row, head);
}
