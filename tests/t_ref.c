/* The oracle is right: every backward against central differences in double, the optimizer against hand-computed
 * numbers and an independent formula, the roundings of core/dtype.h over all codes, Philox's published answers. */
#include "check.h"
#include "ref/reference.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"

#include <stdlib.h>

static struct executor *oracle;

static void run(enum op op, const void *args)
{
    struct stream stream = {.executor = oracle, .id = STREAM_COMPUTE};
    launch(&stream, op, args);
}

/* -- Tensors of a case: all released together ---------------------------------------------------------------------- */

enum { CASE_TENSORS = 64 };
static void *case_memory[CASE_TENSORS];
static int case_count;
static uint64_t draws;

static void case_end(void)
{
    while (case_count > 0)
        memory_free(case_memory[--case_count]);
}

static struct tensor zeros(enum dtype dtype, int64_t rows, int64_t cols)
{
    if (case_count == CASE_TENSORS)
        error_fatal("t_ref: more than %d tensors in a case", CASE_TENSORS);
    case_memory[case_count] = memory_allocate(rows * cols * dtype_size(dtype));
    return tensor_matrix(case_memory[case_count++], dtype, rows, cols);
}

static struct tensor normal(int64_t rows, int64_t cols)
{
    static const struct random_key key = {.seed = 7, .purpose = RANDOM_TEST, .stream = 1};
    struct tensor x = zeros(DTYPE_F64, rows, cols);
    for (int64_t i = 0; i < rows * cols; i++)
        ((double *)x.data)[i] = random_normal(&key, draws++);
    return x;
}

static struct tensor integers(int64_t count, const int32_t *values)
{
    struct tensor x = zeros(DTYPE_I32, 1, count);
    memcpy(x.data, values, (size_t)count * sizeof *values);
    return x;
}

static struct tensor copy_of(const struct tensor *x)
{
    struct tensor to = zeros(DTYPE_F64, x->rows, x->cols);
    run(OP_CAST, &(struct cast_args){.from = *x, .to = to});
    return to;
}

static double sum_of_products(const struct tensor *x, const struct tensor *y)
{
    double sum = 0.0;
    for (int64_t i = 0; i < x->rows; i++)
        for (int64_t j = 0; j < x->cols; j++)
            sum += reference_load(x, i, j) * reference_load(y, i, j);
    return sum;
}

/* -- Finite differences -------------------------------------------------------------------------------------------- */

/* A scalar of an op's outputs: the sum of outputs times fixed weights. */
struct objective {
    enum op op;
    const void *args;
    struct tensor output, weight;       /* same shape; weight plays the part of the gradient from above */
    struct tensor restore, restored_to; /* optional: copied before each run, for ops that work in place */
};

static double evaluate(const struct objective *f)
{
    if (tensor_present(&f->restore))
        run(OP_CAST, &(struct cast_args){.from = f->restore, .to = f->restored_to});
    run(f->op, f->args);
    return sum_of_products(&f->output, &f->weight);
}

/* Checks gradient = base + d objective / d x elementwise, to 1e-6 of the gradient's largest element. With step 1e-4
 * a difference of order four leaves about 1e-12 from rounding and 1e-16 f'''''. base is absent for zero. */
static void check_gradient(const char *what, const struct objective *f, const struct tensor *x,
                           const struct tensor *gradient, const struct tensor *base)
{
    const double step = 1e-4;
    double largest = 0.0, worst = 0.0;
    for (int64_t i = 0; i < x->rows; i++)
        for (int64_t j = 0; j < x->cols; j++) {
            double value = reference_load(x, i, j), side[4];
            for (int s = 0; s < 4; s++) {
                static const double at[4] = {-2.0, -1.0, 1.0, 2.0};
                reference_store(x, i, j, value + at[s] * step);
                side[s] = evaluate(f);
            }
            reference_store(x, i, j, value);
            double slope = (side[0] - 8.0 * side[1] + 8.0 * side[2] - side[3]) / (12.0 * step);
            double wanted = slope + (base != NULL ? reference_load(base, i, j) : 0.0);
            largest = fmax(largest, fabs(wanted));
            double error = fabs(reference_load(gradient, i, j) - wanted);
            if (!(error <= worst))
                worst = error;
        }
    if (!check_report(__FILE__, __LINE__, largest > 1e-3 && worst <= 1e-6 * largest, what))
        fprintf(stderr, "    largest gradient %.3g, worst error %.3g\n", largest, worst);
}

/* -- Ops ----------------------------------------------------------------------------------------------------------- */

/* The products that the units use: y = x w' (weights are [out, in]), dx = dy w, dw += dy' x. */
static void test_gemm(void)
{
    struct tensor x = normal(7, 5), w = normal(3, 5), c = normal(7, 3), y = zeros(DTYPE_F64, 7, 3), dy = normal(7, 3);
    struct tensor dx = zeros(DTYPE_F64, 7, 5), dw = normal(3, 5), old = copy_of(&dw);
    struct gemm_args forward = {.a = x, .b = w, .c = c, .d = y, .transpose_b = true};
    struct objective f = {.op = OP_GEMM, .args = &forward, .output = y, .weight = dy};
    run(OP_GEMM, &(struct gemm_args){.a = dy, .b = w, .d = dx});
    run(OP_GEMM, &(struct gemm_args){.a = dy, .b = x, .d = dw, .transpose_a = true, .accumulate = true});
    check_gradient("gemm, input gradient", &f, &x, &dx, NULL);
    check_gradient("gemm, weight gradient, accumulated", &f, &w, &dw, &old);
    check_gradient("gemm, addend's gradient", &f, &c, &dy, NULL);

    /* scales, by hand: [1 2] [3 4]' = 11, times 2 times 0.5, plus 1 */
    struct tensor a = zeros(DTYPE_E4M3, 1, 2), b = zeros(DTYPE_E5M2, 1, 2), d = zeros(DTYPE_F32, 1, 1);
    struct tensor two = zeros(DTYPE_F32, 1, 1), half = zeros(DTYPE_F32, 1, 1);
    for (int i = 0; i < 2; i++) {
        reference_store(&a, 0, i, 1.0 + i);
        reference_store(&b, 0, i, 3.0 + i);
    }
    reference_store(&two, 0, 0, 2.0);
    reference_store(&half, 0, 0, 0.5);
    reference_store(&d, 0, 0, 1.0);
    run(OP_GEMM, &(struct gemm_args){
                     .a = a, .b = b, .d = d, .scale_a = two, .scale_b = half, .transpose_b = true, .accumulate = true});
    CHECK(reference_load(&d, 0, 0) == 12.0);
    case_end();
}

static void test_embedding(void)
{
    static const int32_t ids[6] = {2, 0, 2, 3, 2, 0};
    struct tensor tokens = integers(6, ids), weight = normal(5, 3), y = zeros(DTYPE_F64, 6, 3), dy = normal(6, 3);
    struct embedding_forward_args forward = {.tokens = tokens, .weight = weight, .y = y};
    struct objective f = {.op = OP_EMBEDDING_FORWARD, .args = &forward, .output = y, .weight = dy};
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        struct tensor dweight = normal(5, 3), old = copy_of(&dweight);
        run(OP_EMBEDDING_BACKWARD, &(struct embedding_backward_args){
                                       .tokens = tokens, .dy = dy, .dweight = dweight, .accumulate = accumulate != 0});
        check_gradient("embedding", &f, &weight, &dweight, accumulate ? &old : NULL);
    }
    case_end();
}

static void test_rmsnorm(void)
{
    const int64_t tokens = 5, hidden = 7;
    struct tensor x = normal(tokens, hidden), weight = normal(1, hidden), y = zeros(DTYPE_F64, tokens, hidden);
    struct tensor rstd = zeros(DTYPE_F64, 1, tokens), dy = normal(tokens, hidden), dx = normal(tokens, hidden);
    struct tensor bypass = copy_of(&dx), alone = zeros(DTYPE_F64, tokens, hidden);
    struct tensor dweight = normal(1, hidden), old = copy_of(&dweight), fresh = normal(1, hidden);
    struct rmsnorm_forward_args forward = {.x = x, .weight = weight, .y = y, .rstd = rstd, .eps = 0.1f};
    struct objective f = {.op = OP_RMSNORM_FORWARD, .args = &forward, .output = y, .weight = dy};
    run(OP_RMSNORM_FORWARD, &forward);
    double squares = 0.0;
    for (int64_t h = 0; h < hidden; h++)
        squares += reference_load(&x, 2, h) * reference_load(&x, 2, h);
    CHECK_NEAR(reference_load(&rstd, 0, 2), pow(squares / 7.0 + (double)0.1f, -0.5), 1e-14, 0.0);

    struct rmsnorm_backward_args backward = {
        .x = x, .weight = weight, .rstd = rstd, .dy = dy, .residual = dx, .dx = dx, .dweight = dweight};
    backward.accumulate = true;
    run(OP_RMSNORM_BACKWARD, &backward);
    run(OP_RMSNORM_BACKWARD, &(struct rmsnorm_backward_args){
                                 .x = x, .weight = weight, .rstd = rstd, .dy = dy, .dx = alone, .dweight = fresh});
    check_gradient("rmsnorm, dx added to the residual in place", &f, &x, &dx, &bypass);
    check_gradient("rmsnorm, dweight accumulated", &f, &weight, &dweight, &old);
    check_gradient("rmsnorm, dx", &f, &x, &alone, NULL);
    check_gradient("rmsnorm, dweight", &f, &weight, &fresh, NULL);
    case_end();
}

static void test_rope(void)
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
    struct rope_args forward = {.x = x, .positions = positions, .table = table, .head_dim = head_dim};
    struct rope_args inverse = {.x = dx, .positions = positions, .table = table, .head_dim = head_dim, .inverse = true};
    struct objective f = {
        .op = OP_ROPE, .args = &forward, .output = x, .weight = dy, .restore = input, .restored_to = x};
    run(OP_ROPE, &inverse);
    check_gradient("rope, the inverse is the transpose", &f, &input, &dx, NULL);

    /* one pair by hand: position 3, head 1, pair 2, against a complex rotation by 3 * 10000^(-4/6) */
    run(OP_CAST, &(struct cast_args){.from = input, .to = x});
    run(OP_ROPE, &forward);
    double angle = 3.0 * pow(10000.0, -4.0 / 6.0), x1 = reference_load(&input, 1, 8),
           x2 = reference_load(&input, 1, 11);
    CHECK_NEAR(reference_load(&x, 1, 8), x1 * cos(angle) - x2 * sin(angle), 0.0, 1e-14);
    CHECK_NEAR(reference_load(&x, 1, 11), x1 * sin(angle) + x2 * cos(angle), 0.0, 1e-14);
    case_end();
}

/* A packed layout: five slots of which the second is empty, the third has own starts and a query offset (a cache),
 * the fourth has queries but no keys, the fifth has more queries than keys; rows 3 of q and 4 of k are uncovered. */
static const int32_t q_start[5] = {0, 0, 4, 6, 8}, q_length[5] = {3, 0, 2, 2, 3};
static const int32_t kv_start[5] = {0, 0, 5, 0, 10}, kv_length[5] = {4, 0, 5, 0, 2}, q_offset[5] = {0, 0, 3, 0, -1};

enum { ATTENTION_QUERIES = 12, ATTENTION_KEYS = 12 };

static void test_attention(int64_t heads, int64_t kv_heads, bool causal)
{
    const int64_t dim = 3;
    struct attention_segments segments = {integers(5, q_start), integers(5, q_length), integers(5, kv_start),
                                          integers(5, kv_length), integers(5, q_offset)};
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
    struct attention_forward_args forward = {q, k, v, o, lse, segments, heads, kv_heads, dim, 0.7f, causal};
    struct attention_backward_args backward = {q,  k,        v,     o,        lse, d_o,  dq,    dk,
                                               dv, segments, heads, kv_heads, dim, 0.7f, causal};
    struct objective f = {.op = OP_ATTENTION_FORWARD, .args = &forward, .output = o, .weight = d_o};
    run(OP_ATTENTION_FORWARD, &forward);
    run(OP_ATTENTION_BACKWARD, &backward);
    check_gradient("attention, dq", &f, &q, &dq, NULL);
    check_gradient("attention, dk", &f, &k, &dk, NULL);
    check_gradient("attention, dv", &f, &v, &dv, NULL);

    /* row 5, the second query of the third slot, written out: it sees keys 5..9 (i + q_offset = 4, or all) */
    for (int64_t h = 0; h < heads; h++) {
        int64_t g = h * kv_heads / heads;
        double sum = 0.0, first = 0.0;
        for (int64_t j = 5; j < 10; j++) {
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
            CHECK(reference_load(&lse, h, empty[i]) == 0.0);
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

static void test_xent(void)
{
    static const int32_t wanted[5] = {3, -100, 0, 6, -100};
    struct tensor logits = normal(5, 7), labels = integers(5, wanted), loss = normal(1, 5), lse = normal(1, 5);
    struct tensor total = zeros(DTYPE_F64, 1, 2), ones = zeros(DTYPE_F64, 1, 5);
    run(OP_FILL, &(struct fill_args){.x = ones, .value = 1.0});
    struct xent_stat_args stat = {.logits = logits, .labels = labels, .loss = loss, .lse = lse, .total = total};
    struct objective f = {.op = OP_XENT_STAT, .args = &stat, .output = loss, .weight = ones};
    reference_store(&total, 0, 0, 10.0);
    reference_store(&total, 0, 1, 2.0);
    run(OP_XENT_STAT, &stat);
    CHECK(reference_load(&total, 0, 1) == 5.0);
    CHECK_NEAR(reference_load(&total, 0, 0), 10.0 + sum_of_products(&loss, &ones), 1e-15, 0.0);
    CHECK(reference_load(&loss, 0, 1) == 0.0 && reference_load(&lse, 0, 4) == 0.0);
    double sum = 0.0;
    for (int64_t j = 0; j < 7; j++)
        sum += exp(reference_load(&logits, 2, j));
    CHECK_NEAR(reference_load(&loss, 0, 2), log(sum) - reference_load(&logits, 2, 0), 1e-13, 1e-15);

    struct tensor gradient = copy_of(&logits);
    run(OP_XENT_GRAD, &(struct xent_grad_args){.logits = gradient, .labels = labels, .lse = lse});
    check_gradient("cross-entropy", &f, &logits, &gradient, NULL);
    for (int64_t j = 0; j < 7; j++)
        CHECK(reference_load(&gradient, 1, j) == 0.0);
    case_end();
}

static void test_gradient_scale(void)
{
    struct tensor x = zeros(DTYPE_F64, 2, 2), squares = zeros(DTYPE_F64, 1, 2), total = zeros(DTYPE_F64, 1, 2);
    struct tensor scale = normal(1, 1), norm = normal(1, 1), one = tensor_columns(&squares, 1, 1);
    for (int i = 0; i < 4; i++)
        reference_store(&x, i / 2, i % 2, 1.0 + i); /* 1 + 4 + 9 + 16 = 30 */
    run(OP_SUM_SQUARES, &(struct sum_squares_args){.x = x, .sum = one});
    CHECK(reference_load(&squares, 0, 1) == 30.0);
    reference_store(&squares, 0, 0, 34.0); /* the norm is sqrt(64) / 4 = 2 */
    reference_store(&total, 0, 1, 4.0);
    struct gradient_scale_args args = {.squares = squares, .total = total, .scale = scale, .norm = norm};
    static const struct {
        float max_norm;
        double scale;
    } wanted[3] = {{0.0f, 0.25}, {3.0f, 0.25}, {0.5f, 0.5 / 2.000001 / 4.0}};
    for (int i = 0; i < 3; i++) {
        args.max_norm = wanted[i].max_norm;
        run(OP_GRADIENT_SCALE, &args);
        CHECK_NEAR(reference_load(&scale, 0, 0), wanted[i].scale, 1e-15, 0.0);
        CHECK(reference_load(&norm, 0, 0) == 2.0);
    }
    reference_store(&total, 0, 1, 0.0); /* no label on any rank: nothing is learnt, nothing is NaN */
    run(OP_GRADIENT_SCALE, &args);
    CHECK(reference_load(&scale, 0, 0) == 0.0 && reference_load(&norm, 0, 0) == 0.0);
    case_end();
}

static struct adamw_args adamw_case(int64_t n)
{
    struct adamw_args args = {.weight = normal(1, n),
                              .copy = zeros(DTYPE_BF16, 1, n),
                              .gradient = normal(1, n),
                              .m = zeros(DTYPE_F64, 1, n),
                              .v = zeros(DTYPE_F64, 1, n),
                              .step = zeros(DTYPE_F64, 1, ADAMW_STEP_COUNT),
                              .scale = zeros(DTYPE_F64, 1, 1)};
    return args;
}

static void adamw_step(const struct adamw_args *args, double lr, int t)
{
    reference_store(&args->step, 0, ADAMW_LR, lr);
    reference_store(&args->step, 0, ADAMW_CORRECTION_1, 1.0 - pow((double)args->beta1, t));
    reference_store(&args->step, 0, ADAMW_CORRECTION_2, 1.0 - pow((double)args->beta2, t));
    run(OP_ADAMW, args);
}

/* Numbers chosen so that every step can be done by hand. */
static void test_adamw_by_hand(void)
{
    struct adamw_args args = adamw_case(1);
    args.beta1 = 0.5f, args.beta2 = 0.75f, args.eps = 0.5f, args.weight_decay = 0.25f, args.lr_factor = 2.0f;
    reference_store(&args.scale, 0, 0, 0.25);
    reference_store(&args.weight, 0, 0, 1.0);
    reference_store(&args.gradient, 0, 0, 2.0);
    /* g = 1/2; m = 1/4, v = 1/16; corrected both to m = 1/2, v = 1/4; lr = 1/4:
     * w = 1 - 1/4 1/4 = 15/16, then - 1/4 (1/2) / (1/2 + 1/2) = 13/16 */
    adamw_step(&args, 0.125, 1);
    CHECK(reference_load(&args.m, 0, 0) == 0.25 && reference_load(&args.v, 0, 0) == 0.0625);
    CHECK(reference_load(&args.weight, 0, 0) == 0.8125 && reference_load(&args.copy, 0, 0) == 0.8125);
    /* g = -1/4: m = 1/8 - 1/8 = 0, v = 3/64 + 1/64 = 1/16; only the decay acts: w = 13/16 15/16 = 195/256 */
    reference_store(&args.gradient, 0, 0, -1.0);
    adamw_step(&args, 0.125, 2);
    CHECK(reference_load(&args.m, 0, 0) == 0.0 && reference_load(&args.v, 0, 0) == 0.0625);
    CHECK(reference_load(&args.weight, 0, 0) == 195.0 / 256.0);
    case_end();
}

/* torch's way round: the step size is lr / correction_1, the denominator sqrt(v) / sqrt(correction_2) + eps. */
static void test_adamw_like_torch(void)
{
    const int64_t n = 5;
    struct adamw_args args = adamw_case(n);
    args.beta1 = 0.9f, args.beta2 = 0.95f, args.eps = 1e-8f, args.weight_decay = 0.1f, args.lr_factor = 0.5f;
    reference_store(&args.scale, 0, 0, 0.01);
    double w[5], m[5] = {0}, v[5] = {0}, b1 = 0.9f, b2 = 0.95f, lr_factor = 0.5f, decay = 0.1f, eps = 1e-8f;
    for (int64_t i = 0; i < n; i++)
        w[i] = reference_load(&args.weight, 0, i);
    for (int t = 1; t <= 20; t++) {
        double lr = 1e-3 * t * lr_factor, c1 = 1.0 - pow(b1, t), c2 = 1.0 - pow(b2, t);
        for (int64_t i = 0; i < n; i++) {
            double g = sin(t * (i + 1.0));
            reference_store(&args.gradient, 0, i, 100.0 * g);
            w[i] *= 1.0 - lr * decay;
            m[i] += (g - m[i]) * (1.0 - b1);
            v[i] = v[i] * b2 + g * g * (1.0 - b2);
            w[i] += -(lr / c1) * (m[i] / (sqrt(v[i]) / sqrt(c2) + eps));
        }
        adamw_step(&args, 1e-3 * t, t);
    }
    for (int64_t i = 0; i < n; i++) {
        CHECK_NEAR(reference_load(&args.weight, 0, i), w[i], 1e-12, 1e-14);
        CHECK_NEAR(reference_load(&args.copy, 0, i), reference_load(&args.weight, 0, i), 0x1p-8, 0.0);
    }
    case_end();
}

static void test_moves(void)
{
    struct tensor x = zeros(DTYPE_F32, 2, 3), row = zeros(DTYPE_E4M3, 2, 3), column = zeros(DTYPE_E4M3, 3, 2);
    struct tensor scale = zeros(DTYPE_F32, 1, 1);
    run(OP_QUANTIZE, &(struct quantize_args){.x = x, .row = row, .column = column, .scale = scale});
    CHECK(reference_load(&scale, 0, 0) == 1.0 && reference_load(&row, 1, 2) == 0.0);
    for (int i = 0; i < 6; i++)
        reference_store(&x, i / 3, i % 3, i == 4 ? -896.0 : 17.0 * i); /* scale 2; 0 8.5 17 25.5 -448 42.5 */
    run(OP_QUANTIZE, &(struct quantize_args){.x = x, .row = row, .column = column, .scale = scale});
    static const double wanted[6] = {0.0, 8.0, 16.0, 26.0, -448.0, 44.0}; /* 8.5 and 17 are ties, to even */
    CHECK(reference_load(&scale, 0, 0) == 2.0);
    for (int i = 0; i < 6; i++) {
        CHECK(reference_load(&row, i / 3, i % 3) == wanted[i]);
        CHECK(reference_load(&column, i % 3, i / 3) == wanted[i]);
    }

    /* a group of one: gather and scatter copy, the others leave the data alone */
    struct group alone = {.name = "alone", .rank = 0, .size = 1};
    struct tensor in = normal(1, 4), out = zeros(DTYPE_F64, 1, 4), kept = copy_of(&in);
    run(OP_ALL_GATHER, &(struct all_gather_args){.group = &alone, .in = in, .out = out});
    CHECK(memcmp(out.data, in.data, 32) == 0);
    memset(out.data, 0, 32);
    run(OP_REDUCE_SCATTER, &(struct reduce_scatter_args){.group = &alone, .in = in, .out = out});
    CHECK(memcmp(out.data, in.data, 32) == 0);
    run(OP_ALL_REDUCE, &(struct all_reduce_args){.group = &alone, .x = in});
    run(OP_BROADCAST, &(struct broadcast_args){.group = &alone, .x = in});
    CHECK(memcmp(kept.data, in.data, 32) == 0);
    case_end();
}

/* -- Number formats ------------------------------------------------------------------------------------------------ */

static double load_bits(enum dtype dtype, uint32_t bits)
{
    uint16_t wide = (uint16_t)bits;
    uint8_t narrow = (uint8_t)bits;
    struct tensor x = tensor_vector(dtype == DTYPE_BF16 ? (void *)&wide : &narrow, dtype, 1);
    return reference_load(&x, 0, 0);
}

static uint32_t round_bits(enum dtype dtype, double value)
{
    uint16_t wide = 0;
    uint8_t narrow = 0;
    struct tensor x = tensor_vector(dtype == DTYPE_BF16 ? (void *)&wide : &narrow, dtype, 1);
    reference_store(&x, 0, 0, value);
    return dtype == DTYPE_BF16 ? wide : narrow;
}

/* The same from f32, which is what executors call. */
static uint32_t round_bits_f32(enum dtype dtype, float value)
{
    return dtype == DTYPE_BF16 ? f32_to_bf16(value) : dtype == DTYPE_E4M3 ? f32_to_e4m3(value) : f32_to_e5m2(value);
}

/* A code's value from the format's definition: 1 sign, then exponent, then mantissa bits. */
static double value_of(uint32_t code, int exponent_bits, int mantissa_bits)
{
    int bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = (int)(code >> mantissa_bits & ((1u << exponent_bits) - 1u));
    double mantissa = (double)(code & ((1u << mantissa_bits) - 1u)) / (double)(1 << mantissa_bits);
    double magnitude = exponent == 0 ? ldexp(mantissa, 1 - bias) : ldexp(1.0 + mantissa, exponent - bias);
    return code >> (exponent_bits + mantissa_bits) ? -magnitude : magnitude;
}

/* All finite codes of one sign: value, exact return, and for each neighbouring pair the middle (a tie, to the even
 * code) and a hair to each side of it. `last` is the code of the largest finite value. */
static void test_format(enum dtype dtype, int exponent_bits, int mantissa_bits, uint32_t last)
{
    uint32_t sign = 1u << (exponent_bits + mantissa_bits);
    int wrong = 0;
    for (uint32_t code = 0; code <= last; code++)
        for (uint32_t s = 0; s <= sign; s += sign) {
            double value = load_bits(dtype, code | s);
            wrong += value != value_of(code | s, exponent_bits, mantissa_bits) || (signbit(value) != 0) != (s != 0);
            wrong += round_bits(dtype, value) != (code | s) || round_bits_f32(dtype, (float)value) != (code | s);
            if (code == last)
                continue;
            double next = load_bits(dtype, (code + 1) | s), middle = 0.5 * (value + next); /* exact in f32 too */
            uint32_t even = (code & 1u ? code + 1 : code) | s;
            wrong += round_bits(dtype, middle) != even || round_bits_f32(dtype, (float)middle) != even;
            wrong += round_bits(dtype, nextafter(middle, value)) != (code | s);
            wrong += round_bits(dtype, nextafter(middle, next)) != ((code + 1) | s);
            wrong += round_bits_f32(dtype, nextafterf((float)middle, (float)value)) != (code | s);
            wrong += round_bits_f32(dtype, nextafterf((float)middle, (float)next)) != ((code + 1) | s);
        }
    if (!check_report(__FILE__, __LINE__, wrong == 0, dtype_name(dtype)))
        fprintf(stderr, "    %d of the roundings are wrong\n", wrong);
    CHECK(isnan(load_bits(dtype, round_bits(dtype, NAN))));
}

static void test_formats(void)
{
    test_format(DTYPE_BF16, 8, 7, 0x7f7f);
    test_format(DTYPE_E4M3, 4, 3, 0x7e);
    test_format(DTYPE_E5M2, 5, 2, 0x7b);

    /* the ends: bf16 overflows to infinity from the middle above its largest value on, the 8-bit types saturate */
    double largest = 0x1.fep127, beyond = 0x1.ffp127;
    CHECK(round_bits(DTYPE_BF16, nextafter(beyond, 0.0)) == 0x7f7f && load_bits(DTYPE_BF16, 0x7f7f) == largest);
    CHECK(round_bits(DTYPE_BF16, beyond) == 0x7f80 && round_bits(DTYPE_BF16, -INFINITY) == 0xff80);
    CHECK(round_bits(DTYPE_BF16, 1e300) == 0x7f80);
    CHECK(load_bits(DTYPE_E4M3, 0x7e) == 448.0 && load_bits(DTYPE_E5M2, 0x7b) == 57344.0);
    static const double large[3] = {449.0, 1e30, INFINITY};
    for (int i = 0; i < 3; i++) {
        CHECK(load_bits(DTYPE_E4M3, round_bits(DTYPE_E4M3, large[i])) == 448.0);
        CHECK(load_bits(DTYPE_E4M3, round_bits(DTYPE_E4M3, -large[i])) == -448.0);
        CHECK(load_bits(DTYPE_E5M2, round_bits(DTYPE_E5M2, 1000.0 * large[i])) == 57344.0);
        CHECK(load_bits(DTYPE_E5M2, round_bits(DTYPE_E5M2, -1000.0 * large[i])) == -57344.0);
    }
    CHECK(isinf(load_bits(DTYPE_E5M2, 0x7c)) && isnan(load_bits(DTYPE_E5M2, 0x7d)) &&
          isnan(load_bits(DTYPE_E4M3, 0x7f)));
    CHECK(load_bits(DTYPE_E4M3, 1) == 0x1p-9 && load_bits(DTYPE_E5M2, 1) == 0x1p-16);
    /* one rounding, not two: to f32 first this would become a tie and then 1.0 */
    CHECK(load_bits(DTYPE_BF16, round_bits(DTYPE_BF16, 1.0 + 0x1p-8 + 0x1p-40)) == 1.0 + 0x1p-7);
    CHECK(load_bits(DTYPE_E4M3, round_bits(DTYPE_E4M3, 1.0 + 0x1p-4 + 0x1p-40)) == 1.125);
}

/* Known answers of Random123's kat_vectors, philox4x32 with 10 rounds. */
static void test_philox(void)
{
    static const uint32_t vectors[3][10] = {
        {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d, 0x41c83b0e, 0xa20bc7c6,
         0x6d5451fd},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09, 0x94fdcceb, 0x5001e420,
         0x24126ea1},
    };
    for (int i = 0; i < 3; i++) {
        uint32_t out[4];
        random_philox(vectors[i], vectors[i] + 4, out);
        CHECK(memcmp(out, vectors[i] + 6, sizeof out) == 0);
    }
}

int main(void)
{
    oracle = reference_executor_create();
    test_formats();
    test_philox();
    test_gemm();
    test_embedding();
    test_rmsnorm();
    test_rope();
    test_attention(1, 1, true);
    test_attention(4, 2, true);
    test_attention(4, 2, false);
    test_attention(3, 1, false);
    test_swiglu();
    test_xent();
    test_gradient_scale();
    test_adamw_by_hand();
    test_adamw_like_torch();
    test_moves();
    oracle->class->destroy(oracle);
    return check_end();
}
