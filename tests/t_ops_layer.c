/* Norms, rotary positions and activations of an executor match the oracle. */
#include "ops.h"

#include "base/memory.h"

/* For four matrices of so many elements, perhaps in wider rows, where they need more than a trial begins with. */
static void reserve(struct trial *trial, int64_t elements)
{
    if (elements > 1 << 17)
        trial_reserve(trial, (8 << 20) + 16 * elements * (int64_t)sizeof(float));
}

enum residual { RESIDUAL_NONE, RESIDUAL_SEPARATE, RESIDUAL_IN_PLACE };

static void test_rmsnorm_case(enum dtype dtype, int64_t tokens, int64_t hidden, int variant)
{
    enum residual residual = variant % 3;
    struct trial *trial = trial_create("%s T %d H %d", dtype_name(dtype), (int)tokens, (int)hidden);
    reserve(trial, tokens * hidden);
    struct rmsnorm_forward_args forward = {.x = trial_matrix(trial, dtype, tokens, hidden, variant % 2, 1.0),
                                           .weight = trial_normal(trial, dtype, 1, hidden, 1.0),
                                           .y = trial_empty(trial, dtype, tokens, hidden),
                                           .rstd = trial_empty(trial, DTYPE_F32, 1, tokens),
                                           .eps = 1e-2f,
                                           .one_plus = variant / 2 % 2};
    struct rmsnorm_forward_args mistaken = forward;
    mistaken.eps *= 2.0f;
    if (dtype == DTYPE_F32)
        check_noticed(trial, OP_RMSNORM_FORWARD, &forward, &mistaken);
    mistaken = forward;
    mistaken.one_plus = !forward.one_plus;
    check_noticed(trial, OP_RMSNORM_FORWARD, &forward, &mistaken);
    check_op(trial, OP_RMSNORM_FORWARD, &forward);

    trial = trial_create("%s T %d H %d, residual %d, accumulate %d", dtype_name(dtype), (int)tokens, (int)hidden,
                         (int)residual, variant % 2);
    reserve(trial, tokens * hidden);
    struct rmsnorm_backward_args backward = {.x = trial_normal(trial, dtype, tokens, hidden, 1.0),
                                             .weight = trial_normal(trial, dtype, 1, hidden, 1.0),
                                             .rstd = trial_empty(trial, DTYPE_F32, 1, tokens),
                                             .dy = trial_matrix(trial, dtype, tokens, hidden, variant % 2, 1.0),
                                             .accumulate = variant % 2,
                                             .one_plus = variant / 2 % 2};
    for (int64_t t = 0; t < tokens; t++)
        reference_store(&backward.rstd, 0, t, 0.5 + (double)t / (double)tokens);
    if (variant % 4 != 2)
        backward.dx = trial_matrix(trial, dtype, tokens, hidden, variant % 2, 1.0);
    if (variant % 4 != 3)
        backward.dweight = trial_normal(trial, DTYPE_F32, 1, hidden, 1.0);
    if (tensor_present(&backward.dx) && residual == RESIDUAL_SEPARATE)
        backward.residual = trial_matrix(trial, dtype, tokens, hidden, true, 1.0);
    if (tensor_present(&backward.dx) && residual == RESIDUAL_IN_PLACE)
        backward.residual = backward.dx;
    check_op(trial, OP_RMSNORM_BACKWARD, &backward);
}

/* Rows for several warps, and too wide for an executor to keep. */
static const int64_t wide[8] = {1032, 1283, 2056, 3001, 4100, 5120, 5128, 8200};
static const int wide_variants[4] = {0, 5, 8, 10};
/* So many that an executor's groups of threads take several in turn, and some at last none. */
enum { MANY_ROWS = 300, MANY_BYTES = 8320, MANY_VARIANT = 8 };
/* On a GPU also so many that each team brings more rows than its ring has places. */
static const int64_t rings[2][3] = {
    {1000, 2056, MANY_VARIANT}, /* tokens, hidden, variant */
    {1400, 4100, 7},
};

static void test_rmsnorm(void)
{
    static const int64_t widths[5] = {8, 20, 64, 129, 512};
    for (int64_t d = 0; d < 2; d++)
        for (int64_t t = 0; t < COUNT(lengths); t++)
            for (int64_t w = 0; w < COUNT(widths); w++)
                for (int variant = 0; variant < 12; variant += 1 + (int)(w > 1))
                    test_rmsnorm_case(storage[d], lengths[t], widths[w], variant);
    for (int64_t d = 0; d < 2; d++)
        for (int64_t w = 0; w < COUNT(wide); w++)
            for (int64_t v = 0; v < COUNT(wide_variants); v++)
                test_rmsnorm_case(storage[d], 1 + 9 * wide_variants[v], wide[w], wide_variants[v] + (int)(wide[w] % 2));
    for (int64_t d = 0; d < 2; d++)
        test_rmsnorm_case(storage[d], MANY_ROWS, MANY_BYTES / dtype_size(storage[d]), MANY_VARIANT);
    for (int64_t r = 0; on_device && r < COUNT(rings); r++)
        test_rmsnorm_case(DTYPE_F32, rings[r][0], rings[r][1], (int)rings[r][2]);
}

/* wide: rows lie apart, as the columns of queries in a fused projection do. */
static void test_head_norm_case(enum dtype dtype, int64_t tokens, int64_t heads, int64_t dim, int variant)
{
    const bool wide = variant % 2;
    struct trial *trial = trial_create("%s T %d heads %d of %d", dtype_name(dtype), (int)tokens, (int)heads, (int)dim);
    reserve(trial, tokens * heads * dim);
    struct head_norm_forward_args forward = {.x = trial_matrix(trial, dtype, tokens, heads * dim, wide, 1.0),
                                             .weight = trial_normal(trial, dtype, 1, dim, 1.0),
                                             .y = trial_matrix(trial, dtype, tokens, heads * dim, wide, 1.0),
                                             .rstd = trial_empty(trial, DTYPE_F32, heads, tokens),
                                             .head_dim = dim,
                                             .eps = 1e-2f,
                                             .one_plus = variant / 2 % 2};
    struct head_norm_forward_args mistaken = forward;
    mistaken.one_plus = !forward.one_plus;
    check_noticed(trial, OP_HEAD_NORM_FORWARD, &forward, &mistaken);
    check_op(trial, OP_HEAD_NORM_FORWARD, &forward);

    trial = trial_create("%s T %d heads %d of %d, variant %d", dtype_name(dtype), (int)tokens, (int)heads, (int)dim,
                         variant);
    reserve(trial, tokens * heads * dim);
    struct head_norm_backward_args backward = {.x = trial_matrix(trial, dtype, tokens, heads * dim, wide, 1.0),
                                               .weight = trial_normal(trial, dtype, 1, dim, 1.0),
                                               .rstd = trial_empty(trial, DTYPE_F32, heads, tokens),
                                               .dy = trial_matrix(trial, dtype, tokens, heads * dim, wide, 1.0),
                                               .head_dim = dim,
                                               .accumulate = variant / 2 % 2,
                                               .one_plus = variant % 2};
    for (int64_t i = 0; i < heads * tokens; i++)
        reference_store(&backward.rstd, i / tokens, i % tokens, 0.5 + (double)i / (double)(heads * tokens));
    if (variant % 4 != 2)
        backward.dx = trial_matrix(trial, dtype, tokens, heads * dim, wide, 1.0);
    if (variant % 4 != 3)
        backward.dweight = trial_normal(trial, DTYPE_F32, 1, dim, 1.0);
    check_op(trial, OP_HEAD_NORM_BACKWARD, &backward);
}

static void test_head_norm(void)
{
    static const int64_t widths[6] = {2, 8, 20, 64, 128, 256};
    for (int64_t d = 0; d < 2; d++)
        for (int64_t t = 0; t < COUNT(lengths); t++)
            for (int64_t w = 0; w < COUNT(widths); w++)
                for (int variant = 0; variant < 4; variant++) {
                    /* of two sums of many terms both may nearly cancel, so that their bounds say nothing */
                    const int64_t heads = 1 + (t + w + variant) % (widths[w] == 2 ? 2 : 5);
                    test_head_norm_case(storage[d], lengths[t], heads, widths[w], variant);
                }
    test_head_norm_case(DTYPE_BF16, 300, 3, 128, 1); /* several blocks of an executor */
}

/* Large means and small deviations, which a norm that squares before it subtracts would lose. */
static void shift(const struct tensor *x, double mean)
{
    for (int64_t t = 0; t < x->rows; t++)
        for (int64_t h = 0; h < x->cols; h++)
            reference_store(x, t, h, reference_load(x, t, h) + mean * (double)(t % 3 - 1));
}

static void test_layernorm_case(enum dtype dtype, int64_t tokens, int64_t hidden, int variant)
{
    enum residual residual = variant % 3;
    double mean = variant % 4 < 2 || hidden == 1 ? 0.5 : dtype == DTYPE_F32 ? 1000.0 : 30.0;
    struct trial *trial = trial_create("%s T %d H %d mean %g", dtype_name(dtype), (int)tokens, (int)hidden, mean);
    reserve(trial, tokens * hidden);
    struct layernorm_forward_args forward = {.x = trial_matrix(trial, dtype, tokens, hidden, variant % 2, 1.0),
                                             .weight = trial_normal(trial, dtype, 1, hidden, 1.0),
                                             .bias = trial_normal(trial, dtype, 1, hidden, 1.0),
                                             .y = trial_strided(trial, dtype, tokens, hidden, hidden + variant % 2),
                                             .mean = trial_empty(trial, DTYPE_F32, 1, tokens),
                                             .rstd = trial_empty(trial, DTYPE_F32, 1, tokens),
                                             .eps = 1e-2f,
                                             .one_plus = variant / 4 % 2};
    const bool biased = variant % 5 > 0;
    if (!biased)
        forward.bias = (struct tensor){0};
    shift(&forward.x, mean);
    struct layernorm_forward_args mistaken = forward;
    mistaken.eps *= 2.0f;
    check_noticed(trial, OP_LAYERNORM_FORWARD, &forward, &mistaken);
    mistaken = forward;
    mistaken.one_plus = !forward.one_plus;
    if (hidden > 1) /* else the result is the bias */
        check_noticed(trial, OP_LAYERNORM_FORWARD, &forward, &mistaken);
    check_op(trial, OP_LAYERNORM_FORWARD, &forward);

    trial = trial_create("%s T %d H %d mean %g, residual %d, accumulate %d", dtype_name(dtype), (int)tokens,
                         (int)hidden, mean, (int)residual, variant % 2);
    reserve(trial, tokens * hidden);
    struct layernorm_backward_args backward = {.x = trial_matrix(trial, dtype, tokens, hidden, variant % 2, 1.0),
                                               .weight = trial_normal(trial, dtype, 1, hidden, 1.0),
                                               .mean = trial_normal(trial, DTYPE_F32, 1, tokens, 0.5),
                                               .rstd = trial_empty(trial, DTYPE_F32, 1, tokens),
                                               .dy = trial_matrix(trial, dtype, tokens, hidden, variant % 2, 1.0),
                                               .accumulate = variant % 2,
                                               .one_plus = variant / 4 % 2};
    shift(&backward.x, mean);
    for (int64_t t = 0; t < tokens; t++) {
        reference_store(&backward.mean, 0, t, reference_load(&backward.mean, 0, t) + mean * (double)(t % 3 - 1));
        reference_store(&backward.rstd, 0, t, 0.5 + (double)t / (double)tokens);
    }
    if (variant % 4 != 2)
        backward.dx = trial_matrix(trial, dtype, tokens, hidden, variant % 2, 1.0);
    if (variant % 4 != 3) {
        backward.dweight = trial_normal(trial, DTYPE_F32, 1, hidden, 1.0);
        backward.dbias = trial_normal(trial, DTYPE_F32, 1, hidden, 1.0);
        if (!biased)
            backward.dbias = (struct tensor){0};
    }
    if (tensor_present(&backward.dx) && residual == RESIDUAL_SEPARATE)
        backward.residual = trial_matrix(trial, dtype, tokens, hidden, true, 1.0);
    if (tensor_present(&backward.dx) && residual == RESIDUAL_IN_PLACE)
        backward.residual = backward.dx;
    check_op(trial, OP_LAYERNORM_BACKWARD, &backward);
}

static void test_layernorm(void)
{
    static const int64_t widths[6] = {1, 3, 17, 64, 320, 1000}, rows[5] = {1, 7, 64, 129, 300};
    for (int64_t d = 0; d < 2; d++)
        for (int64_t t = 0; t < COUNT(rows); t++)
            for (int64_t w = rows[t] != 7; w < COUNT(widths); w++) /* a single column's gradients may cancel */
                for (int variant = (int)(t + w) % 2; variant<12; variant += widths[w] * rows[t]> 10000 ? 5 : 2)
                    test_layernorm_case(storage[d], rows[t], widths[w], variant);
    for (int64_t d = 0; d < 2; d++)
        for (int64_t w = 0; w < COUNT(wide); w++)
            for (int64_t v = 0; v < COUNT(wide_variants); v++)
                test_layernorm_case(storage[d], 1 + 9 * wide_variants[v], wide[w],
                                    wide_variants[v] + (int)(wide[w] % 2));
    for (int64_t d = 0; d < 2; d++)
        test_layernorm_case(storage[d], MANY_ROWS, MANY_BYTES / dtype_size(storage[d]), MANY_VARIANT);
    for (int64_t r = 0; on_device && r < COUNT(rings); r++)
        test_layernorm_case(DTYPE_F32, rings[r][0], rings[r][1], (int)rings[r][2]);
}

static const int64_t head_dims[7] = {8, 16, 20, 24, 32, 64, 128};

static void test_rope(void)
{
    enum { POSITIONS = 150 };
    for (int64_t d = 0; d < 2; d++)
        for (int64_t t = 0; t < COUNT(lengths); t++)
            for (int64_t h = 0; h < COUNT(head_dims); h++)
                for (int form = 0; form < 4; form++) { /* inverse, interleaved */
                    int64_t head_dim = head_dims[h], heads = 1 + (h + t) % 5;
                    struct trial *trial = trial_create("%s T %d heads %d of %d, form %d", dtype_name(storage[d]),
                                                       (int)lengths[t], (int)heads, (int)head_dim, form);
                    struct rope_args args = {
                        .x = trial_matrix(trial, storage[d], lengths[t], heads * head_dim, (t + h) % 2, 1.0),
                        .positions = trial_draw_integers(trial, lengths[t], POSITIONS),
                        .table = trial_empty(trial, DTYPE_F32, POSITIONS, head_dim),
                        .head_dim = head_dim,
                        .inverse = form & 1,
                        .interleaved = form & 2};
                    for (int64_t p = 0; p < POSITIONS; p++)
                        for (int64_t i = 0; i < head_dim / 2; i++) {
                            double angle = (double)p * pow(500.0, -2.0 * (double)i / (double)head_dim);
                            reference_store(&args.table, p, i, cos(angle));
                            reference_store(&args.table, p, head_dim / 2 + i, sin(angle));
                        }
                    struct rope_args mistaken = args;
                    mistaken.inverse = !args.inverse;
                    if (lengths[t] > 1)
                        check_noticed(trial, OP_ROPE, &args, &mistaken);
                    mistaken = args;
                    mistaken.interleaved = !args.interleaved;
                    if (lengths[t] > 1)
                        check_noticed(trial, OP_ROPE, &args, &mistaken);
                    check_op(trial, OP_ROPE, &args);
                }
}

static void test_swiglu(void)
{
    static const int64_t widths[5] = {1, 5, 16, 33, 172};
    static const double deviations[3] = {1.0, 6.0, 100.0};
    for (int64_t d = 0; d < 2; d++)
        for (int64_t t = 0; t < COUNT(lengths); t++)
            for (int64_t w = 0; w < COUNT(widths); w++) {
                int64_t tokens = lengths[t], width = widths[w];
                double deviation = deviations[(t + w) % 3];
                struct trial *trial = trial_create("%s T %d F %d deviation %g", dtype_name(storage[d]), (int)tokens,
                                                   (int)width, deviation);
                struct swiglu_forward_args forward = {
                    .x = trial_matrix(trial, storage[d], tokens, 2 * width, w % 2, deviation),
                    .y = trial_strided(trial, storage[d], tokens, width, width + t)};
                check_op(trial, OP_SWIGLU_FORWARD, &forward);

                trial = trial_create("%s T %d F %d deviation %g", dtype_name(storage[d]), (int)tokens, (int)width,
                                     deviation);
                struct swiglu_backward_args backward = {
                    .x = trial_matrix(trial, storage[d], tokens, 2 * width, w % 2, deviation),
                    .dy = trial_matrix(trial, storage[d], tokens, width, t % 2, 1.0),
                    .dx = trial_strided(trial, storage[d], tokens, 2 * width, 2 * width + t)};
                check_op(trial, OP_SWIGLU_BACKWARD, &backward);
            }
}

/* Values where an activation goes wrong first, among normal numbers. */
static void place_extremes(const struct tensor *x)
{
    static const double extremes[20] = {0.0, -0.0, 1e-40, -1e-40, 1e-30, -1e-30, 0.7518, -0.7518, 3.0,  -3.0,
                                        5.5, -5.5, 9.0,   -9.0,   12.5,  -12.5,  16.5,   -16.5,   1e30, -1e30};
    for (int64_t i = 0; i < COUNT(extremes) && COUNT(extremes) < x->rows * x->cols; i++)
        reference_store(x, i / x->cols, i % x->cols, extremes[i]);
}

static void test_gelu_case(enum dtype dtype, bool tanh_form, int64_t tokens, int64_t width, double deviation,
                           int variant)
{
    struct trial *trial = trial_create("%s T %d F %d deviation %g, %s", dtype_name(dtype), (int)tokens, (int)width,
                                       deviation, tanh_form ? "tanh" : "erf");
    struct gelu_forward_args forward = {.x = trial_matrix(trial, dtype, tokens, width, variant % 2, deviation),
                                        .y = trial_strided(trial, dtype, tokens, width, width + variant % 3),
                                        .tanh_form = tanh_form};
    if (variant % 3 == 2)
        place_extremes(&forward.x);
    struct gelu_forward_args mistaken = forward;
    mistaken.tanh_form = !tanh_form;
    if (tokens * width >= 1000 && deviation < 10.0)
        check_noticed(trial, OP_GELU_FORWARD, &forward, &mistaken);
    check_op(trial, OP_GELU_FORWARD, &forward);

    trial = trial_create("%s T %d F %d deviation %g, %s, dx %s", dtype_name(dtype), (int)tokens, (int)width, deviation,
                         tanh_form ? "tanh" : "erf", variant % 2 ? "is dy" : "apart");
    struct gelu_backward_args backward = {.x = trial_matrix(trial, dtype, tokens, width, variant % 3 == 1, deviation),
                                          .dy = trial_matrix(trial, dtype, tokens, width, variant % 2, 1.0),
                                          .tanh_form = tanh_form};
    backward.dx = variant % 2 ? backward.dy : trial_strided(trial, dtype, tokens, width, width + variant % 3);
    backward.accumulate = variant == 2;
    if (dtype == DTYPE_F32 && variant > 0) /* for bf16 test_gelu_sum */
        backward.sum = trial_normal(trial, DTYPE_F32, 1, width, 1.0);
    if (variant % 3 == 2)
        place_extremes(&backward.x);
    struct gelu_backward_args mistaken_backward = backward;
    mistaken_backward.tanh_form = !tanh_form;
    if (tokens * width >= 1000 && deviation < 10.0)
        check_noticed(trial, OP_GELU_BACKWARD, &backward, &mistaken_backward);
    check_op(trial, OP_GELU_BACKWARD, &backward);
}

static void test_gelu(void)
{
    static const int64_t widths[5] = {1, 3, 17, 320, 1000};
    static const double deviations[3] = {1.0, 4.0, 100.0};
    for (int64_t d = 0; d < 2; d++)
        for (int64_t t = 0; t < COUNT(lengths); t++)
            for (int64_t w = 0; w < COUNT(widths); w++)
                for (int variant = 0; variant < 3; variant++)
                    for (int form = 0; form < 2; form++) {
                        bool few = lengths[t] * widths[w] < 8; /* perhaps all far below 0, where nothing is left */
                        test_gelu_case(storage[d], form != 0, lengths[t], widths[w],
                                       few ? 1.0 : deviations[(t + w + variant) % 3], variant);
                    }
}

static void test_tanh(void)
{
    static const int64_t widths[4] = {1, 17, 320, 1000};
    for (int64_t d = 0; d < 2; d++)
        for (int64_t t = 0; t < COUNT(lengths); t++)
            for (int64_t w = 0; w < COUNT(widths); w++) {
                const bool in_place = (t + w) % 2, strided = w % 2;
                struct trial *trial = trial_create("tanh: %s T %d F %d%s", dtype_name(storage[d]), (int)lengths[t],
                                                   (int)widths[w], in_place ? ", in place" : "");
                struct tanh_forward_args forward = {
                    .x = trial_matrix(trial, storage[d], lengths[t], widths[w], strided, 2.0)};
                place_extremes(&forward.x);
                forward.y = in_place ? forward.x : trial_empty(trial, storage[d], lengths[t], widths[w]);
                check_op(trial, OP_TANH_FORWARD, &forward);

                trial = trial_create("tanh backward: %s T %d F %d%s", dtype_name(storage[d]), (int)lengths[t],
                                     (int)widths[w], in_place ? ", dx is dy" : "");
                struct tanh_backward_args backward = {
                    .y = trial_matrix(trial, storage[d], lengths[t], widths[w], false, 0.5),
                    .dy = trial_matrix(trial, storage[d], lengths[t], widths[w], strided, 1.0)};
                backward.dx = in_place ? backward.dy : trial_empty(trial, storage[d], lengths[t], widths[w]);
                struct tanh_backward_args mistaken = backward; /* the derivative at another point */
                mistaken.y = backward.dy;
                if (lengths[t] * widths[w] >= 1000)
                    check_noticed(trial, OP_TANH_BACKWARD, &backward, &mistaken);
                check_op(trial, OP_TANH_BACKWARD, &backward);
            }
}

/* What gelu sums is what it stores, in the order that a product's sum of its left operand has: the same bits. */
static void test_gelu_sum_case(enum dtype dtype, int64_t tokens, int64_t width, bool strided, bool in_place)
{
    struct trial *trial = trial_create("%s T %d F %d, sum%s%s", dtype_name(dtype), (int)tokens, (int)width,
                                       strided ? ", strided" : "", in_place ? ", dx is dy" : "");
    struct gelu_backward_args gelu = {.x = trial_matrix(trial, dtype, tokens, width, strided, 1.0),
                                      .dy = trial_matrix(trial, dtype, tokens, width, strided, 1.0),
                                      .sum = trial_normal(trial, DTYPE_F32, 1, width, 1.0),
                                      .accumulate = true};
    gelu.dx = in_place ? gelu.dy : trial_matrix(trial, dtype, tokens, width, strided, 1.0);
    struct gemm_args gemm = {.b = trial_normal(trial, dtype, tokens, 1, 1.0),
                             .d = trial_normal(trial, DTYPE_F32, width, 1, 1.0),
                             .sum_a = trial_normal(trial, DTYPE_F32, 1, width, 1.0),
                             .transpose_a = true,
                             .accumulate = true};
    const size_t bytes = (size_t)width * sizeof(float);
    memcpy(gemm.sum_a.data, gelu.sum.data, bytes);
    for (int i = 0; i < executor_count; i++) {
        struct executor *executor = executors[i];
        struct stream stream = {.executor = executor, .id = STREAM_COMPUTE};
        char *device = executor->class->allocate(executor, trial->used, MEMORY_DEVICE);
        char *result = memory_allocate(trial->used);
        const int64_t words = trial->used / (int64_t)sizeof(int32_t);
        struct tensor there = tensor_vector(device, DTYPE_I32, words);
        struct gelu_backward_args first = gelu;
        struct gemm_args second = gemm;
        first.x = trial_in_copy(trial, &gelu.x, device);
        first.dy = trial_in_copy(trial, &gelu.dy, device);
        first.dx = second.a = trial_in_copy(trial, &gelu.dx, device);
        first.sum = trial_in_copy(trial, &gelu.sum, device);
        second.b = trial_in_copy(trial, &gemm.b, device);
        second.d = trial_in_copy(trial, &gemm.d, device);
        second.sum_a = trial_in_copy(trial, &gemm.sum_a, device);
        executor->class->reserve(executor, STREAM_COMPUTE,
                                 executor->class->workspace(executor, OP_GELU_BACKWARD, &first));
        executor->class->reserve(executor, STREAM_COMPUTE, executor->class->workspace(executor, OP_GEMM, &second));
        LAUNCH(&stream, COPY, copy, .from = tensor_vector(trial->memory, DTYPE_I32, words), .to = there);
        launch(&stream, OP_GELU_BACKWARD, &first);
        launch(&stream, OP_GEMM, &second);
        LAUNCH(&stream, COPY, copy, .from = there, .to = tensor_vector(result, DTYPE_I32, words));
        stream_synchronize(&stream);
        const void *sum = trial_in_copy(trial, &gelu.sum, result).data,
                   *wanted = trial_in_copy(trial, &gemm.sum_a, result).data;
        check_report(__FILE__, __LINE__, memcmp(sum, wanted, bytes) == 0, trial->name);
        check_report(__FILE__, __LINE__, memcmp(sum, gelu.sum.data, bytes) != 0, trial->name);
        executor->class->release(executor, device, MEMORY_DEVICE);
        memory_free(result);
    }
    trial_destroy(trial);
}

/* What layernorm sums is what it stores, rounded. */
static void test_layernorm_sum_case(enum dtype dtype, int64_t tokens, int64_t hidden, bool adds)
{
    struct trial *trial =
        trial_create("%s T %d H %d, sum, adds %d", dtype_name(dtype), (int)tokens, (int)hidden, (int)adds);
    struct layernorm_backward_args args = {.x = trial_normal(trial, dtype, tokens, hidden, 1.0),
                                           .weight = trial_normal(trial, dtype, 1, hidden, 1.0),
                                           .mean = trial_normal(trial, DTYPE_F32, 1, tokens, 0.5),
                                           .rstd = trial_normal(trial, DTYPE_F32, 1, tokens, 0.5),
                                           .dy = trial_normal(trial, dtype, tokens, hidden, 1.0),
                                           .dx = trial_empty(trial, dtype, tokens, hidden),
                                           .sum = trial_normal(trial, DTYPE_F32, 1, hidden, 1.0),
                                           .accumulate_sum = adds};
    if (adds) { /* beside the parameters' sums, which do not */
        args.dweight = trial_empty(trial, DTYPE_F32, 1, hidden);
        args.dbias = trial_empty(trial, DTYPE_F32, 1, hidden);
    }
    for (int i = 0; i < executor_count; i++) {
        char *result = trial_run(trial, executors[i], OP_LAYERNORM_BACKWARD, &args);
        const struct tensor sum = trial_in_copy(trial, &args.sum, result), dx = trial_in_copy(trial, &args.dx, result);
        int64_t wrong = 0;
        for (int64_t h = 0; h < hidden; h++) {
            double wanted = adds ? reference_load(&args.sum, 0, h) : 0.0, magnitude = fabs(wanted);
            for (int64_t t = 0; t < tokens; t++) {
                wanted += reference_load(&dx, t, h);
                magnitude += fabs(reference_load(&dx, t, h));
            }
            wrong += !(fabs(reference_load(&sum, 0, h) - wanted) <= (double)(tokens + 2) * 0x1p-24 * magnitude);
        }
        check_report(__FILE__, __LINE__, wrong == 0, trial->name);
        memory_free(result);
    }
    if (dtype == DTYPE_F32 && hidden <= 1280) /* wider rows have bounds that notice no fault */
        check_op(trial, OP_LAYERNORM_BACKWARD, &args);
    else
        trial_destroy(trial);
}

static void test_layernorm_sum(void)
{
    static const int64_t widths[5] = {17, 320, 1280, 5120, 8200};
    for (int64_t d = 0; d < 2; d++)
        for (int64_t w = 0; w < COUNT(widths); w++)
            test_layernorm_sum_case(storage[d], w < 3 ? 300 : 70, widths[w], w % 2 == 0);
}

static void test_gelu_sum(void)
{
    static const int64_t widths[6] = {1, 8, 17, 320, 1000, 2056}, rows[4] = {1, 7, 129, 300};
    for (int64_t d = 0; d < 2; d++)
        for (int64_t t = 0; t < COUNT(rows); t++)
            for (int64_t w = 0; w < COUNT(widths); w++)
                for (int variant = (int)(t + w) % 2; variant < 4; variant += 2)
                    test_gelu_sum_case(storage[d], rows[t], widths[w], variant % 2, variant / 2);
}

/* From -14 to 14 in small steps: GELU's value and slope are within their relative bounds in
 * both tails, which (1 + erf) / 2 and (1 + tanh) / 2 as they stand would not be. */
static void test_gelu_tails(void)
{
    enum { ROWS = 64, COLS = 1000 };
    for (int form = 0; form < 2; form++) {
        struct trial *trial = trial_create("tails, %s", form ? "tanh" : "erf");
        struct gelu_forward_args forward = {.x = trial_empty(trial, DTYPE_F32, ROWS, COLS),
                                            .y = trial_empty(trial, DTYPE_F32, ROWS, COLS),
                                            .tanh_form = form != 0};
        for (int64_t i = 0; i < ROWS * COLS; i++)
            reference_store(&forward.x, i / COLS, i % COLS, -14.0 + 28.0 * (double)i / (ROWS * COLS));
        compare_op(trial, OP_GELU_FORWARD, &forward);

        struct gelu_backward_args backward = {.x = forward.x,
                                              .dy = trial_empty(trial, DTYPE_F32, ROWS, COLS),
                                              .dx = trial_empty(trial, DTYPE_F32, ROWS, COLS),
                                              .tanh_form = form != 0};
        for (int64_t i = 0; i < ROWS * COLS; i++)
            reference_store(&backward.dy, i / COLS, i % COLS, 1.0);
        check_op(trial, OP_GELU_BACKWARD, &backward);
    }
}

int main(int count, char **arguments)
{
    executors_open(count, arguments);
    test_rmsnorm();
    test_layernorm();
    test_head_norm();
    test_rope();
    test_swiglu();
    test_gelu();
    test_gelu_sum();
    test_gelu_tails();
    test_tanh();
    test_layernorm_sum();
    executors_close();
    return check_end();
}
