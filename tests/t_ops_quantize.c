/* Quantized operands and scales are the oracle's to the bit, for every rule, size, output and stride, at zero, inf, NaN
 * and the ends of f32; quantization statistics and delayed scales match the oracle. Injected faults: clipped inf,
 * random bits without their column, an exponent rounded down. */
#include "quantized.h"

#include <float.h>

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

int main(int count, char **arguments)
{
    executors_open(count, arguments);
    test_quantize();
    test_edges();
    test_ties();
    test_statistic();
    test_delayed_scale();
    test_parts();
    executors_close();
    return check_end();
}
