/* The oracle of matrix products, embedding and layers is right: every backward matches central differences in double to
 * 1e-6, and values computed by hand. */
#include "differences.h"

/* The products that the units use: y = x w' (weights are [out, in]), dx = dy w, dw += dy' x. */
static void test_gemm(void)
{
    struct tensor x = normal(7, 5), w = normal(3, 5), c = normal(7, 3), y = zeros(DTYPE_F64, 7, 3), dy = normal(7, 3);
    struct tensor dx = zeros(DTYPE_F64, 7, 5), dw = normal(3, 5), old = copy_of(&dw);
    struct tensor bias = normal(1, 3), dbias = normal(1, 3), old_dbias = copy_of(&dbias);
    struct gemm_args forward = {.a = x, .b = w, .c = c, .d = y, .bias = bias, .transpose_b = true};
    struct objective f = {.op = OP_GEMM, .args = &forward, .output = y, .weight = dy};
    run(OP_GEMM, &(struct gemm_args){.a = dy, .b = w, .d = dx});
    run(OP_GEMM,
        &(struct gemm_args){.a = dy, .b = x, .d = dw, .sum_a = dbias, .transpose_a = true, .accumulate = true});
    check_gradient("gemm, input gradient", &f, &x, &dx, NULL);
    check_gradient("gemm, weight gradient, accumulated", &f, &w, &dw, &old);
    check_gradient("gemm, bias's gradient, accumulated", &f, &bias, &dbias, &old_dbias);
    check_gradient("gemm, addend's gradient", &f, &c, &dy, NULL);
    run(OP_GEMM, &(struct gemm_args){.a = dy, .b = x, .d = dw, .sum_a = dbias, .transpose_a = true});
    check_gradient("gemm, bias's gradient", &f, &bias, &dbias, NULL);

    /* scales, by hand: [1 2] [3 4]' = 11, times 2 times 0.5, plus 1, plus 4 */
    struct tensor a = zeros(DTYPE_E4M3, 1, 2), b = zeros(DTYPE_E5M2, 1, 2), d = zeros(DTYPE_F32, 1, 1);
    struct tensor two = zeros(DTYPE_F32, 1, 1), half = zeros(DTYPE_F32, 1, 1);
    for (int i = 0; i < 2; i++) {
        reference_store(&a, 0, i, 1.0 + i);
        reference_store(&b, 0, i, 3.0 + i);
    }
    reference_store(&two, 0, 0, 2.0);
    reference_store(&half, 0, 0, 0.5);
    struct tensor four = zeros(DTYPE_F32, 1, 1);
    reference_store(&d, 0, 0, 1.0);
    reference_store(&four, 0, 0, 4.0);
    run(OP_GEMM, &(struct gemm_args){.a = a,
                                     .b = b,
                                     .d = d,
                                     .bias = four,
                                     .scale_a = two,
                                     .scale_b = half,
                                     .transpose_b = true,
                                     .accumulate = true});
    CHECK(reference_load(&d, 0, 0) == 16.0);
    case_end();
}

static void test_embedding(void)
{
    static const int32_t ids[6] = {2, 0, 2, 3, 2, 0};
    struct tensor tokens = integers(6, ids), weight = normal(5, 3), y = zeros(DTYPE_F64, 6, 3), dy = normal(6, 3);
    struct tensor drawn = normal(1, 6), scale = rounded_copy(DTYPE_F32, &drawn);
    for (int variant = 0; variant < 4; variant++) {
        bool accumulate = variant & 1, scaled = variant & 2;
        struct embedding_forward_args forward = {.tokens = tokens, .weight = weight, .y = y};
        struct objective f = {.op = OP_EMBEDDING_FORWARD, .args = &forward, .output = y, .weight = dy};
        struct tensor dweight = normal(5, 3), old = copy_of(&dweight);
        struct embedding_backward_args backward = {
            .tokens = tokens, .dy = dy, .dweight = dweight, .padding = -1, .accumulate = accumulate};
        if (scaled)
            forward.scale = backward.scale = scale;
        run(OP_EMBEDDING_BACKWARD, &backward);
        check_gradient("embedding", &f, &weight, &dweight, accumulate ? &old : NULL);
        double factor = scaled ? reference_load(&scale, 0, 3) : 1.0; /* of the fourth token, 3 */
        CHECK(reference_load(&y, 3, 1) == reference_load(&weight, 3, 1) * factor);
        for (int64_t h = 0; h < 3; h++)
            reference_store(&dweight, 2, h, 7.0 + (double)h);
        backward.padding = 2;
        run(OP_EMBEDDING_BACKWARD, &backward); /* its row is as before, or zero */
        for (int64_t h = 0; h < 3; h++)
            CHECK(reference_load(&dweight, 2, h) == (accumulate ? 7.0 + (double)h : 0.0));
    }
    case_end();
}

/* Each part of the vocabulary gives its tokens' rows, and has the rows of the whole's gradient. */
static void test_embedding_parts(void)
{
    static const int32_t ids[6] = {2, 0, 2, 3, 4, 0};
    struct tensor tokens = integers(6, ids), weight = normal(5, 3), y = zeros(DTYPE_F64, 6, 3), dy = normal(6, 3);
    struct tensor dweight = zeros(DTYPE_F64, 5, 3), parts = zeros(DTYPE_F64, 5, 3);
    run(OP_EMBEDDING_BACKWARD,
        &(struct embedding_backward_args){.tokens = tokens, .dy = dy, .dweight = dweight, .padding = 3});
    for (int64_t origin = 0; origin < 5; origin += 3) { /* rows 0 .. 2 and 3 .. 4 */
        const int64_t rows = origin == 0 ? 3 : 2;
        run(OP_EMBEDDING_FORWARD,
            &(struct embedding_forward_args){
                .tokens = tokens, .weight = tensor_rows(&weight, origin, rows), .y = y, .origin = origin});
        run(OP_EMBEDDING_BACKWARD, &(struct embedding_backward_args){.tokens = tokens,
                                                                     .dy = dy,
                                                                     .dweight = tensor_rows(&parts, origin, rows),
                                                                     .padding = 3,
                                                                     .origin = origin});
        for (int64_t t = 0; t < 6; t++)
            CHECK(reference_load(&y, t, 1) == (ids[t] / 3 == origin / 3 ? reference_load(&weight, ids[t], 1) : 0.0));
    }
    for (int64_t i = 0; i < 15; i++)
        CHECK(reference_load(&parts, i / 3, i % 3) == reference_load(&dweight, i / 3, i % 3));
    CHECK(reference_load(&parts, 4, 0) == reference_load(&dy, 4, 0) && reference_load(&parts, 3, 0) == 0.0);
    case_end();
}

static void test_rmsnorm(bool one_plus)
{
    const int64_t tokens = 5, hidden = 7;
    struct tensor x = normal(tokens, hidden), weight = normal(1, hidden), y = zeros(DTYPE_F64, tokens, hidden);
    struct tensor rstd = zeros(DTYPE_F64, 1, tokens), dy = normal(tokens, hidden), dx = normal(tokens, hidden);
    struct tensor bypass = copy_of(&dx), alone = zeros(DTYPE_F64, tokens, hidden);
    struct tensor dweight = normal(1, hidden), old = copy_of(&dweight), fresh = normal(1, hidden);
    struct rmsnorm_forward_args forward = {
        .x = x, .weight = weight, .y = y, .rstd = rstd, .eps = 0.1f, .one_plus = one_plus};
    struct objective f = {.op = OP_RMSNORM_FORWARD, .args = &forward, .output = y, .weight = dy};
    run(OP_RMSNORM_FORWARD, &forward);
    double squares = 0.0;
    for (int64_t h = 0; h < hidden; h++)
        squares += reference_load(&x, 2, h) * reference_load(&x, 2, h);
    CHECK_NEAR(reference_load(&rstd, 0, 2), pow(squares / 7.0 + (double)0.1f, -0.5), 1e-14, 0.0);

    struct rmsnorm_backward_args backward = {
        .x = x, .weight = weight, .rstd = rstd, .dy = dy, .residual = dx, .dx = dx, .dweight = dweight};
    backward.accumulate = true;
    backward.one_plus = one_plus;
    run(OP_RMSNORM_BACKWARD, &backward);
    run(OP_RMSNORM_BACKWARD,
        &(struct rmsnorm_backward_args){
            .x = x, .weight = weight, .rstd = rstd, .dy = dy, .dx = alone, .dweight = fresh, .one_plus = one_plus});
    check_gradient("rmsnorm, dx added to the residual in place", &f, &x, &dx, &bypass);
    check_gradient("rmsnorm, dweight accumulated", &f, &weight, &dweight, &old);
    check_gradient("rmsnorm, dx", &f, &x, &alone, NULL);
    check_gradient("rmsnorm, dweight", &f, &weight, &fresh, NULL);
    case_end();
}

/* Three heads of 4 in rows of 12. */
static void test_head_norm(bool one_plus)
{
    const int64_t tokens = 5, heads = 3, dim = 4;
    struct tensor x = normal(tokens, heads * dim), weight = normal(1, dim), y = zeros(DTYPE_F64, tokens, heads * dim);
    struct tensor rstd = zeros(DTYPE_F64, heads, tokens), dy = normal(tokens, heads * dim);
    struct tensor dx = zeros(DTYPE_F64, tokens, heads * dim), dweight = normal(1, dim), old = copy_of(&dweight);
    struct head_norm_forward_args forward = {
        .x = x, .weight = weight, .y = y, .rstd = rstd, .head_dim = dim, .eps = 0.1f, .one_plus = one_plus};
    struct objective f = {.op = OP_HEAD_NORM_FORWARD, .args = &forward, .output = y, .weight = dy};
    run(OP_HEAD_NORM_FORWARD, &forward);
    double squares = 0.0;
    for (int64_t i = 0; i < dim; i++)
        squares += reference_load(&x, 2, dim + i) * reference_load(&x, 2, dim + i);
    CHECK_NEAR(reference_load(&rstd, 1, 2), pow(squares / 4.0 + (double)0.1f, -0.5), 1e-14, 0.0);
    run(OP_HEAD_NORM_BACKWARD, &(struct head_norm_backward_args){.x = x,
                                                                 .weight = weight,
                                                                 .rstd = rstd,
                                                                 .dy = dy,
                                                                 .dx = dx,
                                                                 .dweight = dweight,
                                                                 .head_dim = dim,
                                                                 .accumulate = true,
                                                                 .one_plus = one_plus});
    check_gradient("head_norm, dx", &f, &x, &dx, NULL);
    check_gradient("head_norm, dweight accumulated", &f, &weight, &dweight, &old);
    case_end();
}

static void test_layernorm(bool one_plus)
{
    const int64_t tokens = 5, hidden = 7;
    struct tensor x = normal(tokens, hidden), weight = normal(1, hidden), bias = normal(1, hidden);
    struct tensor y = zeros(DTYPE_F64, tokens, hidden), mean = normal(1, tokens), rstd = normal(1, tokens);
    struct tensor dy = normal(tokens, hidden), dx = normal(tokens, hidden);
    struct tensor bypass = copy_of(&dx), alone = zeros(DTYPE_F64, tokens, hidden);
    struct tensor dweight = normal(1, hidden), dbias = normal(1, hidden), fresh = normal(1, hidden);
    struct tensor old = copy_of(&dweight), old_bias = copy_of(&dbias), fresh_bias = normal(1, hidden);
    struct tensor sum_of_dx = normal(1, hidden), old_sum = copy_of(&sum_of_dx);
    struct layernorm_forward_args forward = {
        .x = x, .weight = weight, .bias = bias, .y = y, .mean = mean, .rstd = rstd, .eps = 0.1f, .one_plus = one_plus};
    struct objective f = {.op = OP_LAYERNORM_FORWARD, .args = &forward, .output = y, .weight = dy};
    run(OP_LAYERNORM_FORWARD, &forward);
    double sum = 0.0, squares = 0.0;
    for (int64_t h = 0; h < hidden; h++) {
        sum += reference_load(&x, 2, h);
        squares += reference_load(&x, 2, h) * reference_load(&x, 2, h);
    }
    double deviation = pow(squares / 7.0 - sum * sum / 49.0 + (double)0.1f, 0.5);
    CHECK_NEAR(reference_load(&mean, 0, 2), sum / 7.0, 1e-14, 0.0);
    CHECK_NEAR(reference_load(&rstd, 0, 2), 1.0 / deviation, 1e-13, 0.0);
    CHECK_NEAR(reference_load(&y, 2, 4),
               (reference_load(&weight, 0, 4) + one_plus) * (reference_load(&x, 2, 4) - sum / 7.0) / deviation +
                   reference_load(&bias, 0, 4),
               1e-13, 0.0);

    struct layernorm_backward_args backward = {.x = x,
                                               .weight = weight,
                                               .mean = mean,
                                               .rstd = rstd,
                                               .dy = dy,
                                               .residual = dx,
                                               .dx = dx,
                                               .dweight = dweight,
                                               .dbias = dbias,
                                               .sum = sum_of_dx,
                                               .accumulate = true,
                                               .accumulate_sum = true,
                                               .one_plus = one_plus};
    run(OP_LAYERNORM_BACKWARD, &backward);
    for (int64_t h = 0; h < hidden; h++) {
        double all = reference_load(&old_sum, 0, h);
        for (int64_t t = 0; t < tokens; t++)
            all += reference_load(&dx, t, h);
        CHECK_NEAR(reference_load(&sum_of_dx, 0, h), all, 1e-13, 0.0);
    }
    run(OP_LAYERNORM_BACKWARD, &(struct layernorm_backward_args){.x = x,
                                                                 .weight = weight,
                                                                 .mean = mean,
                                                                 .rstd = rstd,
                                                                 .dy = dy,
                                                                 .dx = alone,
                                                                 .dweight = fresh,
                                                                 .dbias = fresh_bias,
                                                                 .one_plus = one_plus});
    check_gradient("layernorm, dx added to the residual in place", &f, &x, &dx, &bypass);
    check_gradient("layernorm, dweight accumulated", &f, &weight, &dweight, &old);
    check_gradient("layernorm, dbias accumulated", &f, &bias, &dbias, &old_bias);
    check_gradient("layernorm, dx", &f, &x, &alone, NULL);
    check_gradient("layernorm, dweight", &f, &weight, &fresh, NULL);
    check_gradient("layernorm, dbias", &f, &bias, &fresh_bias, NULL);
    case_end();
}

static void test_rope(bool interleaved)
{
    static const int32_t at[5] = {0, 3, 1, 6, 6};
    const int64_t head_dim = 6;
    struct tensor positions = integers(5, at), table = zeros(DTYPE_F64, 7, head_dim), input = normal(5, 2 * head_dim);
    for (int64_t p = 0; p < 7; p++)
        for (int64_t i = 0; i < 3; i++) {
            double angle = (double)p * pow(10000.0, -2.0 * (double)i / (double)head_dim);
            reference_store(&table, p, i, cos(angle));
            reference_store(&table, p, 3 + i, sin(angle));
        }
    struct tensor x = copy_of(&input), dy = normal(5, 2 * head_dim), dx = copy_of(&dy);
    struct rope_args forward = {
        .x = x, .positions = positions, .table = table, .head_dim = head_dim, .interleaved = interleaved};
    struct rope_args inverse = forward;
    inverse.x = dx, inverse.inverse = true;
    struct objective f = {
        .op = OP_ROPE, .args = &forward, .output = x, .weight = dy, .restore = input, .restored_to = x};
    run(OP_ROPE, &inverse);
    check_gradient("rope, the inverse is the transpose", &f, &input, &dx, NULL);

    /* one pair by hand: position 3, head 1, pair 2, against a complex rotation by 3 * 10000^(-4/6) */
    run(OP_COPY, &(struct copy_args){.from = input, .to = x});
    run(OP_ROPE, &forward);
    int64_t first = interleaved ? 10 : 8; /* of the pair; the other is the head's last element in both forms */
    double angle = 3.0 * pow(10000.0, -4.0 / 6.0), x1 = reference_load(&input, 1, first),
           x2 = reference_load(&input, 1, 11);
    CHECK_NEAR(reference_load(&x, 1, first), x1 * cos(angle) - x2 * sin(angle), 0.0, 1e-14);
    CHECK_NEAR(reference_load(&x, 1, 11), x1 * sin(angle) + x2 * cos(angle), 0.0, 1e-14);
    case_end();
}

/* A packed layout: five slots of which the second is empty, the third has own starts and a query offset (a cache),
 * the fourth has queries but no keys, the fifth has more queries than keys; rows 3 of q and 4 of k are uncovered. */
static const int32_t q_start[5] = {0, 0, 4, 6, 8}, q_length[5] = {3, 0, 2, 2, 3};
static const int32_t kv_start[5] = {0, 0, 5, 0, 10}, kv_length[5] = {4, 0, 5, 0, 2}, q_offset[5] = {0, 0, 3, 0, -1};

enum { ATTENTION_QUERIES = 12, ATTENTION_KEYS = 12 };

static void test_attention(int64_t heads, int64_t kv_heads, bool causal, int64_t window)
{
    const int64_t dim = 3;
    struct attention_segments segments = {integers(5, q_start),
                                          integers(5, q_length),
                                          integers(5, kv_start),
                                          integers(5, kv_length),
                                          integers(5, q_offset),
                                          0,
                                          false,
                                          0};
    /* q, k, v are columns of one matrix, as the fused projection leaves them, and so are their gradients */
    struct tensor fused = normal(ATTENTION_KEYS, (heads + 2 * kv_heads) * dim);
    struct tensor d_fused = normal(ATTENTION_KEYS, (heads + 2 * kv_heads) * dim);
    struct tensor q = tensor_columns(&fused, 0, heads * dim);
    struct tensor k = tensor_columns(&fused, heads * dim, kv_heads * dim);
    struct tensor v = tensor_columns(&fused, (heads + kv_heads) * dim, kv_heads * dim);
    struct tensor dq = tensor_columns(&d_fused, 0, heads * dim);
    struct tensor dk = tensor_columns(&d_fused, heads * dim, kv_heads * dim);
    struct tensor dv = tensor_columns(&d_fused, (heads + kv_heads) * dim, kv_heads * dim);
    struct tensor o = normal(ATTENTION_QUERIES, heads * dim), lse = normal(heads, ATTENTION_QUERIES);
    struct tensor d_o = normal(ATTENTION_QUERIES, heads * dim);
    struct attention_forward_args forward = {q, k, v, o, lse, segments, heads, kv_heads, dim, 0.7f, causal, window};
    struct attention_backward_args backward = {.q = q,
                                               .k = k,
                                               .v = v,
                                               .o = o,
                                               .lse = lse,
                                               .d_o = d_o,
                                               .dq = dq,
                                               .dk = dk,
                                               .dv = dv,
                                               .segments = segments,
                                               .heads = heads,
                                               .kv_heads = kv_heads,
                                               .head_dim = dim,
                                               .scale = 0.7f,
                                               .causal = causal,
                                               .window = window};
    struct objective f = {.op = OP_ATTENTION_FORWARD, .args = &forward, .output = o, .weight = d_o};
    run(OP_ATTENTION_FORWARD, &forward);
    run(OP_ATTENTION_BACKWARD, &backward);
    check_gradient("attention, dq", &f, &q, &dq, NULL);
    check_gradient("attention, dk", &f, &k, &dk, NULL);
    check_gradient("attention, dv", &f, &v, &dv, NULL);

    /* row 5, the second query of the third slot, written out: it sees keys 5..9 (i + q_offset = 4, or all), or the
     * last ones of a window */
    for (int64_t h = 0; h < heads; h++) {
        int64_t g = h * kv_heads / heads;
        double sum = 0.0, first = 0.0;
        for (int64_t j = window > 0 ? 10 - window : 5; j < 10; j++) {
            double s = 0.0;
            for (int64_t c = 0; c < dim; c++)
                s += reference_load(&q, 5, h * dim + c) * reference_load(&k, j, g * dim + c);
            sum += exp((double)0.7f * s);
            first += exp((double)0.7f * s) * reference_load(&v, j, g * dim);
        }
        CHECK_NEAR(reference_load(&lse, h, 5), log(sum), 1e-13, 1e-13);
        CHECK_NEAR(reference_load(&o, 5, h * dim), first / sum, 1e-12, 1e-13);
        /* row 8 is the first query of the fifth slot: offset -1 hides every key from it when causal */
        static const int64_t empty[4] = {3, 6, 7, 8};
        for (int i = 0; i < (causal ? 4 : 3); i++) {
            CHECK(reference_load(&lse, h, empty[i]) == -(double)INFINITY);
            CHECK(reference_load(&o, empty[i], h * dim + 1) == 0.0);
            CHECK(reference_load(&dq, empty[i], h * dim + 1) == 0.0);
        }
        CHECK(reference_load(&dk, 4, g * dim) == 0.0 && reference_load(&dv, 4, g * dim) == 0.0);
        if (!causal)
            CHECK(reference_load(&o, 8, h * dim) != 0.0);
    }
    case_end();
}

static void test_swiglu(void)
{
    struct tensor x = normal(4, 10), y = zeros(DTYPE_F64, 4, 5), dy = normal(4, 5), dx = normal(4, 10);
    struct swiglu_forward_args forward = {.x = x, .y = y};
    struct objective f = {.op = OP_SWIGLU_FORWARD, .args = &forward, .output = y, .weight = dy};
    run(OP_SWIGLU_BACKWARD, &(struct swiglu_backward_args){.x = x, .dy = dy, .dx = dx});
    check_gradient("swiglu", &f, &x, &dx, NULL);
    reference_store(&x, 0, 0, 1.5);
    reference_store(&x, 0, 5, -2.0);
    run(OP_SWIGLU_FORWARD, &forward);
    CHECK_NEAR(reference_load(&y, 0, 0), -3.0 / (1.0 + exp(-1.5)), 1e-15, 0.0);
    case_end();
}

static void test_gelu(bool tanh_form)
{
    struct tensor x = normal(4, 5), y = zeros(DTYPE_F64, 4, 5), dy = normal(4, 5), dx = copy_of(&dy);
    reference_store(&x, 0, 0, -4.0);
    struct gelu_forward_args forward = {.x = x, .y = y, .tanh_form = tanh_form};
    struct objective f = {.op = OP_GELU_FORWARD, .args = &forward, .output = y, .weight = dy};
    run(OP_GELU_BACKWARD, &(struct gelu_backward_args){.x = x, .dy = dx, .dx = dx, .tanh_form = tanh_form});
    check_gradient(tanh_form ? "gelu, tanh" : "gelu, erf", &f, &x, &dx, NULL);

    /* to 17 digits, from the definitions in 30 */
    reference_store(&x, 0, 0, 1.0);
    reference_store(&x, 0, 1, -6.0);
    run(OP_GELU_FORWARD, &forward);
    CHECK_NEAR(reference_load(&y, 0, 0), tanh_form ? 0.84119199060827670 : 0.84134474606854295, 1e-14, 0.0);
    CHECK_NEAR(reference_load(&y, 0, 1), tanh_form ? -8.4396467007622971e-11 : -5.9195258702258962e-09, 1e-13, 0.0);
    case_end();
}

/* -- Mixtures of experts ------------------------------------------------------------------------------------------- */

static struct tensor pairs_of(int64_t tokens, int64_t count, const int32_t *values)
{
    struct tensor x = integers(tokens * count, values);
    return (struct tensor){x.data, DTYPE_I32, tokens, count, count};
}

/* The auxiliary loss of tokens with labels, whose gradient route_backward adds. */
static double auxiliary_loss(const struct route_backward_args *args)
{
    double loss = 0.0;
    for (int64_t t = 0; t < args->logits.rows; t++) {
        const int64_t row = t / (args->logits.rows / args->load.rows), experts = args->logits.cols;
        double sum = 0.0;
        for (int64_t e = 0; e < experts; e++)
            sum += exp(reference_load(&args->logits, t, e));
        for (int64_t e = 0; e < experts && reference_index(&args->labels, t) >= 0; e++)
            loss += exp(reference_load(&args->logits, t, e)) / sum * reference_load(&args->load, row, e) /
                    reference_load(&args->load, row, experts);
    }
    return args->auxiliary * loss;
}

static void test_route(bool balances)
{
    enum { T = 6, E = 4, C = 2 };
    static const int32_t none[T * C], labels[T] = {3, -100, 0, 7, 7, -100};
    struct tensor logits = normal(T, E), weights = zeros(DTYPE_F64, T, C), dw = normal(T, C);
    struct tensor d_logits = zeros(DTYPE_F64, T, E), base = zeros(DTYPE_F64, T, E);
    struct route_forward_args forward = {.logits = logits, .experts = pairs_of(T, C, none), .weights = weights};
    struct objective f = {.op = OP_ROUTE_FORWARD, .args = &forward, .output = weights, .weight = dw};
    run(OP_ROUTE_FORWARD, &forward);
    struct route_backward_args backward = {
        .logits = logits, .experts = forward.experts, .weights = weights, .d_weights = dw, .d_logits = d_logits};
    if (balances) {
        backward.labels = integers(T, labels);
        backward.load = zeros(DTYPE_F64, 2, E + 1);
        backward.auxiliary = 0.3;
        run(OP_EXPERT_LOAD,
            &(struct expert_load_args){.experts = forward.experts, .labels = backward.labels, .load = backward.load});
        CHECK(reference_load(&backward.load, 0, E) == 2.0 && reference_load(&backward.load, 1, E) == 2.0);
        for (int64_t t = 0; t < T; t++)
            for (int64_t e = 0; e < E; e++) {
                const double step = 1e-4, value = reference_load(&logits, t, e);
                double side[2];
                for (int s = 0; s < 2; s++) {
                    reference_store(&logits, t, e, value + (s == 0 ? -step : step));
                    side[s] = auxiliary_loss(&backward);
                }
                reference_store(&logits, t, e, value);
                reference_store(&base, t, e, (side[1] - side[0]) / (2 * step));
            }
    }
    run(OP_ROUTE_BACKWARD, &backward);
    check_gradient(balances ? "route, balanced" : "route", &f, &logits, &d_logits, &base);
    case_end();
}

/* Three experts, of which the second has no rows. */
static void test_experts(void)
{
    static const int32_t ends[3] = {3, 3, 7};
    struct tensor x = normal(7, 5), w = normal(12, 5), y = zeros(DTYPE_F64, 7, 4), dy = normal(7, 4);
    struct tensor dx = zeros(DTYPE_F64, 7, 5), dw = normal(12, 5), old = copy_of(&dw), fresh = normal(12, 5);
    struct expert_gemm_args forward = {.a = x, .b = w, .ends = integers(3, ends), .d = y, .transpose_b = true};
    struct objective f = {.op = OP_EXPERT_GEMM, .args = &forward, .output = y, .weight = dy};
    run(OP_EXPERT_GEMM, &(struct expert_gemm_args){.a = dy, .b = w, .ends = forward.ends, .d = dx});
    run(OP_EXPERT_GRADIENT,
        &(struct expert_gradient_args){.dy = dy, .x = x, .ends = forward.ends, .dweight = dw, .accumulate = true});
    run(OP_EXPERT_GRADIENT, &(struct expert_gradient_args){.dy = dy, .x = x, .ends = forward.ends, .dweight = fresh});
    check_gradient("experts, input gradient", &f, &x, &dx, NULL);
    check_gradient("experts, weight gradient, accumulated", &f, &w, &dw, &old);
    check_gradient("experts, weight gradient", &f, &w, &fresh, NULL);
    CHECK(reference_load(&fresh, 5, 2) == 0.0);
    case_end();
}

static void test_combine(void)
{
    static const int32_t numbers[8] = {5, 0, 2, 7, 1, 3, 6, 4};
    struct tensor places = pairs_of(4, 2, numbers), x = normal(8, 5), weights = normal(4, 2), addend = normal(4, 5);
    struct tensor y = zeros(DTYPE_F64, 4, 5), dy = normal(4, 5), dx = zeros(DTYPE_F64, 8, 5), dw = normal(4, 2);
    struct combine_forward_args forward = {.x = x, .places = places, .weights = weights, .addend = addend, .y = y};
    struct objective f = {.op = OP_COMBINE_FORWARD, .args = &forward, .output = y, .weight = dy};
    run(OP_COMBINE_BACKWARD, &(struct combine_backward_args){
                                 .dy = dy, .x = x, .places = places, .weights = weights, .dx = dx, .d_weights = dw});
    check_gradient("combine, dx", &f, &x, &dx, NULL);
    check_gradient("combine, weights", &f, &weights, &dw, NULL);
    check_gradient("combine, addend", &f, &addend, &dy, NULL);
    case_end();
}

/* By hand: the second expert before the first, of equal logits the first; sorted by expert, then by token. */
static void test_order(void)
{
    enum { T = 3, E = 3, C = 2 };
    static const double logits[T][E] = {{0.0, 2.0, 1.0}, {5.0, 5.0, 4.0}, {-1.0, 0.0, 3.0}};
    static const int32_t chosen[T * C] = {1, 2, 0, 1, 2, 1}, placed[T * C] = {1, 4, 0, 2, 5, 3};
    static const int32_t sorted[T * C] = {1, 0, 1, 2, 0, 2}, last[E] = {1, 4, 6}, none[T * C];
    struct route_forward_args route = {
        .logits = zeros(DTYPE_F64, T, E), .experts = pairs_of(T, C, none), .weights = zeros(DTYPE_F64, T, C)};
    for (int64_t i = 0; i < T * E; i++)
        reference_store(&route.logits, i / E, i % E, logits[i / E][i % E]);
    struct expert_order_args order = {.experts = route.experts,
                                      .places = pairs_of(T, C, none),
                                      .tokens = integers(T * C, none),
                                      .ends = integers(E, none)};
    run(OP_ROUTE_FORWARD, &route);
    run(OP_EXPERT_ORDER, &order);
    CHECK(memcmp(route.experts.data, chosen, sizeof chosen) == 0);
    CHECK_NEAR(reference_load(&route.weights, 0, 1), 1.0 / (1.0 + exp(1.0)), 1e-15, 0.0);
    CHECK(memcmp(order.places.data, placed, sizeof placed) == 0);
    CHECK(memcmp(order.tokens.data, sorted, sizeof sorted) == 0);
    CHECK(memcmp(order.ends.data, last, sizeof last) == 0);
    case_end();
}

static void test_tanh(void)
{
    struct tensor x = normal(4, 5), y = zeros(DTYPE_F64, 4, 5), dy = normal(4, 5), dx = copy_of(&dy);
    struct tanh_forward_args forward = {.x = x, .y = y};
    struct objective f = {.op = OP_TANH_FORWARD, .args = &forward, .output = y, .weight = dy};
    run(OP_TANH_FORWARD, &forward);
    run(OP_TANH_BACKWARD, &(struct tanh_backward_args){.y = y, .dy = dx, .dx = dx});
    check_gradient("tanh", &f, &x, &dx, NULL);
    case_end();
}

int main(void)
{
    oracle = reference_executor_create();
    test_gemm();
    test_embedding();
    test_embedding_parts();
    for (int one_plus = 0; one_plus < 2; one_plus++) {
        test_rmsnorm(one_plus);
        test_head_norm(one_plus);
        test_layernorm(one_plus);
    }
    test_rope(false);
    test_rope(true);
    test_attention(1, 1, true, 0);
    test_attention(4, 2, true, 0);
    test_attention(4, 2, false, 0);
    test_attention(3, 1, false, 0);
    test_attention(4, 2, true, 2);
    test_swiglu();
    test_order();
    test_route(false);
    test_route(true);
    test_experts();
    test_combine();
    test_tanh();
    test_gelu(false);
    test_gelu(true);
    oracle->class->destroy(oracle);
    return check_end();
}
