/* The oracle of loss, optimizer and moves is right: central differences in double, numbers by hand, torch's formula of
 * AdamW. */
#include "differences.h"

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

    struct tensor both = copy_of(&logits), losses = normal(1, 5), both_total = zeros(DTYPE_F64, 1, 2);
    reference_store(&both_total, 0, 0, 10.0);
    reference_store(&both_total, 0, 1, 2.0);
    run(OP_XENT_BOTH, &(struct xent_both_args){.logits = both, .labels = labels, .loss = losses, .total = both_total});
    for (int64_t i = 0; i < 35; i++)
        CHECK(reference_load(&both, i / 7, i % 7) == reference_load(&gradient, i / 7, i % 7));
    for (int64_t t = 0; t < 5; t++)
        CHECK(reference_load(&losses, 0, t) == reference_load(&loss, 0, t));
    CHECK(reference_load(&both_total, 0, 1) == 5.0);
    CHECK_NEAR(reference_load(&both_total, 0, 0), 10.0 + sum_of_products(&losses, &ones), 1e-15, 0.0);
    case_end();
}

/* z-loss adds the gradient of z lse^2, which is 2 z lse times that of lse; only rows with labels have an lse. */
static void test_z_loss(void)
{
    static const int32_t wanted[5] = {3, -100, 0, 6, 4};
    static const float z = 0.125f;
    struct tensor logits = normal(5, 7), labels = integers(5, wanted), loss = normal(1, 5), lse = normal(1, 5);
    struct tensor total = zeros(DTYPE_F64, 1, 2), weight = zeros(DTYPE_F64, 1, 5);
    struct xent_stat_args stat = {.logits = logits, .labels = labels, .loss = loss, .lse = lse, .total = total};
    run(OP_XENT_STAT, &stat);
    for (int64_t t = 0; t < 5; t++)
        reference_store(&weight, 0, t, 2.0 * (double)z * reference_load(&lse, 0, t));
    struct tensor with = copy_of(&logits), without = copy_of(&logits), both = copy_of(&logits);
    run(OP_XENT_GRAD, &(struct xent_grad_args){.logits = with, .labels = labels, .lse = lse, .z_loss = z});
    run(OP_XENT_GRAD, &(struct xent_grad_args){.logits = without, .labels = labels, .lse = lse});
    run(OP_XENT_BOTH,
        &(struct xent_both_args){
            .logits = both, .labels = labels, .loss = normal(1, 5), .total = zeros(DTYPE_F64, 1, 2), .z_loss = z});
    struct tensor difference = zeros(DTYPE_F64, 5, 7);
    for (int64_t i = 0; i < 35; i++) {
        CHECK(reference_load(&both, i / 7, i % 7) == reference_load(&with, i / 7, i % 7));
        reference_store(&difference, i / 7, i % 7,
                        reference_load(&with, i / 7, i % 7) - reference_load(&without, i / 7, i % 7));
    }
    struct objective f = {.op = OP_XENT_STAT, .args = &stat, .output = lse, .weight = weight};
    check_gradient("z-loss", &f, &logits, &difference, NULL);
    case_end();
}

/* Parts of the vocabulary, merged, give what the whole gives; so do the gradient's parts. */
static void test_xent_parts(void)
{
    static const int32_t wanted[5] = {3, -100, 0, 6, 4};
    static const int64_t cuts[4] = {0, 3, 4, 7};
    struct tensor logits = normal(5, 7), labels = integers(5, wanted), total = zeros(DTYPE_F64, 1, 2);
    struct tensor loss = normal(1, 5), lse = normal(1, 5), merged_loss = normal(1, 5), merged_lse = normal(1, 5);
    struct tensor statistics = normal(3 * XENT_STATISTICS, 5), merged_total = zeros(DTYPE_F64, 1, 2);
    reference_store(&logits, 2, 1, -300.0); /* the largest of all must be shared, or exp overflows */
    reference_store(&logits, 2, 5, 900.0);
    run(OP_XENT_STAT,
        &(struct xent_stat_args){.logits = logits, .labels = labels, .loss = loss, .lse = lse, .total = total});
    for (int p = 0; p < 3; p++)
        run(OP_XENT_PART,
            &(struct xent_part_args){.logits = tensor_columns(&logits, cuts[p], cuts[p + 1] - cuts[p]),
                                     .labels = labels,
                                     .statistics = tensor_rows(&statistics, p * XENT_STATISTICS, XENT_STATISTICS),
                                     .origin = cuts[p]});
    run(OP_XENT_MERGE,
        &(struct xent_merge_args){
            .statistics = statistics, .labels = labels, .loss = merged_loss, .lse = merged_lse, .total = merged_total});
    for (int64_t t = 0; t < 5; t++) {
        CHECK_NEAR(reference_load(&merged_loss, 0, t), reference_load(&loss, 0, t), 1e-14, 1e-15);
        CHECK_NEAR(reference_load(&merged_lse, 0, t), reference_load(&lse, 0, t), 1e-14, 1e-15);
        CHECK(reference_load(&statistics, XENT_STATISTICS, 1) == 0.0);
    }
    CHECK_NEAR(reference_load(&merged_total, 0, 0), reference_load(&total, 0, 0), 1e-14, 0.0);
    CHECK(reference_load(&merged_total, 0, 1) == 4.0);
    CHECK(reference_load(&statistics, XENT_STATISTICS + XENT_TARGET, 0) == reference_load(&logits, 0, 3));

    struct tensor whole = copy_of(&logits);
    run(OP_XENT_GRAD, &(struct xent_grad_args){.logits = whole, .labels = labels, .lse = lse});
    for (int p = 0; p < 3; p++)
        run(OP_XENT_GRAD, &(struct xent_grad_args){.logits = tensor_columns(&logits, cuts[p], cuts[p + 1] - cuts[p]),
                                                   .labels = labels,
                                                   .lse = lse,
                                                   .origin = cuts[p]});
    for (int64_t i = 0; i < 35; i++)
        CHECK(reference_load(&logits, i / 7, i % 7) == reference_load(&whole, i / 7, i % 7));
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
    struct tensor updates = zeros(DTYPE_F64, 1, 1), corrections = normal(1, 2);
    struct gradient_scale_args args = {.squares = squares,
                                       .total = total,
                                       .scale = scale,
                                       .norm = norm,
                                       .updates = updates,
                                       .corrections = corrections,
                                       .beta1 = 0.5,
                                       .beta2 = 0.75};
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
    CHECK(reference_load(&updates, 0, 0) == 4.0);
    reference_store(&total, 0, 0, INFINITY); /* no update, so none is counted */
    run(OP_GRADIENT_SCALE, &args);
    CHECK(isnan(reference_load(&scale, 0, 0)) && reference_load(&updates, 0, 0) == 4.0);
    CHECK(reference_load(&corrections, 0, 0) == 15.0 / 16 && reference_load(&corrections, 0, 1) == 175.0 / 256);
    case_end();
}

static struct adamw_args adamw_case(int64_t n)
{
    struct adamw_args args = {.weight = normal(1, n),
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
    CHECK(reference_load(&args.weight, 0, 0) == 0.8125);
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
    for (int64_t i = 0; i < n; i++)
        CHECK_NEAR(reference_load(&args.weight, 0, i), w[i], 1e-12, 1e-14);
    case_end();
}

static void test_moves(void)
{
    struct tensor x = zeros(DTYPE_F32, 2, 3), row = zeros(DTYPE_E4M3, 2, 3), column = zeros(DTYPE_E4M3, 3, 2);
    struct tensor scale = zeros(DTYPE_F32, 1, 1);
    run(OP_QUANTIZE, &(struct quantize_args){
                         .x = x, .to = {.row = row, .column = column, .row_scale = scale, .column_scale = scale}});
    CHECK(reference_load(&scale, 0, 0) == 1.0 && reference_load(&row, 1, 2) == 0.0);
    for (int i = 0; i < 6; i++)
        reference_store(&x, i / 3, i % 3, i == 4 ? -896.0 : 17.0 * i); /* scale 2; 0 8.5 17 25.5 -448 42.5 */
    run(OP_QUANTIZE, &(struct quantize_args){
                         .x = x, .to = {.row = row, .column = column, .row_scale = scale, .column_scale = scale}});
    static const double wanted[6] = {0.0, 8.0, 16.0, 26.0, -448.0, 44.0}; /* 8.5 and 17 are ties, to even */
    CHECK(reference_load(&scale, 0, 0) == 2.0);
    for (int i = 0; i < 6; i++) {
        CHECK(reference_load(&row, i / 3, i % 3) == wanted[i]);
        CHECK(reference_load(&column, i % 3, i / 3) == wanted[i]);
    }

    /* a group of one: gather, scatter and the exchanges copy, the others leave the data alone */
    struct group alone = {.name = "alone", .rank = 0, .size = 1};
    struct tensor in = normal(1, 4), out = zeros(DTYPE_F64, 1, 4), kept = copy_of(&in);
    run(OP_ALL_GATHER, &(struct all_gather_args){.group = &alone, .in = in, .out = out});
    CHECK(memcmp(out.data, in.data, 32) == 0);
    memset(out.data, 0, 32);
    run(OP_REDUCE_SCATTER, &(struct reduce_scatter_args){.group = &alone, .in = in, .out = out});
    CHECK(memcmp(out.data, in.data, 32) == 0);
    memset(out.data, 0, 32);
    run(OP_ALL_TO_ALL, &(struct all_to_all_args){.group = &alone, .in = in, .out = out});
    CHECK(memcmp(out.data, in.data, 32) == 0);
    memset(out.data, 0, 32);
    run(OP_SHIFT, &(struct shift_args){.group = &alone, .in = in, .out = out});
    CHECK(memcmp(out.data, in.data, 32) == 0);
    memset(out.data, 0, 32);
    run(OP_SEND_RECEIVE, &(struct send_receive_args){.group = &alone, .to_previous = in, .from_next = out});
    CHECK(memcmp(out.data, in.data, 32) == 0);
    run(OP_ALL_REDUCE, &(struct all_reduce_args){.group = &alone, .x = in});
    run(OP_BROADCAST, &(struct broadcast_args){.group = &alone, .x = in});
    CHECK(memcmp(kept.data, in.data, 32) == 0);
    case_end();
}

int main(void)
{
    oracle = reference_executor_create();
    test_xent();
    test_z_loss();
    test_xent_parts();
    test_gradient_scale();
    test_adamw_by_hand();
    test_adamw_like_torch();
    test_moves();
    oracle->class->destroy(oracle);
    return check_end();
}
