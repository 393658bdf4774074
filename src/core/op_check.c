/* Checks of an op's arguments: presence, types and shapes by the op's row (core/op.c), and one function for
 * each op with rules that a row cannot say. */
#include "base/range.h"
#include "core/group.h"
#include "core/op.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* -- By the rows ------------------------------------------------------------------------------------------------- */

static const char *complain(const char *format, ...)
{
    static _Thread_local char text[160];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    return text;
}

/* Sizes by letter - 'A'; -1: unknown. */
struct sizes {
    int64_t of[26];
};

/* The letters whose sizes are arguments of ops. */
static const struct {
    enum op op;
    char letter;
    const char *name;
    size_t offset; /* offset of the int64_t in the args */
} given[] = {
#define GIVEN(NAME, op, letter, member)                                                                                \
    {                                                                                                                  \
        OP_##NAME, letter, #member, offsetof(struct op##_args, member)                                                 \
    }
    GIVEN(HEAD_NORM_FORWARD, head_norm_forward, 'D', head_dim),
    GIVEN(HEAD_NORM_BACKWARD, head_norm_backward, 'D', head_dim),
    GIVEN(ROPE, rope, 'D', head_dim),
    GIVEN(ATTENTION_FORWARD, attention_forward, 'H', heads),
    GIVEN(ATTENTION_FORWARD, attention_forward, 'K', kv_heads),
    GIVEN(ATTENTION_FORWARD, attention_forward, 'D', head_dim),
    GIVEN(ATTENTION_BACKWARD, attention_backward, 'H', heads),
    GIVEN(ATTENTION_BACKWARD, attention_backward, 'K', kv_heads),
    GIVEN(ATTENTION_BACKWARD, attention_backward, 'D', head_dim),
    GIVEN(ATTENTION_MERGE, attention_merge, 'H', heads),
    GIVEN(ATTENTION_MERGE, attention_merge, 'D', head_dim),
#undef GIVEN
};

static const char *check_given(enum op op, const void *args, struct sizes *sizes)
{
    memset(sizes, -1, sizeof *sizes);
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        if (given[i].op != op)
            continue;
        const int64_t size = *(const int64_t *)((const char *)args + given[i].offset);
        if (size <= 0)
            return complain("%s is %lld", given[i].name, (long long)size);
        sizes->of[given[i].letter - 'A'] = size;
    }
    return NULL;
}

/* Checks that `size` is the product of the numbers and letters at the start of `text`. A letter without a size gets
 * one. */
static const char *check_size(const char *field, const char *side, const char *text, int64_t size, struct sizes *sizes)
{
    int64_t product = 1, *unknown = NULL;
    int used = 0;
    while (isalnum((unsigned char)text[used]))
        if (isdigit((unsigned char)text[used])) {
            char *end = NULL;
            product *= strtoll(text + used, &end, 10);
            used = (int)(end - text);
        } else {
            int64_t *letter = &sizes->of[text[used++] - 'A'];
            if (*letter >= 0)
                product *= *letter;
            else
                unknown = letter;
        }
    if (unknown == NULL && size != product)
        return complain("%s has %lld %s, not %.*s = %lld", field, (long long)size, side, used, text,
                        (long long)product);
    if (unknown != NULL && (product == 0 || size % product != 0))
        return complain("%s has %lld %s, and %.*s is a multiple of %lld", field, (long long)size, side, used, text,
                        (long long)product);
    if (unknown != NULL)
        *unknown = size / product;
    return NULL;
}

static const char *check_dtype(const struct op_field *field, enum dtype dtype, const struct tensor *first)
{
    const unsigned allowed = field->dtypes != 0 ? field->dtypes : 1u << first->dtype;
    char names[64] = "";
    if (allowed >> dtype & 1u)
        return NULL;
    for (int d = 0, used = 0; d < DTYPE_COUNT; d++)
        if (allowed >> d & 1u)
            used += snprintf(names + used, sizeof names - (size_t)used, "%s%s", used > 0 ? " or " : "", dtype_name(d));
    return complain("%s is %s, not %s", field->name, dtype_name(dtype), names);
}

static const char *check_field(enum op op, const void *args, int i, struct sizes *sizes)
{
    const struct op_field *field = &op_info(op)->fields[i];
    const struct tensor *t = op_tensor(op, args, i);
    if (!tensor_present(t))
        return field->optional ? NULL : complain("%s is absent", field->name);
    if (t->rows < 0 || t->cols < 0 || (t->rows > 1 && t->stride < t->cols))
        return complain("%s has %lld rows and %lld columns, %lld elements apart", field->name, (long long)t->rows,
                        (long long)t->cols, (long long)t->stride);
    const char *wrong = check_dtype(field, t->dtype, op_tensor(op, args, 0));
    if (wrong != NULL || field->shape == NULL)
        return wrong;
    const bool transposed = field->transpose != 0 && *(const bool *)((const char *)args + field->transpose);
    const char *cols = strchr(field->shape, ' ') + 1;
    wrong = check_size(field->name, "rows", transposed ? cols : field->shape, t->rows, sizes);
    return wrong != NULL ? wrong : check_size(field->name, "columns", transposed ? field->shape : cols, t->cols, sizes);
}

/* Checks that a collective's tensors are contiguous, and sets the size of R. */
static const char *check_group(enum op op, const void *args, struct sizes *sizes)
{
    const struct group *group = op_group(op, args);
    if (group == NULL)
        return "the group is absent";
    sizes->of['R' - 'A'] = group->size;
    for (int i = 0; i < op_info(op)->field_count; i++)
        if (!tensor_contiguous(op_tensor(op, args, i)))
            return complain("%s is not contiguous", op_info(op)->fields[i].name);
    return NULL;
}

static const char *check_rows(enum op op, const void *args)
{
    struct sizes sizes;
    const char *wrong = check_given(op, args, &sizes);
    if (wrong == NULL && op_info(op)->collective)
        wrong = check_group(op, args, &sizes);
    for (int i = 0; wrong == NULL && i < op_info(op)->field_count; i++)
        wrong = check_field(op, args, i, &sizes);
    return wrong;
}

/* -- What the rows cannot say -------------------------------------------------------------------------------------- */

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

/* Checks the shape of the scales of an operand [rows, cols]. */
static const char *check_scale(const struct tensor *scale, enum scaling scaling, int64_t rows, int64_t cols)
{
    const struct operand_shape shape =
        scale_shape_of(scaling, rows, quantization_blocks(rows), quantization_blocks(cols));
    REQUIRE(tensor_present(scale) == (scaling != SCALING_1X32));
    REQUIRE(!tensor_present(scale) || has_shape(scale, shape.rows, shape.cols));
    REQUIRE((scaling != SCALING_1X128 && scaling != SCALING_128X128) || scale->stride == shape.stride);
    return NULL;
}

static const char *check_gemm(const struct gemm_args *a)
{
    const int64_t m = a->d.rows, n = a->d.cols, k = a->transpose_a ? a->a.rows : a->a.cols;
    REQUIRE(!tensor_present(&a->c) || !a->accumulate);
    REQUIRE(is_eight_bit(&a->a) == is_eight_bit(&a->b));
    REQUIRE(!is_eight_bit(&a->a) || (tensor_present(&a->scale_a) && tensor_present(&a->scale_b)));
    if (!tensor_present(&a->scale_a) && !tensor_present(&a->scale_b))
        return NULL;
    REQUIRE(!a->transpose_a && a->transpose_b && !tensor_present(&a->sum_a));
    REQUIRE(is_eight_bit(&a->a) || (tensor_count(&a->scale_a) <= 1 && tensor_count(&a->scale_b) <= 1));
    const char *wrong = check_scale(&a->scale_a, a->scaling_a, m, k);
    return wrong != NULL ? wrong : check_scale(&a->scale_b, a->scaling_b, n, k);
}

static const char *check_segments(const struct attention_segments *s, int64_t queries, int64_t keys)
{
    REQUIRE(s->longest >= 0);
    /* of queries: keys with tables of their own may be more, in any rows */
    const bool apart = s->kv_start.data != s->q_start.data;
    REQUIRE(!s->full || (s->longest * s->q_start.cols == queries && (queries == keys || apart)));
    return NULL;
}

static const char *check_window(int64_t window, bool causal)
{
    REQUIRE(window >= 0 && window <= ATTENTION_LONGEST_WINDOW && (causal || window == 0));
    return NULL;
}

static const char *check_attention_forward(const struct attention_forward_args *a)
{
    const char *wrong = check_window(a->window, a->causal);
    if (wrong != NULL)
        return wrong;
    REQUIRE(a->heads % a->kv_heads == 0);
    return check_segments(&a->segments, a->q.rows, a->k.rows);
}

static const char *check_attention_backward(const struct attention_backward_args *a)
{
    const char *wrong = check_window(a->window, a->causal);
    if (wrong != NULL)
        return wrong;
    REQUIRE(a->heads % a->kv_heads == 0);
    REQUIRE(a->dq.dtype == a->q.dtype || is_stat(&a->dq));
    REQUIRE((a->dk.dtype == a->k.dtype || is_stat(&a->dk)) && a->dv.dtype == a->dk.dtype);
    REQUIRE(tensor_present(&a->positions) == tensor_present(&a->table));
    if (tensor_present(&a->positions)) {
        REQUIRE(!a->accumulate_q && !a->accumulate_kv && a->dq.dtype == a->q.dtype && a->dk.dtype == a->k.dtype);
        REQUIRE(a->k.rows == a->q.rows && a->head_dim % 2 == 0);
    }
    return check_segments(&a->segments, a->q.rows, a->k.rows);
}

/* Checks the quantized operands of a tensor [rows, cols]. */
static const char *check_quantized(const struct quantized_operands *to, int64_t rows, int64_t cols)
{
    const bool given = tensor_present(&to->scale);
    const enum dtype dtype = quantization_dtype(&to->rule);
    const char *wrong = NULL;
    REQUIRE(!given || to->rule.scaling == SCALING_TENSOR);
    REQUIRE(!given || (!tensor_present(&to->row_scale) && !tensor_present(&to->column_scale)));
    REQUIRE(!tensor_present(&to->whole_amax) || (!given && to->rule.scaling == SCALING_TENSOR));
    REQUIRE(to->rule.stochastic == tensor_present(&to->draw));
    REQUIRE(!to->rule.stochastic || to->rule.format == FORMAT_E2M1);
    REQUIRE((to->rule.format == FORMAT_E2M1) == (to->rule.scaling >= SCALING_1X16));
    REQUIRE(!to->rule.hadamard || to->rule.scaling == SCALING_1X16);
    if (tensor_present(&to->row)) {
        REQUIRE(to->row.dtype == dtype);
        wrong = given ? NULL : check_scale(&to->row_scale, to->rule.scaling, rows, cols);
    }
    if (wrong == NULL && tensor_present(&to->column)) {
        REQUIRE(to->column.cols >= rows && to->column.dtype == dtype);
        REQUIRE(!to->rule.hadamard || to->column.cols % QUANTIZATION_HADAMARD == 0);
        wrong = given ? NULL : check_scale(&to->column_scale, to->rule.scaling, cols, to->column.cols);
    }
    return wrong;
}

/* Checks an op that writes y [rows, cols], its quantized operands, or both. */
static const char *check_made(const struct tensor *y, const struct quantized_operands *to, int64_t rows, int64_t cols)
{
    REQUIRE(tensor_present(y) || has_quantized(to));
    if (!has_quantized(to))
        return NULL;
    REQUIRE(tensor_present(&to->scale) || scaling_local(to->rule.scaling));
    return check_quantized(to, rows, cols);
}

/* Checks the backward of an activation, which may also make quantized operands of its y [rows, y_cols]. */
static const char *check_gradients(const struct tensor *dx, const struct quantized_operands *to, int64_t rows,
                                   int64_t cols, const struct quantized_operands *y_to, int64_t y_cols)
{
    const char *wrong = check_made(dx, to, rows, cols);
    return wrong == NULL && has_quantized(y_to) ? check_made(&(struct tensor){0}, y_to, rows, y_cols) : wrong;
}

static const char *check_swiglu_forward(const struct swiglu_forward_args *a)
{
    REQUIRE(!tensor_present(&a->ends) || !has_quantized(&a->to));
    return check_made(&a->y, &a->to, a->x.rows, a->x.cols / 2);
}

static const char *check_swiglu_backward(const struct swiglu_backward_args *a)
{
    REQUIRE(!tensor_present(&a->ends) || !(has_quantized(&a->to) || has_quantized(&a->y_to)));
    return check_gradients(&a->dx, &a->to, a->x.rows, a->x.cols, &a->y_to, a->dy.cols);
}

/* Checks the counts of tokens by row and expert. */
static const char *check_load(const struct tensor *load, int64_t tokens, int64_t experts)
{
    REQUIRE(load->cols == experts + 1 && experts <= EXPERTS_MOST);
    REQUIRE(load->rows > 0 && tokens % load->rows == 0);
    return NULL;
}

static const char *check_route_backward(const struct route_backward_args *a)
{
    REQUIRE(a->experts.cols >= 1 && a->experts.cols <= a->logits.cols && a->logits.cols <= EXPERTS_MOST);
    REQUIRE(tensor_present(&a->labels) == tensor_present(&a->load));
    return tensor_present(&a->load) ? check_load(&a->load, a->logits.rows, a->logits.cols) : NULL;
}

static const char *check_expert_order(const struct expert_order_args *a)
{
    const int64_t chosen = a->experts.cols, experts = a->ends.cols;
    REQUIRE(experts >= 1 && experts <= EXPERTS_MOST && a->first >= 0);
    REQUIRE(a->tokens.cols == a->experts.rows * MIN(chosen, experts));
    return NULL;
}

static const char *check_expert_gemm(const struct expert_gemm_args *a)
{
    const int64_t experts = a->ends.cols, k = a->a.cols, n = a->d.cols;
    REQUIRE(experts >= 1 && experts <= EXPERTS_MOST);
    REQUIRE(a->transpose_b ? has_shape(&a->b, experts * n, k) : has_shape(&a->b, experts * k, n));
    return NULL;
}

static const char *check_adamw(const struct adamw_args *a)
{
    const bool split = tensor_present(&a->low);
    REQUIRE(split ? a->m.dtype == DTYPE_F32 && a->weight.dtype == DTYPE_BF16 : a->m.dtype == a->weight.dtype);
    REQUIRE(a->v.dtype == a->m.dtype);
    REQUIRE(a->gradient.dtype == a->m.dtype || (split && a->gradient.dtype == DTYPE_BF16));
    return NULL;
}

const char *op_check(enum op op, const void *args)
{
    const char *wrong = check_rows(op, args);
    if (wrong != NULL)
        return wrong;
    switch (op) {
#define CHECK(NAME, name, wrong_of_a)                                                                                  \
    case OP_##NAME: {                                                                                                  \
        const struct name##_args *a = args;                                                                            \
        return wrong_of_a;                                                                                             \
    }
#define RULE(NAME, name, condition) CHECK(NAME, name, (condition) ? NULL : #condition)
        CHECK(GEMM, gemm, check_gemm(a))
        RULE(EMBEDDING_FORWARD, embedding_forward, a->origin >= 0)
        RULE(EMBEDDING_BACKWARD, embedding_backward, a->origin >= 0)
        RULE(LAYERNORM_BACKWARD, layernorm_backward,
             (!tensor_present(&a->dbias) || tensor_present(&a->dweight)) &&
                 (!tensor_present(&a->sum) || tensor_present(&a->dx)))
        RULE(ROPE, rope, a->head_dim % 2 == 0)
        CHECK(ATTENTION_FORWARD, attention_forward, check_attention_forward(a))
        CHECK(ATTENTION_BACKWARD, attention_backward, check_attention_backward(a))
        RULE(ROUTE_FORWARD, route_forward,
             a->experts.cols >= 1 && a->experts.cols <= a->logits.cols && a->logits.cols <= EXPERTS_MOST)
        CHECK(ROUTE_BACKWARD, route_backward, check_route_backward(a))
        CHECK(EXPERT_LOAD, expert_load, check_load(&a->load, a->experts.rows, a->load.cols - 1))
        CHECK(EXPERT_ORDER, expert_order, check_expert_order(a))
        CHECK(EXPERT_GEMM, expert_gemm, check_expert_gemm(a))
        RULE(EXPERT_GRADIENT, expert_gradient, a->ends.cols >= 1 && a->ends.cols <= EXPERTS_MOST)
        CHECK(SWIGLU_FORWARD, swiglu_forward, check_swiglu_forward(a))
        CHECK(SWIGLU_BACKWARD, swiglu_backward, check_swiglu_backward(a))
        CHECK(GELU_FORWARD, gelu_forward, check_made(&a->y, &a->to, a->x.rows, a->x.cols))
        CHECK(GELU_BACKWARD, gelu_backward, check_gradients(&a->dx, &a->to, a->x.rows, a->x.cols, &a->y_to, a->dy.cols))
        RULE(XENT_PART, xent_part, a->logits.cols > 0 && a->origin >= 0)
        RULE(XENT_MERGE, xent_merge, a->statistics.rows > 0)
        RULE(XENT_GRAD, xent_grad, a->origin >= 0)
        RULE(MSE, mse, a->predictions.cols > 0)
        RULE(DROPOUT, dropout, a->probability > 0 && a->probability < 1 && a->origin >= 0)
        RULE(EXACT_ADD, exact_add, a->quantum > 0 && a->most > 0)
        CHECK(QUANTIZE, quantize, check_quantized(&a->to, a->x.rows, a->x.cols))
        RULE(QUANTIZATION_STATISTIC, quantization_statistic,
             tensor_present(&a->scale) == scaling_whole(a->rule.scaling))
        RULE(DELAYED_SCALE, delayed_scale, a->history.cols > 0)
        RULE(SUM_SQUARES, sum_squares,
             a->quantum > 0
                 ? a->sum.cols == SQUARES_PARTS && is_stat(&a->x) && a->x.rows == 1 && a->x.cols % SQUARES_BLOCK == 0
                 : a->sum.cols == 1)
        CHECK(ADAMW, adamw, check_adamw(a))
        RULE(AFFINE, affine, a->diagonal == 0 || a->from.rows == a->from.cols)
        RULE(MOMENTUM, momentum,
             a->gradient.dtype == a->m.dtype || (a->gradient.dtype == DTYPE_BF16 && a->m.dtype == DTYPE_F32))
        RULE(MUON, muon, !tensor_present(&a->low) || a->weight.dtype == DTYPE_BF16)
        RULE(ALL_REDUCE, all_reduce,
             a->maximum ? is_stat(&a->x) && !tensor_present(&a->scratch)
                        : !tensor_present(&a->scratch) || tensor_count(&a->scratch) == tensor_count(&a->x))
        RULE(BROADCAST, broadcast, a->root >= 0 && a->root < a->group->size)
#undef CHECK
#undef RULE
    default:
        return NULL;
    }
}
