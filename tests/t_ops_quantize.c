/* Quantized operands and scales are the oracle's to the bit, for every rule, size, output and stride, at zero, inf, NaN
 * and the ends of f32; products of them, statistics, delayed scales and activations that quantize stay within the error
 * model of Hopper's tensor cores (tests/ref/tensor_core.h). Injected faults: clipped inf, random bits without their
 * column, an exponent rounded down, block scales too small, products truncated at 13 bits. */
#include "ops.h"
#include "ref/tensor_core.h"

#include "base/memory.h"

#include <float.h>

static int64_t rounded_up(int64_t n, int64_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

/* A rule, and whether the scale is given. */
struct kind {
    struct quantization rule;
    bool given;
};

static const struct kind kinds[] = {
    {{.format = FORMAT_E4M3, .scaling = SCALING_TENSOR}, false},
    {{.format = FORMAT_E5M2, .scaling = SCALING_TENSOR}, false},
    {{.format = FORMAT_E4M3, .scaling = SCALING_TENSOR}, true},
    {{.format = FORMAT_E5M2, .scaling = SCALING_TENSOR}, true},
    {{.format = FORMAT_E4M3, .scaling = SCALING_ROW}, false},
    {{.format = FORMAT_E5M2, .scaling = SCALING_ROW, .power_of_two = true}, false},
    {{.format = FORMAT_E4M3, .scaling = SCALING_1X128}, false},
    {{.format = FORMAT_E4M3, .scaling = SCALING_1X128, .power_of_two = true}, false},
    {{.format = FORMAT_E5M2, .scaling = SCALING_1X128, .power_of_two = true}, false},
    {{.format = FORMAT_E4M3, .scaling = SCALING_128X128}, false},
    {{.format = FORMAT_E4M3, .scaling = SCALING_128X128, .power_of_two = true}, false},
    {{.format = FORMAT_E4M3, .scaling = SCALING_1X32}, false},
    {{.format = FORMAT_E5M2, .scaling = SCALING_1X32}, false},
    {{.format = FORMAT_E2M1, .scaling = SCALING_1X16}, false},
    {{.format = FORMAT_E2M1, .scaling = SCALING_1X16, .hadamard = true}, false},
    {{.format = FORMAT_E2M1, .scaling = SCALING_1X16, .stochastic = true, .hadamard = true}, false},
    {{.format = FORMAT_E2M1, .scaling = SCALING_16X16}, false},
    {{.format = FORMAT_E2M1, .scaling = SCALING_16X16, .stochastic = true}, false},
};

static const char *kind_name(const struct kind *kind)
{
    static const char *const formats[] = {"e4m3", "e5m2", "e2m1"};
    static const char *const scalings[] = {"tensor", "row", "1x128", "128x128", "1x32", "1x16", "16x16"};
    static char name[80];
    snprintf(name, sizeof name, "%s %s%s%s%s%s", formats[kind->rule.format], scalings[kind->rule.scaling],
             kind->given ? ", given" : "", kind->rule.power_of_two ? ", powers" : "",
             kind->rule.stochastic ? ", stochastic" : "", kind->rule.hadamard ? ", hadamard" : "");
    return name;
}

/* Scales of a copy [rows, cols], all NaN. */
static struct tensor scales_for(struct trial *trial, enum scaling scaling, int64_t rows, int64_t cols)
{
    const int64_t down = rounded_up(rows, 128) / 128, across = rounded_up(cols, 128) / 128;
    switch (scaling) {
    case SCALING_1X32:
        return (struct tensor){0};
    case SCALING_ROW:
        return trial_empty(trial, DTYPE_F32, 1, rows);
    case SCALING_1X128:
        return trial_strided(trial, DTYPE_F32, across, rows, rounded_up(rows, 4));
    case SCALING_128X128:
        return trial_strided(trial, DTYPE_F32, down, across, rounded_up(across, 4));
    default:
        return trial_empty(trial, DTYPE_F32, 1, 1);
    }
}

/* Copies of a tensor [rows, cols]; the rest of how they are made is drawn. */
static struct quantized_operands operands_for(struct trial *trial, const struct kind *kind, int64_t rows, int64_t cols)
{
    static const int64_t paddings[4] = {1, 5, 16, 128};
    const int outputs = 1 + trial_draw(3);
    const int64_t padding = kind->rule.hadamard ? 16 : paddings[trial_draw(4)];
    struct quantized_operands to = {.rule = kind->rule};
    if (kind->given) {
        to.scale = trial_empty(trial, DTYPE_F32, 1, 1);
        reference_store(&to.scale, 0, 0, 0.00037);
    }
    if (outputs & 1) {
        to.row = trial_strided(trial, quantization_dtype(&kind->rule), rows, cols, cols + 7 * trial_draw(2));
        if (!kind->given)
            to.row_scale = scales_for(trial, kind->rule.scaling, rows, cols);
    }
    if (outputs & 2) {
        const int64_t wide = rounded_up(rows, padding);
        to.column = trial_strided(trial, quantization_dtype(&kind->rule), cols, wide, wide + 3 * trial_draw(2));
        if (!kind->given)
            to.column_scale = scales_for(trial, kind->rule.scaling, cols, wide);
        if (!kind->given && kind->rule.scaling == SCALING_TENSOR && outputs == 3 && trial_draw(2))
            to.column_scale = to.row_scale;
    }
    if (trial_draw(2)) {
        to.amax = trial_empty(trial, DTYPE_F32, 1, 1);
        reference_store(&to.amax, 0, 0, trial_draw(2) ? 0.001 : 1e6);
    }
    if (kind->rule.stochastic) {
        const int32_t draw[2] = {trial_draw(1000), -trial_draw(1000)};
        to.draw = trial_integers(trial, draw, 2);
        to.salt = (uint32_t)trial_draw(1000);
    }
    return to;
}

enum data { DATA_NORMAL, DATA_WIDE, DATA_SPECIAL, DATA_COUNT };

/* WIDE: magnitudes of runs of 16 columns differ by up to 2^24, and some areas are zero. SPECIAL: also NaN, inf, and the
 * largest and smallest numbers. */
static struct tensor values(struct trial *trial, enum dtype dtype, int64_t rows, int64_t cols, enum data data)
{
    struct tensor x = trial_matrix(trial, dtype, rows, cols, trial_draw(2), 0.02);
    for (int64_t i = 0; i < rows && data != DATA_NORMAL; i++)
        for (int64_t j = 0; j < cols; j += 16) {
            double factor =
                ldexp(1.0, trial_draw(24) - 12) * ((i / 130 + j / 130) % 3 == 2 || trial_draw(5) == 0 ? 0 : 1);
            for (int64_t c = j; c < cols && c < j + 16; c++)
                reference_store(&x, i, c, factor * reference_load(&x, i, c));
        }
    static const double specials[] = {NAN, INFINITY, -INFINITY, FLT_MAX, 0x1p-149, -0x1p-126, -0.0, 448.0 * 0x1p-30};
    for (int64_t n = 0; n < 1 + rows * cols / 1000 && data == DATA_SPECIAL; n++)
        reference_store(&x, trial_draw((int32_t)rows), trial_draw((int32_t)cols),
                        specials[trial_draw(COUNT(specials))]);
    return x;
}

static const int64_t sizes[6][2] = {{1, 1}, {7, 33}, {129, 257}, {64, 128}, {300, 16}, {16, 300}};

static void test_quantize_case(const struct kind *kind, const int64_t *size, enum dtype dtype, enum data data)
{
    struct trial *trial = trial_create("%s of %s, T %d K %d, data %d", kind_name(kind), dtype_name(dtype), (int)size[0],
                                       (int)size[1], (int)data);
    struct quantize_args args = {.x = values(trial, dtype, size[0], size[1], data)};
    args.to = operands_for(trial, kind, size[0], size[1]);
    if (data != DATA_SPECIAL && trial_draw(2)) {
        args.sum = trial_normal(trial, DTYPE_F32, 1, size[1], 0.1);
        args.accumulate = trial_draw(2);
        check_op(trial, OP_QUANTIZE, &args);
    } else {
        check_op_exact(trial, OP_QUANTIZE, &args);
    }
}

static void test_quantize(void)
{
    for (int64_t k = 0; k < COUNT(kinds); k++)
        for (int64_t s = 0; s < COUNT(sizes); s++)
            for (int64_t d = 0; d < 2; d++)
                for (int data = 0; data < DATA_COUNT; data++)
                    test_quantize_case(&kinds[k], sizes[s], storage[d], (enum data)data);
}

/* One tensor, or a row, or a block, whose amax is at the edge of what its rule takes. */
static void test_edges(void)
{
    static const float edges[] = {0.0f,          -0.0f,    0x1p-149f, 0x1p-140f,       FLT_MIN,  1e-36f, 448.0f,
                                  0x1.c00002p8f, 57344.0f, 2688.0f,   0x1.fffffep127f, 0x1p127f, 3e38f,  0x1.bffffep8f,
                                  6.0f,          INFINITY, NAN};
    for (int64_t k = 0; k < COUNT(kinds); k++)
        for (int64_t e = 0; e < COUNT(edges); e++) {
            struct trial *trial = trial_create("%s, amax %g", kind_name(&kinds[k]), (double)edges[e]);
            struct quantize_args args = {.x = trial_normal(trial, DTYPE_F32, 3, 40, 0.2)};
            for (int64_t i = 0; i < 2; i++)
                for (int64_t j = 0; j < 40; j++) {
                    double x = fmin(fabs(reference_load(&args.x, i, j)), 1.0);
                    reference_store(&args.x, i, j, isfinite(edges[e]) ? (j % 2 ? x : -x) * (double)edges[e] : x);
                }
            for (int64_t j = 0; j < 40; j++)
                reference_store(&args.x, 2, j, 0.0);
            reference_store(&args.x, 1, 7, edges[e]);
            args.to = operands_for(trial, &kinds[k], 3, 40);
            check_op_exact(trial, OP_QUANTIZE, &args);
        }
}

/* With scale 1, every number of a format, the ties between neighbours and a hair to each side of those. */
static void test_ties(void)
{
    for (int format = 0; format < 3; format++) {
        struct kind kind = {{.format = (enum number_format)format, .scaling = SCALING_TENSOR}, true};
        if (format == FORMAT_E2M1)
            kind = (struct kind){{.format = FORMAT_E2M1, .scaling = SCALING_1X16},
                                 false}; /* blocks of 6, and a tensor of 2688 */
        const int64_t codes = format == FORMAT_E2M1 ? 8 : 126;
        struct trial *trial = trial_create("ties of %s", kind_name(&kind));
        struct quantize_args args = {.x = trial_empty(trial, DTYPE_F32, 9, 128)};
        for (int64_t i = 0; i < 8; i++)
            for (int64_t j = 0; j < 128; j++) {
                static const float e2m1[9] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f, 6.0f};
                int64_t code = j % codes;
                float value = format == FORMAT_E2M1   ? e2m1[code]
                              : format == FORMAT_E4M3 ? e4m3_to_f32((uint8_t)code)
                                                      : e5m2_to_f32((uint8_t)(code < 123 ? code : 122));
                float next = format == FORMAT_E2M1   ? e2m1[code + 1]
                             : format == FORMAT_E4M3 ? e4m3_to_f32((uint8_t)(code + 1))
                                                     : e5m2_to_f32((uint8_t)(code < 122 ? code + 1 : 123));
                float middle = 0.5f * (value + next);
                float of_row[4] = {value, middle, nextafterf(middle, value), nextafterf(middle, next)};
                double x = j % 16 == 15 ? 6.0 : (double)of_row[i / 2];
                reference_store(&args.x, i, j, i % 2 ? -x : x);
            }
        for (int64_t j = 0; j < 128; j++)
            reference_store(&args.x, 8, j, j == 0 ? 2688.0 : 0.0);
        args.to.rule = kind.rule;
        args.to.row = trial_empty(trial, quantization_dtype(&kind.rule), 9, 128);
        struct tensor one = trial_empty(trial, DTYPE_F32, 1, 1);
        reference_store(&one, 0, 0, 1.0);
        if (kind.given)
            args.to.scale = one;
        else
            args.to.row_scale = one;
        check_op_exact(trial, OP_QUANTIZE, &args);
    }
}

static void test_statistic(void)
{
    for (int64_t k = 0; k < COUNT(kinds); k++)
        for (int64_t s = 0; s < COUNT(sizes); s++)
            for (int data = 0; data < DATA_COUNT; data++) {
                const struct kind *kind = &kinds[k];
                if (kind->given || kind->rule.stochastic || kind->rule.hadamard)
                    continue;
                struct trial *trial =
                    trial_create("%s, T %d K %d, data %d", kind_name(kind), (int)sizes[s][0], (int)sizes[s][1], data);
                struct quantization_statistic_args args = {
                    .x = values(trial, storage[(k + s) % 2], sizes[s][0], sizes[s][1], (enum data)data),
                    .result = trial_empty(trial, DTYPE_F64, 1, STATISTICS),
                    .rule = kind->rule};
                for (int64_t i = 0; i < STATISTICS; i++)
                    reference_store(&args.result, 0, i, i < STATISTIC_AMAX ? 0.25 * (double)i : 0.0);
                if (kind->rule.scaling == SCALING_TENSOR || kind->rule.scaling >= SCALING_1X16) {
                    args.scale = trial_empty(trial, DTYPE_F32, 1, 1);
                    reference_store(&args.scale, 0, 0, s % 2 ? 1.7e-5 : 3e-8);
                }
                struct quantization_statistic_args mistaken = args;
                mistaken.rule.format = kind->rule.format == FORMAT_E4M3 ? FORMAT_E5M2 : FORMAT_E4M3;
                if (data == DATA_NORMAL && sizes[s][0] > 1 && kind->rule.format != FORMAT_E2M1)
                    check_noticed(trial, OP_QUANTIZATION_STATISTIC, &args, &mistaken);
                check_op(trial, OP_QUANTIZATION_STATISTIC, &args);
            }
}

/* Parts of a tensor, of which one is empty, raise its amax without copies, and have the scale that this gives. */
static void test_parts(void)
{
    static const float amaxes[] = {0.11f, 3.0f, 0.0f, INFINITY, 1e-40f};
    static const int64_t rows[] = {0, 1, 130};
    for (int64_t a = 0; a < COUNT(amaxes); a++)
        for (int64_t r = 0; r < COUNT(rows); r++) {
            struct trial *trial = trial_create("%d rows of a tensor whose amax is %g", (int)rows[r], (double)amaxes[a]);
            struct quantize_args args = {.x = trial_normal(trial, storage[r % 2], rows[r], 128, 0.03)};
            args.to.rule = (struct quantization){.format = a % 2 ? FORMAT_E5M2 : FORMAT_E4M3};
            args.to.row = trial_empty(trial, quantization_dtype(&args.to.rule), rows[r], 128);
            args.to.row_scale = trial_empty(trial, DTYPE_F32, 1, 1);
            args.to.whole_amax = trial_empty(trial, DTYPE_F32, 1, 1);
            reference_store(&args.to.whole_amax, 0, 0, (double)amaxes[a]);
            check_op_exact(trial, OP_QUANTIZE, &args);
            trial = trial_create("the amax of %d rows, %g before", (int)rows[r], (double)amaxes[a]);
            args = (struct quantize_args){.x = trial_normal(trial, storage[r % 2], rows[r], 128, 0.03)};
            args.to.amax = trial_empty(trial, DTYPE_F32, 1, 1);
            reference_store(&args.to.amax, 0, 0, (double)amaxes[a]);
            check_op_exact(trial, OP_QUANTIZE, &args);
        }
}

/* Widths that kernels move at once, and others; a row or a column alone. */
static void test_transpose(void)
{
    static const int64_t shapes[][2] = {{1, 1},   {7, 33},    {33, 7},    {1, 300},   {300, 1},
                                        {64, 64}, {128, 128}, {129, 257}, {256, 136}, {40, 272}};
    for (int64_t s = 0; s < COUNT(shapes); s++)
        for (int strided = 0; strided < 4; strided++) {
            const enum dtype dtype = s % 2 ? DTYPE_E5M2 : DTYPE_E4M3;
            const int64_t rows = shapes[s][0], cols = shapes[s][1];
            struct trial *trial =
                trial_create("%s %d x %d, strided %d", dtype_name(dtype), (int)rows, (int)cols, strided);
            struct transpose_args args = {.from = trial_matrix(trial, dtype, rows, cols, strided & 1, 10.0),
                                          .to = trial_strided(trial, dtype, cols, rows, rows + (strided & 2 ? 16 : 0))};
            check_op_exact(trial, OP_TRANSPOSE, &args);
        }
}

static void test_delayed_scale(void)
{
    static const float amaxes[8] = {0.5f, 0.0f, INFINITY, NAN, 1e-37f, 3e38f, 20.0f, 0x1p-149f};
    for (int64_t length = 1; length < 40; length += 19)
        for (int latest = 0; latest < 2; latest++) {
            struct trial *trial = trial_create("history of %d%s", (int)length, latest ? ", latest" : "");
            struct delayed_scale_args args = {.amax = trial_empty(trial, DTYPE_F32, 8, 1),
                                              .history = trial_matrix(trial, DTYPE_F32, 8, length, latest, 1.0),
                                              .scale = trial_matrix(trial, DTYPE_F32, 8, 1, true, 1.0),
                                              .largest = trial_empty(trial, DTYPE_F32, 8, 1),
                                              .latest = latest};
            for (int64_t i = 0; i < 8; i++) {
                reference_store(&args.amax, i, 0, amaxes[i]);
                reference_store(&args.largest, i, 0, i % 2 ? 448.0 : 57344.0 / 4.0);
                for (int64_t j = 0; j < length; j++)
                    reference_store(&args.history, i, j,
                                    i == 4 || i == 7 ? 0.0 : fabs(reference_load(&args.history, i, j)));
            }
            check_op_exact(trial, OP_DELAYED_SCALE, &args);
        }
}

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
            if (fast && on_device && positive && m >= 2048) { /* so many rows are not cut along k */
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

/* -- Activations with copies --------------------------------------------------------------------------------------- */

enum activation {
    ACTIVATION_SWIGLU_FORWARD,
    ACTIVATION_SWIGLU_BACKWARD,
    ACTIVATION_GELU_FORWARD,
    ACTIVATION_GELU_BACKWARD
};

union activation_args {
    struct swiglu_forward_args swiglu_forward;
    struct swiglu_backward_args swiglu_backward;
    struct gelu_forward_args gelu_forward;
    struct gelu_backward_args gelu_backward;
};

static enum op make_activation(struct trial *trial, enum activation which, enum dtype dtype, int64_t rows,
                               int64_t width, struct tensor y, const struct quantized_operands *to,
                               union activation_args *args)
{
    const bool swiglu = which == ACTIVATION_SWIGLU_FORWARD || which == ACTIVATION_SWIGLU_BACKWARD;
    struct tensor x = trial_normal(trial, dtype, rows, swiglu ? 2 * width : width, 1.0);
    struct tensor dy = trial_normal(trial, dtype, rows, width, 0.01);
    memset(args, 0, sizeof *args);
    switch (which) {
    case ACTIVATION_SWIGLU_FORWARD:
        args->swiglu_forward = (struct swiglu_forward_args){.x = x, .y = y, .to = *to};
        return OP_SWIGLU_FORWARD;
    case ACTIVATION_SWIGLU_BACKWARD:
        args->swiglu_backward = (struct swiglu_backward_args){.x = x, .dy = dy, .dx = y, .to = *to};
        return OP_SWIGLU_BACKWARD;
    case ACTIVATION_GELU_FORWARD:
        args->gelu_forward = (struct gelu_forward_args){.x = x, .y = y, .to = *to, .tanh_form = rows % 2};
        return OP_GELU_FORWARD;
    case ACTIVATION_GELU_BACKWARD:
        args->gelu_backward = (struct gelu_backward_args){.x = x, .dy = dy, .dx = y, .to = *to, .tanh_form = rows % 2};
        args->gelu_backward.sum = trial_normal(trial, DTYPE_F32, 1, width, 0.1);
        args->gelu_backward.accumulate = rows % 2;
        return OP_GELU_BACKWARD;
    }
    return OP_COUNT;
}

/* Lets a backward make y again, in half of the cases, with columns as padded as dx's. */
static void add_remade(struct trial *trial, enum activation which, const struct kind *kind, const int64_t *size,
                       union activation_args *args)
{
    const bool swiglu = which == ACTIVATION_SWIGLU_BACKWARD;
    const struct quantized_operands *to = swiglu ? &args->swiglu_backward.to : &args->gelu_backward.to;
    if ((!swiglu && which != ACTIVATION_GELU_BACKWARD) || trial_draw(2))
        return;
    struct quantized_operands y_to = operands_for(trial, kind, size[0], size[1]);
    while (tensor_present(&to->column) && tensor_present(&y_to.column) && y_to.column.cols != to->column.cols)
        y_to = operands_for(trial, kind, size[0], size[1]);
    *(swiglu ? &args->swiglu_backward.y_to : &args->gelu_backward.y_to) = y_to;
}

/* Without y: dx of gelu_backward's sum is what it was. */
static void leave_out_y(enum activation which, union activation_args *args)
{
    struct tensor *const y[4] = {[ACTIVATION_SWIGLU_FORWARD] = &args->swiglu_forward.y,
                                 [ACTIVATION_SWIGLU_BACKWARD] = &args->swiglu_backward.dx,
                                 [ACTIVATION_GELU_FORWARD] = &args->gelu_forward.y,
                                 [ACTIVATION_GELU_BACKWARD] = &args->gelu_backward.dx};
    *y[which] = (struct tensor){0};
}

/* Returns what a backward must make again, NULL if nothing, and in `forward` the op that made it first. */
static const struct quantized_operands *remade_of(enum activation which, const union activation_args *args,
                                                  enum op *forward, union activation_args *forward_args)
{
    const struct gelu_backward_args *gelu = &args->gelu_backward;
    const struct swiglu_backward_args *swiglu = &args->swiglu_backward;
    memset(forward_args, 0, sizeof *forward_args);
    switch (which) {
    case ACTIVATION_SWIGLU_BACKWARD:
        *forward = OP_SWIGLU_FORWARD;
        forward_args->swiglu_forward = (struct swiglu_forward_args){.x = swiglu->x, .to = swiglu->y_to};
        return has_quantized(&swiglu->y_to) ? &swiglu->y_to : NULL;
    case ACTIVATION_GELU_BACKWARD:
        *forward = OP_GELU_FORWARD;
        forward_args->gelu_forward =
            (struct gelu_forward_args){.x = gelu->x, .to = gelu->y_to, .tanh_form = gelu->tanh_form};
        return has_quantized(&gelu->y_to) ? &gelu->y_to : NULL;
    default:
        return NULL;
    }
}

/* Do two copies of the trial's memory hold the same bits of a tensor? */
static bool same_bits(const struct trial *trial, const struct tensor *x, char *one, char *other)
{
    struct tensor a = trial_in_copy(trial, x, one), b = trial_in_copy(trial, x, other);
    for (int64_t i = 0; i < x->rows && tensor_present(x); i++)
        if (memcmp(tensor_at(&a, i, 0), tensor_at(&b, i, 0), (size_t)(x->cols * dtype_size(x->dtype))) != 0)
            return false;
    return true;
}

static bool same_operands(const struct trial *trial, const struct quantized_operands *to, char *one, char *other)
{
    return same_bits(trial, &to->row, one, other) && same_bits(trial, &to->column, one, other) &&
           same_bits(trial, &to->row_scale, one, other) && same_bits(trial, &to->column_scale, one, other) &&
           same_bits(trial, &to->amax, one, other);
}

/* y is within its bounds, the copies are what the oracle's quantize makes of the executor's own y, and they are the
 * same when y is left out. What a backward makes again is what the forward has made. */
static void test_activation_case(enum activation which, const struct kind *kind, const int64_t *size, enum dtype dtype)
{
    static struct executor *oracle;
    if (oracle == NULL)
        oracle = reference_executor_create();
    struct trial *trial = trial_create("activation %d, %s, %s, T %d F %d", (int)which, kind_name(kind),
                                       dtype_name(dtype), (int)size[0], (int)size[1]);
    const int64_t cols = which == ACTIVATION_SWIGLU_BACKWARD ? 2 * size[1] : size[1];
    struct tensor y = trial_empty(trial, dtype, size[0], cols);
    struct quantize_args quantize = {.x = y, .to = operands_for(trial, kind, size[0], cols)};
    union activation_args args;
    const enum op op = make_activation(trial, which, dtype, size[0], size[1], y, &quantize.to, &args);
    add_remade(trial, which, kind, size, &args);
    enum op forward = OP_COUNT;
    union activation_args forward_args;
    const struct quantized_operands *remade = remade_of(which, &args, &forward, &forward_args);
    static const char *const fields[11] = {
        "to.row",      "to.column",      "to.row_scale",      "to.column_scale", "to.amax", "y_to.row",
        "y_to.column", "y_to.row_scale", "y_to.column_scale", "y_to.amax",       "sum"};
    bounds_set(trial, op, &args);
    const int64_t free = COUNT(fields) - (op == OP_GELU_BACKWARD && dtype == DTYPE_BF16 ? 0 : 1);
    for (int64_t f = 0; f < free; f++) { /* of the oracle's y they may be others, and so may the sum of a rounded y */
        if (remade == NULL && fields[f][0] == 'y')
            continue;
        struct tensor bound = trial_bound(trial, op, &args, fields[f]);
        for (int64_t i = 0; i < bound.rows; i++)
            for (int64_t j = 0; j < bound.cols; j++)
                reference_store(&bound, i, j, INFINITY);
    }
    trial->coarse = true;
    trial_expect(trial, op, &args);
    for (int e = 0; e < executor_count; e++) {
        CHECK(trial_compare(trial, executors[e], op, &args) == 0);
        char *with_y = trial_run(trial, executors[e], op, &args);
        union activation_args alone = args;
        leave_out_y(which, &alone);
        char *without_y = trial_run(trial, executors[e], op, &alone);
        struct tensor made = trial_in_copy(trial, &y, with_y);
        memcpy(y.data, made.data, (size_t)tensor_extent(&y));
        char *wanted = trial_run(trial, oracle, OP_QUANTIZE, &quantize);
        check_report(__FILE__, __LINE__, same_operands(trial, &quantize.to, with_y, wanted), trial->name);
        check_report(__FILE__, __LINE__, same_operands(trial, &quantize.to, with_y, without_y), trial->name);
        if (remade != NULL) {
            char *made_first = trial_run(trial, executors[e], forward, &forward_args);
            check_report(__FILE__, __LINE__, same_operands(trial, remade, with_y, made_first), trial->name);
            check_report(__FILE__, __LINE__, same_operands(trial, remade, without_y, made_first), trial->name);
            memory_free(made_first);
        }
        if (op == OP_GELU_BACKWARD)
            CHECK(same_bits(trial, &args.gelu_backward.sum, with_y, without_y));
        memset(y.data, 0xff, (size_t)tensor_extent(&y));
        memory_free(with_y);
        memory_free(without_y);
        memory_free(wanted);
    }
    trial_destroy(trial);
}

static void test_activations(void)
{
    static const int64_t shapes[5][2] = {{7, 33}, {130, 144}, {65, 264}, {140, 256}, {129, 128}};
    for (int which = 0; which < 4; which++)
        for (int64_t k = 0; k < COUNT(kinds); k++) {
            const enum scaling scaling = kinds[k].rule.scaling;
            if (kinds[k].given || scaling == SCALING_1X128 || scaling == SCALING_128X128 || scaling == SCALING_1X32)
                for (int64_t s = 0; s < COUNT(shapes); s++)
                    test_activation_case((enum activation)which, &kinds[k], shapes[s],
                                         s < 2 ? storage[(k + s + which) % 2] : DTYPE_BF16);
        }
}

int main(int count, char **arguments)
{
    executors_open(count, arguments);
    test_quantize();
    test_edges();
    test_ties();
    test_statistic();
    test_delayed_scale();
    test_gemm();
    test_gemm_refusals();
    test_eight_bit_codes();
    test_real();
    test_activations();
    test_parts();
    test_transpose();
    executors_close();
    return check_end();
}
