/* The router and the experts of a mixture: an executor's ops match the oracle. */
#include "ops.h"

#include "base/memory.h"

#include <math.h>

/* Makes experts [T, C] that are distinct for a token. skewed: most tokens have the first ones, and some experts have no
 * token. */
static struct tensor draw_experts(struct trial *trial, int64_t tokens, int64_t count, int64_t experts, bool skewed)
{
    int32_t *all = memory_allocate(tokens * count * (int64_t)sizeof *all);
    for (int64_t t = 0; t < tokens; t++) {
        const int64_t most = skewed && t % 8 != 0 ? (experts + 1) / 2 : experts;
        const int64_t first = trial_draw((int32_t)experts) % (most > count ? most : count);
        for (int64_t c = 0; c < count; c++)
            all[t * count + c] = (int32_t)((first + c) % experts);
    }
    struct tensor made = trial_integers(trial, all, tokens * count);
    memory_free(all);
    made.rows = tokens;
    made.cols = made.stride = count;
    return made;
}

/* Makes the ends of experts with random numbers of rows, some of them none. all: the experts have all rows together. */
static struct tensor draw_ends(struct trial *trial, int64_t experts, int64_t rows, bool all)
{
    int32_t ends[EXPERTS_MOST] = {0};
    rows -= all ? 0 : (rows + 2) / 3;
    for (int64_t e = 0; e + 1 < experts; e++) {
        const int32_t before = e > 0 ? ends[e - 1] : 0, left = (int32_t)rows - before;
        ends[e] = before + (trial_draw(4) == 0 || left == 0 ? 0 : trial_draw(left + 1));
    }
    ends[experts - 1] = (int32_t)rows;
    return trial_integers(trial, ends, experts);
}

static struct tensor draw_labels(struct trial *trial, int64_t tokens)
{
    struct tensor labels = trial_draw_integers(trial, tokens, 50);
    for (int64_t t = 0; t < tokens; t += 3)
        ((int32_t *)labels.data)[t] = -100;
    return labels;
}

static void test_router_case(int64_t tokens, int64_t experts, int64_t count, int64_t rows, enum dtype dtype)
{
    struct trial *trial = trial_create("T %d, %d of %d experts", (int)tokens, (int)count, (int)experts);
    struct route_forward_args forward = {.logits = trial_normal(trial, DTYPE_F32, tokens, experts, 2.0),
                                         .experts = trial_draw_integers(trial, tokens * count, 1),
                                         .weights = trial_empty(trial, DTYPE_F32, tokens, count)};
    forward.experts.rows = tokens;
    forward.experts.cols = forward.experts.stride = count;
    for (int64_t t = 0; t < tokens && experts > 1; t += 5) /* equal logits: the lower number comes first */
        reference_store(&forward.logits, t, experts - 1, reference_load(&forward.logits, t, 0));
    check_op(trial, OP_ROUTE_FORWARD, &forward);

    trial = trial_create("backward, T %d, %d of %d experts, %d rows of load", (int)tokens, (int)count, (int)experts,
                         (int)rows);
    struct route_backward_args backward = {.logits = trial_normal(trial, DTYPE_F32, tokens, experts, 2.0),
                                           .experts = draw_experts(trial, tokens, count, experts, false),
                                           .weights = trial_normal(trial, DTYPE_F32, tokens, count, 1.0),
                                           .d_weights = trial_normal(trial, DTYPE_F32, tokens, count, 1.0),
                                           .d_logits = trial_empty(trial, dtype, tokens, experts),
                                           .auxiliary = 0.7};
    if (rows > 0) {
        backward.labels = draw_labels(trial, tokens);
        backward.load = trial_empty(trial, DTYPE_F32, rows, experts + 1);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t e = 0; e <= experts; e++)
                reference_store(&backward.load, r, e, e < experts ? (double)((r + 3 * e) % 7) : 11.0);
        struct route_backward_args mistaken = backward;
        mistaken.auxiliary = 0.69;
        if (experts > 1)
            check_noticed(trial, OP_ROUTE_BACKWARD, &backward, &mistaken);
    }
    check_op(trial, OP_ROUTE_BACKWARD, &backward);
}

static void test_router(void)
{
    static const int64_t shapes[7][2] = {{1, 1}, {4, 2}, {8, 2}, {33, 5}, {64, 6}, {200, 8}, {256, 1}};
    for (int64_t i = 0; i < COUNT(shapes); i++)
        for (int64_t t = 0; t < COUNT(lengths); t++)
            test_router_case(lengths[t], shapes[i][0], shapes[i][1], t == 3 ? 3 : t, storage[(i + t) % 2]);
}

/* Orders the pairs of experts first .. first + own - 1. */
static void test_order_of(int64_t tokens, int64_t experts, int64_t count, bool skewed, int64_t first, int64_t own)
{
    struct trial *trial = trial_create("order, T %d, %d of %d experts, %d from %d on", (int)tokens, (int)count,
                                       (int)experts, (int)own, (int)first);
    struct expert_order_args order = {.experts = draw_experts(trial, tokens, count, experts, skewed),
                                      .places = trial_draw_integers(trial, tokens * count, 1),
                                      .tokens = trial_draw_integers(trial, tokens * (count < own ? count : own), 1),
                                      .ends = trial_draw_integers(trial, own, 1),
                                      .first = first};
    order.places.rows = tokens;
    order.places.cols = order.places.stride = count;
    check_op_exact(trial, OP_EXPERT_ORDER, &order);
}

static void test_order_case(int64_t tokens, int64_t experts, int64_t count, bool skewed)
{
    const int64_t half = experts / 2;
    test_order_of(tokens, experts, count, skewed, 0, experts);
    if (half > 0) {
        test_order_of(tokens, experts, count, skewed, 0, half);
        test_order_of(tokens, experts, count, skewed, experts - half, half);
        test_order_of(tokens, experts, count, skewed, half, 1);
    }
    struct trial *trial;
    const int64_t rows = tokens % 3 == 0 ? 3 : 1;
    trial = trial_create("load, T %d, %d of %d experts", (int)tokens, (int)count, (int)experts);
    struct expert_load_args load = {.experts = draw_experts(trial, tokens, count, experts, skewed),
                                    .labels = draw_labels(trial, tokens),
                                    .load = trial_empty(trial, DTYPE_F32, rows, experts + 1)};
    check_op_exact(trial, OP_EXPERT_LOAD, &load);
}

static void test_order(void)
{
    static const int64_t shapes[5][2] = {{1, 1}, {8, 2}, {33, 5}, {64, 8}, {256, 2}};
    for (int64_t i = 0; i < COUNT(shapes); i++)
        for (int64_t t = 0; t < COUNT(lengths); t++)
            test_order_case(lengths[t], shapes[i][0], shapes[i][1], t % 2);
    test_order_case(6000, 8, 2, true); /* several blocks of an executor */
}

static void test_gemm_case(enum dtype dtype, int64_t rows, int64_t experts, int64_t n, int64_t k, int variant)
{
    const bool wide = variant % 2;
    struct trial *trial = trial_create("%s, %d experts, %d rows, n %d, k %d, variant %d", dtype_name(dtype),
                                       (int)experts, (int)rows, (int)n, (int)k, variant);
    struct expert_gemm_args gemm = {.a = trial_matrix(trial, dtype, rows, k, wide, 1.0),
                                    .transpose_b = variant / 2 % 2,
                                    .ends = draw_ends(trial, experts, rows, variant < 6),
                                    .d = trial_matrix(trial, dtype, rows, n, wide, 1.0)};
    gemm.b = gemm.transpose_b ? trial_matrix(trial, dtype, experts * n, k, wide, 1.0)
                              : trial_matrix(trial, dtype, experts * k, n, wide, 1.0);
    check_op(trial, OP_EXPERT_GEMM, &gemm);

    const enum dtype sum = dtype == DTYPE_BF16 && variant / 2 % 2 ? DTYPE_BF16 : DTYPE_F32;
    trial = trial_create("gradient, %s to %s, %d experts, %d rows, n %d, k %d, variant %d", dtype_name(dtype),
                         dtype_name(sum), (int)experts, (int)rows, (int)n, (int)k, variant);
    struct expert_gradient_args gradient = {.dy = trial_matrix(trial, dtype, rows, n, wide, 1.0),
                                            .x = trial_matrix(trial, dtype, rows, k, wide, 1.0),
                                            .ends = draw_ends(trial, experts, rows, variant < 6),
                                            .dweight = trial_matrix(trial, sum, experts * n, k, wide, 1.0),
                                            .accumulate = variant / 4 % 2};
    check_op(trial, OP_EXPERT_GRADIENT, &gradient);
}

static void test_gemm(void)
{
    static const int64_t sides[5][2] = {{1, 1}, {8, 24}, {40, 72}, {65, 17}, {136, 128}};
    for (int64_t d = 0; d < 2; d++)
        for (int64_t s = 0; s < COUNT(sides); s++)
            for (int64_t t = 0; t < COUNT(lengths); t++)
                for (int variant = (int)(s + t) % 4; variant < 8; variant += 4)
                    test_gemm_case(storage[d], 2 * lengths[t], 1 + (s + t) % 5, sides[s][0], sides[s][1], variant);
    test_gemm_case(DTYPE_BF16, 700, 4, 264, 96, 2); /* several tiles of an executor in each direction */
    test_gemm_case(DTYPE_BF16, 700, 4, 264, 96, 0);
}

/* A row of the pairs for each pair, in random order. all: every pair has one; else the rows of about a third of the
 * pairs are those of another executor. */
static struct tensor draw_places(struct trial *trial, int64_t tokens, int64_t count, bool all_pairs)
{
    int32_t *all = memory_allocate(tokens * count * (int64_t)sizeof *all);
    for (int64_t i = 0; i < tokens * count; i++) {
        const int64_t other = trial_draw((int32_t)i + 1);
        all[i] = all[other];
        all[other] = (int32_t)i;
    }
    for (int64_t i = 0; i < tokens * count && !all_pairs; i++)
        if (trial_draw(3) == 0)
            all[i] = -1;
    struct tensor made = trial_integers(trial, all, tokens * count);
    memory_free(all);
    made.rows = tokens;
    made.cols = made.stride = count;
    return made;
}

/* So that sums of products do not cancel, and a small fault is noticed. */
static struct tensor positive(struct tensor x)
{
    for (int64_t i = 0; i < x.rows; i++)
        for (int64_t j = 0; j < x.cols; j++)
            reference_store(&x, i, j, fabs(reference_load(&x, i, j)));
    return x;
}

static void test_combine_case(enum dtype dtype, int64_t tokens, int64_t count, int64_t hidden, int variant)
{
    const bool wide = variant % 2;
    struct trial *trial = trial_create("combine, %s, T %d, %d experts, H %d, variant %d", dtype_name(dtype),
                                       (int)tokens, (int)count, (int)hidden, variant);
    struct combine_forward_args forward = {.x = trial_matrix(trial, dtype, tokens * count, hidden, wide, 1.0),
                                           .places = draw_places(trial, tokens, count, variant % 3 != 1),
                                           .y = trial_matrix(trial, dtype, tokens, hidden, wide, 1.0)};
    if (variant / 2 % 2)
        forward.weights = trial_normal(trial, DTYPE_F32, tokens, count, 1.0);
    if (variant < 4)
        forward.addend = variant % 3 == 0 ? forward.y : trial_matrix(trial, dtype, tokens, hidden, !wide, 1.0);
    check_op(trial, OP_COMBINE_FORWARD, &forward);

    trial = trial_create("combine's backward, %s, T %d, %d experts, H %d, variant %d", dtype_name(dtype), (int)tokens,
                         (int)count, (int)hidden, variant);
    struct combine_backward_args backward = {
        .dy = positive(trial_matrix(trial, dtype, tokens, hidden, wide, 1.0)),
        .x = positive(trial_matrix(trial, dtype, tokens * count, hidden, wide, 1.0)),
        .places = draw_places(trial, tokens, count, variant % 3 != 1),
        .weights = trial_normal(trial, DTYPE_F32, tokens, count, 1.0),
        .dx = trial_matrix(trial, dtype, tokens * count, hidden, wide, 1.0),
        .d_weights = trial_empty(trial, DTYPE_F32, tokens, count)};
    check_op(trial, OP_COMBINE_BACKWARD, &backward);
}

static void test_combine(void)
{
    static const int64_t widths[4] = {1, 24, 320, 1100};
    for (int64_t d = 0; d < 2; d++)
        for (int64_t w = 0; w < COUNT(widths); w++)
            for (int64_t t = 0; t < COUNT(lengths); t++)
                for (int variant = (int)((w + t) % 2); variant < 6; variant += 2)
                    test_combine_case(storage[d], lengths[t], 1 + t, widths[w], variant);
}

/* The ops between the GEMMs, which write only the rows that experts have. */
static void test_between(void)
{
    for (int64_t d = 0; d < 2; d++)
        for (int64_t t = 0; t < COUNT(lengths); t++)
            for (int64_t experts = 1; experts < 4; experts++) {
                const int64_t rows = 2 * lengths[t], width = 24 + 9 * (experts % 2), hidden = 16 + experts;
                struct trial *trial = trial_create("between, %s, %d rows, F %d, %d experts", dtype_name(storage[d]),
                                                   (int)rows, (int)width, (int)experts);
                struct embedding_forward_args dispatch = {
                    .tokens = trial_draw_integers(trial, rows, (int32_t)lengths[t]),
                    .weight = trial_matrix(trial, storage[d], lengths[t], hidden, false, 1.0),
                    .y = trial_matrix(trial, storage[d], rows, hidden, experts == 2, 1.0),
                    .ends = draw_ends(trial, experts, rows, false)};
                compare_op(trial, OP_EMBEDDING_FORWARD, &dispatch);
                struct embedding_forward_args mistaken = dispatch;
                mistaken.ends = (struct tensor){0};
                check_noticed(trial, OP_EMBEDDING_FORWARD, &dispatch, &mistaken);
                struct swiglu_forward_args forward = {
                    .x = trial_matrix(trial, storage[d], rows, 2 * width, experts == 2, 1.0),
                    .y = trial_matrix(trial, storage[d], rows, width, experts == 2, 1.0),
                    .ends = dispatch.ends};
                compare_op(trial, OP_SWIGLU_FORWARD, &forward);
                struct swiglu_forward_args all = forward;
                all.ends = (struct tensor){0};
                check_noticed(trial, OP_SWIGLU_FORWARD, &forward, &all);
                struct swiglu_backward_args backward = {
                    .x = trial_matrix(trial, storage[d], rows, 2 * width, experts == 2, 1.0),
                    .dy = trial_matrix(trial, storage[d], rows, width, false, 1.0),
                    .dx = trial_matrix(trial, storage[d], rows, 2 * width, experts == 2, 1.0),
                    .ends = dispatch.ends};
                check_op(trial, OP_SWIGLU_BACKWARD, &backward);
            }
}

int main(int count, char **arguments)
{
    executors_open(count, arguments);
    test_between();
    test_router();
    test_order();
    test_gemm();
    test_combine();
    executors_close();
    return check_end();
}
