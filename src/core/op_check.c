/* What is wrong with an op's arguments: one function for each op with more than a line to check. */
#include "core/group.h"
#include "core/op.h"

static bool same_shape(const struct tensor *a, const struct tensor *b)
{
    return a->rows == b->rows && a->cols == b->cols;
}

static bool is_float(const struct tensor *t)
{
    return t->dtype == DTYPE_F32 || t->dtype == DTYPE_BF16 || t->dtype == DTYPE_F64;
}

static bool is_stat(const struct tensor *t)
{
    return t->dtype == DTYPE_F32 || t->dtype == DTYPE_F64;
}

static bool is_eight_bit(const struct tensor *t)
{
    return t->dtype == DTYPE_E4M3 || t->dtype == DTYPE_E5M2;
}

static bool has_shape(const struct tensor *t, int64_t rows, int64_t cols)
{
    return t->rows == rows && t->cols == cols;
}

#define REQUIRE(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            return #condition;                                                                                         \
    } while (0)

/* Does `scale` have the shape that scales of a copy [rows, cols] have? */
static const char *check_scale(const struct tensor *scale, enum scaling scaling, int64_t rows, int64_t cols)
{
    const struct copy_shape shape = scale_shape_of(scaling, rows, quantization_blocks(rows), quantization_blocks(cols));
    REQUIRE(tensor_present(scale) == (scaling != SCALING_1X32));
    REQUIRE(!tensor_present(scale) || (is_stat(scale) && has_shape(scale, shape.rows, shape.cols)));
    REQUIRE((scaling != SCALING_1X128 && scaling != SCALING_128X128) || scale->stride == shape.stride);
    return NULL;
}

static const char *check_gemm(const struct gemm_args *a)
{
    int64_t m = a->transpose_a ? a->a.cols : a->a.rows, k = a->transpose_a ? a->a.rows : a->a.cols;
    int64_t n = a->transpose_b ? a->b.rows : a->b.cols, kb = a->transpose_b ? a->b.cols : a->b.rows;
    REQUIRE(k == kb);
    REQUIRE(has_shape(&a->d, m, n) && is_float(&a->d));
    REQUIRE(is_float(&a->a) || (is_eight_bit(&a->a) && tensor_present(&a->scale_a)));
    REQUIRE(is_float(&a->b) || (is_eight_bit(&a->b) && tensor_present(&a->scale_b)));
    REQUIRE(is_eight_bit(&a->a) == is_eight_bit(&a->b));
    if (tensor_present(&a->scale_a) || tensor_present(&a->scale_b)) {
        REQUIRE(!a->transpose_a && a->transpose_b && !tensor_present(&a->sum_a));
        REQUIRE(is_eight_bit(&a->a) || (tensor_count(&a->scale_a) <= 1 && tensor_count(&a->scale_b) <= 1));
        const char *wrong = check_scale(&a->scale_a, a->scaling_a, m, k);
        if (wrong == NULL)
            wrong = check_scale(&a->scale_b, a->scaling_b, n, k);
        if (wrong != NULL)
            return wrong;
    }
    REQUIRE(!tensor_present(&a->c) || (same_shape(&a->c, &a->d) && !a->accumulate));
    REQUIRE(!tensor_present(&a->bias) || (has_shape(&a->bias, 1, n) && is_float(&a->bias)));
    REQUIRE(!tensor_present(&a->sum_a) || (has_shape(&a->sum_a, 1, m) && is_stat(&a->sum_a)));
    return NULL;
}

static const char *check_segments(const struct attention_segments *s, int64_t queries, int64_t keys)
{
    REQUIRE(s->q_start.dtype == DTYPE_I32 && s->q_length.dtype == DTYPE_I32 && s->q_offset.dtype == DTYPE_I32);
    REQUIRE(s->kv_start.dtype == DTYPE_I32 && s->kv_length.dtype == DTYPE_I32);
    REQUIRE(same_shape(&s->q_start, &s->q_length) && same_shape(&s->q_start, &s->q_offset));
    REQUIRE(same_shape(&s->q_start, &s->kv_start) && same_shape(&s->q_start, &s->kv_length));
    REQUIRE(s->longest >= 0);
    /* of queries: keys with tables of their own may be more, and anywhere */
    const bool apart = s->kv_start.data != s->q_start.data;
    REQUIRE(!s->regular || (s->longest * s->q_start.cols == queries && (queries == keys || apart)));
    REQUIRE(s->regular || !s->full);
    return NULL;
}

static const char *check_attention_forward(const struct attention_forward_args *a)
{
    REQUIRE(a->kv_heads > 0 && a->heads % a->kv_heads == 0 && a->head_dim > 0);
    REQUIRE(a->q.cols == a->heads * a->head_dim && same_shape(&a->q, &a->o));
    REQUIRE(a->k.cols == a->kv_heads * a->head_dim && same_shape(&a->k, &a->v));
    REQUIRE(has_shape(&a->lse, a->heads, a->q.rows) && is_stat(&a->lse));
    REQUIRE(is_float(&a->q) && is_float(&a->k) && is_float(&a->v) && is_float(&a->o));
    return check_segments(&a->segments, a->q.rows, a->k.rows);
}

static const char *check_attention_backward(const struct attention_backward_args *a)
{
    struct attention_forward_args forward = {a->q,     a->k,        a->v,        a->o,     a->lse,   a->segments,
                                             a->heads, a->kv_heads, a->head_dim, a->scale, a->causal};
    REQUIRE(same_shape(&a->q, &a->d_o) && same_shape(&a->q, &a->dq));
    REQUIRE(same_shape(&a->k, &a->dk) && same_shape(&a->v, &a->dv));
    REQUIRE(a->dq.dtype == a->q.dtype || is_stat(&a->dq));
    REQUIRE((a->dk.dtype == a->k.dtype || is_stat(&a->dk)) && a->dv.dtype == a->dk.dtype);
    REQUIRE(tensor_present(&a->positions) == tensor_present(&a->table));
    if (tensor_present(&a->positions)) {
        REQUIRE(!a->accumulate_q && !a->accumulate_kv && a->dq.dtype == a->q.dtype && a->dk.dtype == a->k.dtype);
        REQUIRE(a->positions.dtype == DTYPE_I32 && has_shape(&a->positions, 1, a->q.rows) && a->k.rows == a->q.rows);
        REQUIRE(a->head_dim % 2 == 0 && a->table.cols == a->head_dim && is_stat(&a->table));
    }
    return check_attention_forward(&forward);
}

static const char *check_attention_merge(const struct attention_merge_args *a)
{
    REQUIRE(a->heads > 0 && a->head_dim > 0 && a->o.cols == a->heads * a->head_dim);
    REQUIRE(is_stat(&a->o) && is_float(&a->part_o) && same_shape(&a->part_o, &a->o));
    REQUIRE(is_stat(&a->lse) && has_shape(&a->lse, a->heads, a->o.rows));
    REQUIRE(is_stat(&a->part_lse) && same_shape(&a->part_lse, &a->lse));
    REQUIRE(!tensor_present(&a->to) || (is_float(&a->to) && same_shape(&a->to, &a->o)));
    return NULL;
}

static const char *check_embedding(const struct tensor *tokens, const struct tensor *scale, const struct tensor *rows,
                                   const struct tensor *weight)
{
    REQUIRE(!tensor_present(scale) || (has_shape(scale, 1, rows->rows) && scale->dtype == DTYPE_F32));
    REQUIRE(tokens->dtype == DTYPE_I32 && has_shape(tokens, 1, rows->rows));
    REQUIRE(rows->cols == weight->cols && is_float(rows) && is_float(weight));
    return NULL;
}

static const char *check_rmsnorm_forward(const struct rmsnorm_forward_args *a)
{
    REQUIRE(same_shape(&a->x, &a->y) && has_shape(&a->weight, 1, a->x.cols));
    REQUIRE(has_shape(&a->rstd, 1, a->x.rows) && is_stat(&a->rstd));
    return NULL;
}

static const char *check_rmsnorm_backward(const struct rmsnorm_backward_args *a)
{
    REQUIRE(same_shape(&a->x, &a->dy) && has_shape(&a->weight, 1, a->x.cols));
    REQUIRE(has_shape(&a->rstd, 1, a->x.rows) && is_stat(&a->rstd));
    REQUIRE(!tensor_present(&a->dx) || same_shape(&a->x, &a->dx));
    REQUIRE(!tensor_present(&a->residual) || same_shape(&a->x, &a->residual));
    REQUIRE(!tensor_present(&a->dweight) || (same_shape(&a->weight, &a->dweight) && is_stat(&a->dweight)));
    return NULL;
}

static const char *check_layernorm_forward(const struct layernorm_forward_args *a)
{
    REQUIRE(same_shape(&a->x, &a->y) && has_shape(&a->weight, 1, a->x.cols) && same_shape(&a->weight, &a->bias));
    REQUIRE(has_shape(&a->rstd, 1, a->x.rows) && is_stat(&a->rstd));
    REQUIRE(same_shape(&a->mean, &a->rstd) && is_stat(&a->mean));
    return NULL;
}

static const char *check_layernorm_backward(const struct layernorm_backward_args *a)
{
    REQUIRE(same_shape(&a->x, &a->dy) && has_shape(&a->weight, 1, a->x.cols));
    REQUIRE(has_shape(&a->rstd, 1, a->x.rows) && is_stat(&a->rstd));
    REQUIRE(same_shape(&a->mean, &a->rstd) && is_stat(&a->mean));
    REQUIRE(!tensor_present(&a->dx) || same_shape(&a->x, &a->dx));
    REQUIRE(!tensor_present(&a->residual) || same_shape(&a->x, &a->residual));
    REQUIRE(tensor_present(&a->dweight) == tensor_present(&a->dbias));
    REQUIRE(!tensor_present(&a->dweight) || (same_shape(&a->weight, &a->dweight) && is_stat(&a->dweight)));
    REQUIRE(!tensor_present(&a->dbias) || (same_shape(&a->weight, &a->dbias) && is_stat(&a->dbias)));
    REQUIRE(!tensor_present(&a->sum) ||
            (tensor_present(&a->dx) && same_shape(&a->weight, &a->sum) && is_stat(&a->sum)));
    return NULL;
}

static const char *check_labels(const struct tensor *labels, int64_t tokens)
{
    REQUIRE(labels->dtype == DTYPE_I32 && has_shape(labels, 1, tokens));
    return NULL;
}

/* Of so many tokens. */
static const char *check_loss(const struct tensor *loss, const struct tensor *total, int64_t tokens)
{
    REQUIRE(has_shape(loss, 1, tokens) && is_stat(loss));
    REQUIRE(has_shape(total, 1, 2) && total->dtype == DTYPE_F64);
    return NULL;
}

static const char *check_xent_stat(const struct xent_stat_args *a)
{
    const char *wrong = check_loss(&a->loss, &a->total, a->logits.rows);
    REQUIRE(is_float(&a->logits) && same_shape(&a->loss, &a->lse) && is_stat(&a->lse));
    return wrong != NULL ? wrong : check_labels(&a->labels, a->logits.rows);
}

static const char *check_xent_part(const struct xent_part_args *a)
{
    REQUIRE(is_float(&a->logits) && a->logits.cols > 0 && a->origin >= 0);
    REQUIRE(has_shape(&a->statistics, XENT_STATISTICS, a->logits.rows) && is_stat(&a->statistics));
    return check_labels(&a->labels, a->logits.rows);
}

static const char *check_xent_merge(const struct xent_merge_args *a)
{
    const char *wrong = check_loss(&a->loss, &a->total, a->statistics.cols);
    REQUIRE(a->statistics.rows > 0 && a->statistics.rows % XENT_STATISTICS == 0 && is_stat(&a->statistics));
    REQUIRE(same_shape(&a->loss, &a->lse) && is_stat(&a->lse));
    return wrong != NULL ? wrong : check_labels(&a->labels, a->statistics.cols);
}

static const char *check_xent_grad(const struct xent_grad_args *a)
{
    REQUIRE(is_float(&a->logits) && has_shape(&a->lse, 1, a->logits.rows) && is_stat(&a->lse) && a->origin >= 0);
    return check_labels(&a->labels, a->logits.rows);
}

static const char *check_xent_both(const struct xent_both_args *a)
{
    const char *wrong = check_loss(&a->loss, &a->total, a->logits.rows);
    REQUIRE(is_float(&a->logits));
    return wrong != NULL ? wrong : check_labels(&a->labels, a->logits.rows);
}

static const char *check_copies(const struct quantized_copies *to, int64_t rows, int64_t cols)
{
    const bool given = tensor_present(&to->scale);
    const enum dtype dtype = quantization_dtype(&to->rule);
    const char *wrong = NULL;
    REQUIRE(!given || (has_shape(&to->scale, 1, 1) && is_stat(&to->scale) && to->rule.scaling == SCALING_TENSOR));
    REQUIRE(!given || (!tensor_present(&to->row_scale) && !tensor_present(&to->column_scale)));
    REQUIRE(!tensor_present(&to->amax) || (has_shape(&to->amax, 1, 1) && is_stat(&to->amax)));
    REQUIRE(!tensor_present(&to->whole_amax) || (has_shape(&to->whole_amax, 1, 1) && is_stat(&to->whole_amax)));
    REQUIRE(!tensor_present(&to->whole_amax) || (!given && to->rule.scaling == SCALING_TENSOR));
    REQUIRE(to->rule.stochastic == tensor_present(&to->draw));
    REQUIRE(!tensor_present(&to->draw) || (has_shape(&to->draw, 1, 2) && to->draw.dtype == DTYPE_I32));
    REQUIRE(!to->rule.stochastic || to->rule.format == FORMAT_E2M1);
    REQUIRE((to->rule.format == FORMAT_E2M1) == (to->rule.scaling >= SCALING_1X16));
    REQUIRE(!to->rule.hadamard || to->rule.scaling == SCALING_1X16);
    if (tensor_present(&to->row)) {
        REQUIRE(has_shape(&to->row, rows, cols) && to->row.dtype == dtype);
        wrong = given ? NULL : check_scale(&to->row_scale, to->rule.scaling, rows, cols);
    }
    if (wrong == NULL && tensor_present(&to->column)) {
        REQUIRE(to->column.rows == cols && to->column.cols >= rows && to->column.dtype == dtype);
        REQUIRE(!to->rule.hadamard || to->column.cols % QUANTIZATION_HADAMARD == 0);
        wrong = given ? NULL : check_scale(&to->column_scale, to->rule.scaling, cols, to->column.cols);
    }
    return wrong;
}

/* Of an op that makes y [rows, cols], copies of it, or both. */
static const char *check_made(const struct tensor *y, const struct quantized_copies *to, int64_t rows, int64_t cols)
{
    REQUIRE(tensor_present(y) || has_copies(to));
    REQUIRE(!tensor_present(y) || has_shape(y, rows, cols));
    if (!has_copies(to))
        return NULL;
    REQUIRE(tensor_present(&to->scale) || scaling_local(to->rule.scaling));
    return check_copies(to, rows, cols);
}

static const char *check_quantize(const struct quantize_args *a)
{
    REQUIRE(is_float(&a->x));
    REQUIRE(!tensor_present(&a->sum) || (has_shape(&a->sum, 1, a->x.cols) && is_stat(&a->sum)));
    return check_copies(&a->to, a->x.rows, a->x.cols);
}

static const char *check_quantization_statistic(const struct quantization_statistic_args *a)
{
    REQUIRE(is_float(&a->x) && has_shape(&a->result, 1, STATISTICS) && a->result.dtype == DTYPE_F64);
    REQUIRE(tensor_present(&a->scale) == scaling_whole(a->rule.scaling));
    REQUIRE(!tensor_present(&a->scale) || (has_shape(&a->scale, 1, 1) && is_stat(&a->scale)));
    return NULL;
}

static const char *check_delayed_scale(const struct delayed_scale_args *a)
{
    REQUIRE(a->amax.cols == 1 && is_stat(&a->amax) && a->history.rows == a->amax.rows && a->history.cols > 0);
    REQUIRE(is_stat(&a->history) && same_shape(&a->scale, &a->amax) && is_stat(&a->scale));
    REQUIRE(same_shape(&a->largest, &a->amax) && is_stat(&a->largest));
    return NULL;
}

static const char *check_split(const struct tensor *whole, const struct tensor *high, const struct tensor *low)
{
    REQUIRE(whole->dtype == DTYPE_F32 && whole->rows == 1);
    REQUIRE(high->dtype == DTYPE_BF16 && same_shape(whole, high));
    REQUIRE(!tensor_present(low) || (low->dtype == DTYPE_I16 && same_shape(whole, low)));
    return NULL;
}

static const char *check_adamw(const struct adamw_args *a)
{
    REQUIRE(same_shape(&a->weight, &a->gradient));
    REQUIRE(tensor_present(&a->low) ? check_split(&a->m, &a->weight, &a->low) == NULL : a->weight.dtype == a->m.dtype);
    REQUIRE(is_float(&a->m) && a->m.dtype == a->v.dtype);
    REQUIRE(a->gradient.dtype == a->m.dtype || (tensor_present(&a->low) && a->gradient.dtype == DTYPE_BF16));
    REQUIRE(same_shape(&a->weight, &a->m) && same_shape(&a->weight, &a->v));
    REQUIRE(has_shape(&a->step, 1, ADAMW_STEP_COUNT) && tensor_count(&a->scale) == 1);
    return NULL;
}

/* For the parts of `summed`, one from each rank. */
static bool is_room(const struct tensor *room, const struct group *group, const struct tensor *summed)
{
    return room->dtype == summed->dtype && tensor_contiguous(room) && room->rows == group->size &&
           tensor_count(room) == tensor_count(summed);
}

static const char *check_shapes(enum op op, const void *args)
{
    switch (op) {
    case OP_GEMM:
        return check_gemm(args);
    case OP_EMBEDDING_FORWARD: {
        const struct embedding_forward_args *a = args;
        REQUIRE(a->origin >= 0);
        return check_embedding(&a->tokens, &a->scale, &a->y, &a->weight);
    }
    case OP_EMBEDDING_BACKWARD: {
        const struct embedding_backward_args *a = args;
        REQUIRE(is_float(&a->dweight) && a->origin >= 0);
        return check_embedding(&a->tokens, &a->scale, &a->dy, &a->dweight);
    }
    case OP_RMSNORM_FORWARD:
        return check_rmsnorm_forward(args);
    case OP_RMSNORM_BACKWARD:
        return check_rmsnorm_backward(args);
    case OP_LAYERNORM_FORWARD:
        return check_layernorm_forward(args);
    case OP_LAYERNORM_BACKWARD:
        return check_layernorm_backward(args);
    case OP_ROPE: {
        const struct rope_args *a = args;
        REQUIRE(a->head_dim > 0 && a->head_dim % 2 == 0 && a->x.cols % a->head_dim == 0);
        REQUIRE(a->table.cols == a->head_dim && is_stat(&a->table));
        REQUIRE(a->positions.dtype == DTYPE_I32 && has_shape(&a->positions, 1, a->x.rows));
        return NULL;
    }
    case OP_ATTENTION_FORWARD:
        return check_attention_forward(args);
    case OP_ATTENTION_BACKWARD:
        return check_attention_backward(args);
    case OP_ATTENTION_MERGE:
        return check_attention_merge(args);
    case OP_SWIGLU_FORWARD: {
        const struct swiglu_forward_args *a = args;
        REQUIRE(a->x.cols % 2 == 0);
        return check_made(&a->y, &a->to, a->x.rows, a->x.cols / 2);
    }
    case OP_SWIGLU_BACKWARD: {
        const struct swiglu_backward_args *a = args;
        REQUIRE(has_shape(&a->x, a->dy.rows, 2 * a->dy.cols));
        return check_made(&a->dx, &a->to, a->x.rows, a->x.cols);
    }
    case OP_GELU_FORWARD: {
        const struct gelu_forward_args *a = args;
        return check_made(&a->y, &a->to, a->x.rows, a->x.cols);
    }
    case OP_GELU_BACKWARD: {
        const struct gelu_backward_args *a = args;
        REQUIRE(same_shape(&a->x, &a->dy));
        REQUIRE(!tensor_present(&a->sum) || (has_shape(&a->sum, 1, a->x.cols) && is_stat(&a->sum)));
        return check_made(&a->dx, &a->to, a->x.rows, a->x.cols);
    }
    case OP_XENT_STAT:
        return check_xent_stat(args);
    case OP_XENT_PART:
        return check_xent_part(args);
    case OP_XENT_MERGE:
        return check_xent_merge(args);
    case OP_XENT_GRAD:
        return check_xent_grad(args);
    case OP_XENT_BOTH:
        return check_xent_both(args);
    case OP_COPY: {
        const struct copy_args *a = args;
        REQUIRE(same_shape(&a->from, &a->to) && a->from.dtype == a->to.dtype);
        return NULL;
    }
    case OP_SCATTER: {
        const struct scatter_args *a = args;
        REQUIRE(a->rows.dtype == DTYPE_I32 && has_shape(&a->rows, 1, a->from.rows));
        REQUIRE(is_float(&a->from) && a->from.dtype == a->to.dtype && a->from.cols == a->to.cols);
        return NULL;
    }
    case OP_TRANSPOSE: {
        const struct transpose_args *a = args;
        REQUIRE(is_eight_bit(&a->from) && a->from.dtype == a->to.dtype &&
                has_shape(&a->to, a->from.cols, a->from.rows));
        return NULL;
    }
    case OP_SPLIT: {
        const struct split_args *a = args;
        return check_split(&a->from, &a->high, &a->low);
    }
    case OP_JOIN: {
        const struct join_args *a = args;
        return check_split(&a->to, &a->high, &a->low);
    }
    case OP_FILL:
        REQUIRE(is_float(&((const struct fill_args *)args)->x));
        return NULL;
    case OP_ADD: {
        const struct add_args *a = args;
        REQUIRE(is_float(&a->from) && is_float(&a->to) && same_shape(&a->from, &a->to));
        return NULL;
    }
    case OP_EXACT_ADD: {
        const struct exact_add_args *a = args;
        REQUIRE(is_stat(&a->from) && a->from.rows == 1 && a->to.dtype == DTYPE_F64 && same_shape(&a->from, &a->to));
        REQUIRE(a->unit > 0 && a->most > 0);
        return NULL;
    }
    case OP_EXACT_READ: {
        const struct exact_read_args *a = args;
        REQUIRE(a->from.dtype == DTYPE_F64 && a->from.rows == 1 && is_stat(&a->to) && same_shape(&a->from, &a->to));
        return NULL;
    }
    case OP_QUANTIZE:
        return check_quantize(args);
    case OP_QUANTIZATION_STATISTIC:
        return check_quantization_statistic(args);
    case OP_DELAYED_SCALE:
        return check_delayed_scale(args);
    case OP_SUM_SQUARES: {
        const struct sum_squares_args *a = args;
        REQUIRE(is_float(&a->x) && has_shape(&a->sum, 1, a->unit > 0 ? SQUARES_PARTS : 1) && a->sum.dtype == DTYPE_F64);
        REQUIRE(a->unit <= 0 || (is_stat(&a->x) && a->x.rows == 1 && a->x.cols % SQUARES_BLOCK == 0));
        return NULL;
    }
    case OP_GRADIENT_SCALE: {
        const struct gradient_scale_args *a = args;
        REQUIRE(a->squares.dtype == DTYPE_F64 && a->squares.rows == 1);
        REQUIRE(a->total.dtype == DTYPE_F64 && has_shape(&a->total, 1, 2));
        REQUIRE(tensor_count(&a->scale) == 1 && tensor_count(&a->norm) == 1);
        REQUIRE(a->updates.dtype == DTYPE_F64 && has_shape(&a->updates, 1, 1));
        REQUIRE(is_stat(&a->corrections) && has_shape(&a->corrections, 1, 2));
        return NULL;
    }
    case OP_ADAMW:
        return check_adamw(args);
    case OP_ALL_REDUCE: {
        const struct all_reduce_args *a = args;
        REQUIRE(a->group != NULL && is_float(&a->x) && tensor_contiguous(&a->x));
        REQUIRE(!a->maximum || is_stat(&a->x));
        REQUIRE(!tensor_present(&a->room) || (!a->maximum && is_room(&a->room, a->group, &a->x)));
        return NULL;
    }
    case OP_REDUCE_SCATTER: {
        const struct reduce_scatter_args *a = args;
        REQUIRE(a->group != NULL && is_float(&a->in) && a->in.dtype == a->out.dtype && tensor_contiguous(&a->in));
        REQUIRE(a->in.rows == a->group->size && has_shape(&a->out, 1, a->in.cols));
        REQUIRE(!tensor_present(&a->room) || is_room(&a->room, a->group, &a->in));
        return NULL;
    }
    case OP_ALL_GATHER: {
        const struct all_gather_args *a = args;
        REQUIRE(a->group != NULL && a->in.dtype == a->out.dtype && tensor_contiguous(&a->out));
        REQUIRE(a->out.rows == a->group->size && has_shape(&a->in, 1, a->out.cols));
        return NULL;
    }
    case OP_BROADCAST: {
        const struct broadcast_args *a = args;
        REQUIRE(a->group != NULL && tensor_contiguous(&a->x) && a->root >= 0 && a->root < a->group->size);
        return NULL;
    }
    case OP_ALL_TO_ALL: {
        const struct all_to_all_args *a = args;
        REQUIRE(a->group != NULL && a->in.rows == a->group->size && same_shape(&a->in, &a->out));
        REQUIRE(a->in.dtype == a->out.dtype && tensor_contiguous(&a->in) && tensor_contiguous(&a->out));
        return NULL;
    }
    case OP_SHIFT: {
        const struct shift_args *a = args;
        REQUIRE(a->group != NULL && a->in.rows == 1 && same_shape(&a->in, &a->out) && a->in.dtype == a->out.dtype);
        return NULL;
    }
    case OP_RELAY: {
        const struct relay_args *a = args;
        REQUIRE(a->group != NULL && tensor_contiguous(&a->to_next) && tensor_contiguous(&a->from_before));
        REQUIRE(tensor_contiguous(&a->to_before) && tensor_contiguous(&a->from_next));
        return NULL;
    }
    case OP_COUNT:
        break;
    }
    return "no such op";
}

const char *op_check(enum op op, const void *args)
{
    for (int i = 0; i < op_info(op)->field_count; i++) {
        const struct tensor *t = op_tensor(op, args, i);
        if (!tensor_present(t)) {
            if (!op_info(op)->fields[i].optional)
                return "a required tensor is absent";
            continue;
        }
        if (t->rows < 0 || t->cols < 0 || (t->rows > 1 && t->stride < t->cols))
            return "a tensor's rows, cols or stride make no sense";
    }
    return check_shapes(op, args);
}
