/* Matrix products of quantized operands stay within the error model of Hopper's tensor cores (tests/ref/tensor_core.h).
 * Injected faults: block scales too small, products truncated at 13 bits. */
#include "quantized.h"
#include "ref/tensor_core.h"

#include "base/memory.h"

/* -- Products ------------------------------------------------------------------------------------------------------ */

struct pair {
    enum dtype a, b;
    enum scaling scaling_a, scaling_b;
};

static const struct pair pairs[] = {
    {DTYPE_E4M3, DTYPE_E4M3, SCALING_TENSOR, SCALING_TENSOR}, {DTYPE_E4M3, DTYPE_E5M2, SCALING_TENSOR, SCALING_TENSOR},
    {DTYPE_E5M2, DTYPE_E4M3, SCALING_TENSOR, SCALING_TENSOR}, {DTYPE_E4M3, DTYPE_E4M3, SCALING_ROW, SCALING_ROW},
    {DTYPE_E5M2, DTYPE_E4M3, SCALING_ROW, SCALING_ROW},       {DTYPE_E4M3, DTYPE_E4M3, SCALING_1X128, SCALING_128X128},
    {DTYPE_E4M3, DTYPE_E4M3, SCALING_128X128, SCALING_1X128}, {DTYPE_E4M3, DTYPE_E4M3, SCALING_1X128, SCALING_1X128},
    {DTYPE_E5M2, DTYPE_E4M3, SCALING_1X128, SCALING_1X128},   {DTYPE_E5M2, DTYPE_E4M3, SCALING_1X128, SCALING_128X128},
    {DTYPE_BF16, DTYPE_BF16, SCALING_1X32, SCALING_1X32},     {DTYPE_BF16, DTYPE_BF16, SCALING_1X16, SCALING_16X16},
    {DTYPE_BF16, DTYPE_BF16, SCALING_1X16, SCALING_1X16},
};

enum addend { ADDEND_NONE, ADDEND_SEPARATE, ADDEND_IN_PLACE, ADDEND_ACCUMULATE, ADDEND_COUNT };

/* Whole numbers within -4 .. 4: a GPU's 8-bit products add them without loss. */
static struct tensor whole_numbers(struct trial *trial, enum dtype dtype, int64_t rows, int64_t cols, int64_t stride)
{
    struct tensor x = trial_strided(trial, dtype, rows, cols, stride);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            reference_store(&x, i, j, trial_draw(9) - 4);
    return x;
}

/* All different, within 0.5 .. 1.5 times `about`. */
static struct tensor some_scales(struct trial *trial, enum scaling scaling, int64_t rows, int64_t cols, double about)
{
    struct tensor scale = scales_for(trial, scaling, rows, cols);
    for (int64_t i = 0; i < scale.rows; i++)
        for (int64_t j = 0; j < scale.cols; j++)
            reference_store(&scale, i, j, about * (0.5 + trial_draw(1 << 20) * 0x1p-20));
    return scale;
}

static void test_gemm_case(const struct pair *pair, const int64_t *mnk, enum dtype out, enum addend addend, bool bias,
                           bool fast)
{
    const int64_t m = mnk[0], n = mnk[1], k = mnk[2];
    struct trial *trial = trial_create("m %d n %d k %d, %s %d by %s %d to %s, addend %d, bias %d%s", (int)m, (int)n,
                                       (int)k, dtype_name(pair->a), (int)pair->scaling_a, dtype_name(pair->b),
                                       (int)pair->scaling_b, dtype_name(out), (int)addend, bias, fast ? ", fast" : "");
    struct gemm_args args = {.a = whole_numbers(trial, pair->a, m, k, k + 16 * trial_draw(2)),
                             .b = whole_numbers(trial, pair->b, n, k, k + 16 * trial_draw(2)),
                             .d = trial_normal(trial, out, m, n, 1.0),
                             .scale_a = some_scales(trial, pair->scaling_a, m, k, 0.1),
                             .scale_b = some_scales(trial, pair->scaling_b, n, k, 2.0),
                             .scaling_a = pair->scaling_a,
                             .scaling_b = pair->scaling_b,
                             .transpose_b = true,
                             .accumulate = addend == ADDEND_ACCUMULATE,
                             .fast = fast};
    if (addend == ADDEND_SEPARATE)
        args.c = trial_normal(trial, out, m, n, 1.0);
    if (addend == ADDEND_IN_PLACE)
        args.c = args.d;
    if (bias)
        args.bias = trial_normal(trial, out, 1, n, 1.0);
    check_op(trial, OP_GEMM, &args);
}

/* On a GPU m, n and k are multiples of 16. With k = 1280 the scales of two rows of ten blocks lie twelve apart. */
static void test_gemm(void)
{
    static const int64_t odd[3][3] = {{1, 1, 1}, {7, 5, 33}, {130, 3, 261}};
    static const int64_t even[4][3] = {{16, 32, 128}, {144, 16, 272}, {16, 144, 144}, {32, 16, 1280}};
    for (int64_t p = 0; p < COUNT(pairs); p++)
        for (int64_t s = 0; s < COUNT(odd) + COUNT(even); s++)
            for (int addend = 0; addend < ADDEND_COUNT; addend++) {
                const int64_t draw = trial_draw(8);
                if (on_device ? s >= COUNT(odd) : (p + s + addend) % 2 == 0)
                    test_gemm_case(&pairs[p], s < COUNT(odd) ? odd[s] : even[s - COUNT(odd)], storage[draw & 1],
                                   (enum addend)addend, draw & 2, draw & 4);
            }
    const struct pair blocks = {DTYPE_E4M3, DTYPE_E4M3, SCALING_1X128, SCALING_128X128};
    test_gemm_case(&blocks, (int64_t[]){16, 144, 1280}, DTYPE_F32, ADDEND_NONE, false, false);
}

/* What cuBLASLt would misread: rows of block scales with another distance than it takes for granted. And scales of rows
 * beside bf16, which it does not have. */
static void test_gemm_refusals(void)
{
    static char memory[1]; /* nothing is read */
    const struct gemm_args good = {.a = tensor_matrix(memory, DTYPE_E4M3, 16, 1280),
                                   .b = tensor_matrix(memory, DTYPE_E4M3, 144, 1280),
                                   .d = tensor_matrix(memory, DTYPE_F32, 16, 144),
                                   .scale_a = {memory, DTYPE_F32, 10, 16, 16},
                                   .scale_b = {memory, DTYPE_F32, 2, 10, 12},
                                   .scaling_a = SCALING_1X128,
                                   .scaling_b = SCALING_128X128,
                                   .transpose_b = true};
    CHECK(op_check(OP_GEMM, &good) == NULL);
    struct gemm_args apart = good, further = good, wide = good;
    apart.scale_a.stride = 20;
    further.scale_b.stride = 16;
    wide.a.dtype = wide.b.dtype = DTYPE_BF16;
    CHECK(op_check(OP_GEMM, &apart) != NULL);
    CHECK(op_check(OP_GEMM, &further) != NULL);
    CHECK(op_check(OP_GEMM, &wide) != NULL);
}

/* Every finite 8-bit number times 1. */
static void test_eight_bit_codes(void)
{
    for (int e5m2 = 0; e5m2 < 2; e5m2++) {
        const enum dtype dtype = e5m2 ? DTYPE_E5M2 : DTYPE_E4M3;
        struct trial *trial = trial_create("all codes of %s", dtype_name(dtype));
        struct gemm_args args = {.a = trial_empty(trial, dtype, 256, 16),
                                 .b = trial_empty(trial, DTYPE_E4M3, 16, 16),
                                 .d = trial_empty(trial, DTYPE_F32, 256, 16),
                                 .scale_a = trial_empty(trial, DTYPE_F32, 1, 1),
                                 .scale_b = trial_empty(trial, DTYPE_F32, 1, 1),
                                 .transpose_b = true};
        reference_store(&args.scale_a, 0, 0, 1.0);
        reference_store(&args.scale_b, 0, 0, 1.0);
        for (int64_t i = 0; i < 256; i++)
            for (int64_t j = 0; j < 16; j++) {
                uint8_t bits = (uint8_t)i;
                struct tensor one = tensor_vector(&bits, dtype, 1);
                bits = isfinite(reference_load(&one, 0, 0)) && j == 3 ? bits : 0;
                *(uint8_t *)tensor_at(&args.a, i, j) = bits;
                if (i < 16)
                    reference_store(&args.b, i, j, j == 3 ? 1.0 : 0.0);
            }
        check_op(trial, OP_GEMM, &args);
    }
}

/* -- Products of real data ----------------------------------------------------------------------------------------- */

enum { SAMPLED_ROWS = 16, SAMPLED_COLUMNS = 24, SAMPLED = SAMPLED_ROWS * SAMPLED_COLUMNS };

/* What products of a case must be at a few places, and how far from it tensor cores may be. */
struct sample {
    int64_t row[SAMPLED], column[SAMPLED];
    struct tensor_core_sum split[SAMPLED], fast[SAMPLED];
    double rounded[SAMPLED]; /* how far sums in f32 may be */
};

/* A copy of normal numbers, or of their magnitudes. */
static struct tensor normal_operand(struct trial *trial, enum dtype dtype, enum scaling scaling, int64_t rows,
                                    int64_t cols, bool positive, struct tensor *scale)
{
    static struct executor *oracle;
    if (oracle == NULL)
        oracle = reference_executor_create();
    struct quantize_args args = {.x = trial_normal(trial, DTYPE_BF16, rows, cols, 0.02)};
    for (int64_t i = 0; i < rows && positive; i++)
        for (int64_t j = 0; j < cols; j++)
            reference_store(&args.x, i, j, fabs(reference_load(&args.x, i, j)));
    args.to = (struct quantized_operands){
        .rule = {.format = dtype == DTYPE_E5M2 ? FORMAT_E5M2 : FORMAT_E4M3, .scaling = scaling},
        .row = trial_empty(trial, dtype, rows, cols),
        .row_scale = scales_for(trial, scaling, rows, cols)};
    oracle->class->launch(oracle, NULL, OP_QUANTIZE, &args);
    *scale = args.to.row_scale;
    return args.to.row;
}

static void sample_create(struct sample *sample, const struct gemm_args *args)
{
    struct tensor_core_row a, b[SAMPLED_COLUMNS];
    for (int64_t j = 0; j < SAMPLED_COLUMNS; j++)
        tensor_core_row_load(&b[j], &args->b, &args->scale_b, args->scaling_b,
                             j * (args->d.cols - 1) / (SAMPLED_COLUMNS - 1));
    for (int64_t n = 0; n < SAMPLED; n++) {
        const int64_t i = n / SAMPLED_COLUMNS, j = n % SAMPLED_COLUMNS;
        sample->row[n] = i * (args->d.rows - 1) / (SAMPLED_ROWS - 1);
        sample->column[n] = j * (args->d.cols - 1) / (SAMPLED_COLUMNS - 1);
        if (j == 0)
            tensor_core_row_load(&a, &args->a, &args->scale_a, args->scaling_a, sample->row[n]);
        sample->split[n] = sample->fast[n] = tensor_core_dot(&a, &b[j], false);
        if (args->scaling_a <= SCALING_ROW)
            sample->fast[n] = tensor_core_dot(&a, &b[j], true);
        /* one by one on a CPU; on a GPU each run of 128, which cuBLASLt may cut in halves, and the scales */
        const double additions = (on_device ? (double)args->a.cols / 64.0 : (double)args->a.cols) + 5.0;
        sample->rounded[n] = additions * 0x1p-24 * sample->split[n].magnitude;
        if (j == SAMPLED_COLUMNS - 1)
            tensor_core_row_free(&a);
    }
    for (int64_t j = 0; j < SAMPLED_COLUMNS; j++)
        tensor_core_row_free(&b[j]);
}

struct distance {
    double beyond;       /* largest error in units of its bound */
    double mean;         /* error, in units of the mean magnitude of the exact products */
    double root, wanted; /* of the mean square error, in the same units: seen, and at most allowed */
};

/* How far results are from exact, and from what tensor cores may do. Root mean square: no more than half as much again
 * as the model's, and f32's. Sums that cuBLASLt cuts in pieces are nearer to exact, not farther. */
static struct distance distance_of(const struct sample *sample, const double *results, bool fast, bool on_cores)
{
    struct distance distance = {0};
    double size = 0.0, squares = 0.0, allowed = 0.0, rounded = 0.0;
    for (int64_t n = 0; n < SAMPLED; n++) {
        const struct tensor_core_sum *sum = fast ? &sample->fast[n] : &sample->split[n];
        const double error = results[n] - sum->exact, by_model = sum->model - sum->exact;
        const double bound = (on_cores ? sum->bound : 0.0) + sample->rounded[n];
        if (!(fabs(error) / bound <= distance.beyond))
            distance.beyond = fabs(error) / bound;
        distance.mean += error;
        squares += error * error;
        allowed += by_model * by_model;
        rounded += sample->rounded[n] * sample->rounded[n];
        size += fabs(sum->exact);
    }
    distance.mean /= size;
    distance.root = sqrt(squares * SAMPLED) / size;
    distance.wanted = (1.5 * sqrt(allowed * SAMPLED) + sqrt(rounded * SAMPLED)) / size;
    return distance;
}

static bool is_near(const struct distance *distance)
{
    return distance->beyond <= 1.0 && distance->root <= distance->wanted;
}

/* The executor's product of sampled places. */
static struct distance measured(const struct trial *trial, struct executor *executor, const struct gemm_args *args,
                                const struct sample *sample, bool as_fast)
{
    double results[SAMPLED];
    char *copy = trial_run(trial, executor, OP_GEMM, args);
    const struct tensor d = trial_in_copy(trial, &args->d, copy);
    for (int64_t n = 0; n < SAMPLED; n++)
        results[n] = reference_load(&d, sample->row[n], sample->column[n]);
    memory_free(copy);
    return distance_of(sample, results, as_fast, on_device);
}

static void check_distance(const struct trial *trial, const struct distance *distance, bool near)
{
    if (!check_report(__FILE__, __LINE__, is_near(distance) == near, trial->name) || getenv("T_DISTANCES") != NULL)
        fprintf(stderr, "%s: %.3g of the bound, mean error %.2e, root mean square %.2e of at most %.2e\n", trial->name,
                distance->beyond, distance->mean, distance->root, distance->wanted);
}

/* Also: what the bounds allow is what a tensor core's model does; and of long sums of positive numbers, what adds up
 * when fast is beyond the bounds of split. */
static void test_real_case(const struct pair *pair, const int64_t *mnk, bool positive)
{
    static struct sample sample;
    const int64_t m = mnk[0], n = mnk[1], k = mnk[2];
    const bool can_be_fast = pair->scaling_a <= SCALING_ROW;
    struct trial *trial = trial_create("m %d n %d k %d, %s numbers in %s %d by %s %d", (int)m, (int)n, (int)k,
                                       positive ? "positive" : "normal", dtype_name(pair->a), (int)pair->scaling_a,
                                       dtype_name(pair->b), (int)pair->scaling_b);
    trial_reserve(trial, 4 * (m * k + n * k + m * n) + (1 << 20));
    struct gemm_args args = {.d = trial_empty(trial, DTYPE_F32, m, n),
                             .scaling_a = pair->scaling_a,
                             .scaling_b = pair->scaling_b,
                             .transpose_b = true};
    args.a = normal_operand(trial, pair->a, pair->scaling_a, m, k, positive, &args.scale_a);
    args.b = normal_operand(trial, pair->b, pair->scaling_b, n, k, positive, &args.scale_b);
    sample_create(&sample, &args);
    double fast_model[SAMPLED];
    bool within = true;
    for (int64_t s = 0; s < SAMPLED; s++) {
        const struct tensor_core_sum *split = &sample.split[s], *fast = &sample.fast[s];
        within = within && fabs(split->model - split->exact) <= split->bound &&
                 fabs(fast->model - fast->exact) <= fast->bound;
        fast_model[s] = fast->model;
    }
    check_report(__FILE__, __LINE__, within, trial->name);
    for (int e = 0; e < executor_count; e++)
        for (int fast = 0; fast <= (can_be_fast ? 1 : 0); fast++) {
            args.fast = fast;
            const struct distance distance = measured(trial, executors[e], &args, &sample, fast);
            check_distance(trial, &distance, true);
            if (fast && on_device && positive && m >= 2048) { /* a GEMM with that many rows is not split along k */
                const struct distance mistaken = measured(trial, executors[e], &args, &sample, false);
                check_distance(trial, &mistaken, false);
            }
        }
    if (positive && can_be_fast && k >= 4096) {
        const struct distance mistaken = distance_of(&sample, fast_model, false, true);
        check_distance(trial, &mistaken, false);
    }
    trial_destroy(trial);
}

static void test_real(void)
{
    static const int64_t shapes[3][3] = {{48, 80, 512}, {144, 272, 4096}, {80, 144, 14336}};
    static const int64_t large[3] = {2048, 2048, 4096};
    for (int64_t p = 0; p < COUNT(pairs); p++)
        for (int64_t s = 0; s < COUNT(shapes) && dtype_size(pairs[p].a) == 1; s++)
            for (int positive = 0; positive < 2; positive++)
                if (s == 0 || (on_device && (s == 1 || (p + positive) % 2 == 0)))
                    test_real_case(&pairs[p], shapes[s], positive);
    if (on_device)
        test_real_case(&pairs[0], large, true);
    else
        test_real_case(&pairs[0], (int64_t[]){16, 32, 4096}, true);
}

int main(int count, char **arguments)
{
    executors_open(count, arguments);
    test_gemm();
    test_gemm_refusals();
    test_eight_bit_codes();
    test_real();
    executors_close();
    return check_end();
}
