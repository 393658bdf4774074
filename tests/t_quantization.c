/* Quantization of core/quantization.h and of the oracle match other programs: casts of ml_dtypes, TransformerEngine's
 * scales, torchao's operands (golden/quantization.txt). Layouts of scales, products, padding, histories, the Hadamard
 * transform and random rounding are checked. Injected faults: an exponent rounded down, powers of two to nearest, the
 * scale of zeros, a transform without signs. */
#include "core/quantization.h"
#include "differences.h"
#include "ref/reference_ops.h"

#include <float.h>
#include <inttypes.h>

#define COUNT(array) ((int64_t)(sizeof(array) / sizeof *(array)))

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static bool same_float(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

static struct tensor one(double value)
{
    struct tensor x = zeros(DTYPE_F32, 1, 1);
    reference_store(&x, 0, 0, value);
    return x;
}

static int64_t rounded_up(int64_t n, int64_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

/* Of a copy [rows, cols]; absent for 1X32. */
static struct tensor scales_for(enum scaling scaling, int64_t rows, int64_t cols)
{
    const int64_t down = rounded_up(rows, 128) / 128, across = rounded_up(cols, 128) / 128;
    if (scaling == SCALING_1X32)
        return (struct tensor){0};
    if (scaling != SCALING_1X128 && scaling != SCALING_128X128)
        return zeros(DTYPE_F32, 1, scaling == SCALING_ROW ? rows : 1);
    const int64_t scale_rows = scaling == SCALING_1X128 ? across : down;
    const int64_t scale_cols = scaling == SCALING_1X128 ? rows : across;
    struct tensor wide = zeros(DTYPE_F32, scale_rows, rounded_up(scale_cols, 4));
    return tensor_columns(&wide, 0, scale_cols);
}

/* Both copies of x, the second padded to `padded` tokens. */
static struct quantized_operands operands_of(const struct tensor *x, struct quantization rule, int64_t padded)
{
    struct quantized_operands to = {.rule = rule,
                                    .row = zeros(quantization_dtype(&rule), x->rows, x->cols),
                                    .column = zeros(quantization_dtype(&rule), x->cols, padded),
                                    .row_scale = scales_for(rule.scaling, x->rows, x->cols),
                                    .column_scale = scales_for(rule.scaling, x->cols, padded)};
    run(OP_QUANTIZE, &(struct quantize_args){.x = *x, .to = to});
    return to;
}

/* -- Casts --------------------------------------------------------------------------------------------------------- */

/* The oracle's e2m1 of x, from a block whose largest is 6 in a tensor whose largest is 2688: no scale but 1. */
static float oracle_e2m1(float x)
{
    struct tensor values = zeros(DTYPE_F32, 1, 32);
    reference_store(&values, 0, 0, 6.0);
    reference_store(&values, 0, 5, x);
    reference_store(&values, 0, 16, 2688.0);
    struct quantized_operands to = {.rule = {.format = FORMAT_E2M1, .scaling = SCALING_1X16},
                                    .row = zeros(DTYPE_BF16, 1, 32),
                                    .row_scale = one(0.0)};
    run(OP_QUANTIZE, &(struct quantize_args){.x = values, .to = to});
    float value = (float)reference_load(&to.row, 0, 5);
    case_end();
    return value;
}

/* The oracle's 8-bit code of x, with a given scale. */
static uint8_t oracle_code(float x, enum number_format format, double scale)
{
    struct quantized_operands to = {.rule = {.format = format, .scaling = SCALING_TENSOR}, .scale = one(scale)};
    struct tensor values = one(x);
    to.row = zeros(quantization_dtype(&to.rule), 1, 1);
    run(OP_QUANTIZE, &(struct quantize_args){.x = values, .to = to});
    uint8_t code = *(uint8_t *)to.row.data;
    case_end();
    return code;
}

static const float e2m1_values[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};

static float value_of(enum number_format format, unsigned code)
{
    return format == FORMAT_E4M3   ? e4m3_to_f32((uint8_t)code)
           : format == FORMAT_E5M2 ? e5m2_to_f32((uint8_t)code)
                                   : e2m1_values[code];
}

static void check_cast(enum number_format format, float x, unsigned code)
{
    CHECK(same_float(quantization_rounded(x, format), value_of(format, code)));
    CHECK(same_float(quantization_rounded(-x, format), -value_of(format, code)));
    if (format == FORMAT_E2M1) {
        CHECK(same_float(oracle_e2m1(x), value_of(format, code)));
        CHECK(same_float(oracle_e2m1(-x), -value_of(format, code)));
        return;
    }
    CHECK((format == FORMAT_E4M3 ? f32_to_e4m3(x) : f32_to_e5m2(x)) == code);
    CHECK((format == FORMAT_E4M3 ? f32_to_e4m3(-x) : f32_to_e5m2(-x)) == (code | 0x80));
    CHECK(oracle_code(x, format, 1.0) == code);
    CHECK(oracle_code(-x, format, 1.0) == (code | 0x80));
}

/* Finite numbers saturate, whatever a given scale makes of them; inf and NaN become NaN. */
static void test_beyond(void)
{
    for (int format = FORMAT_E4M3; format <= FORMAT_E5M2; format++) {
        const float largest = format_largest((enum number_format)format);
        const uint8_t top = format == FORMAT_E4M3 ? 0x7e : 0x7b;
        static const float beyond[] = {1.01f, 1.07f, 1.3f, 1e30f, FLT_MAX / 57344.0f};
        for (int64_t i = 0; i < COUNT(beyond); i++) {
            CHECK(oracle_code(largest * beyond[i], (enum number_format)format, 1.0) == top);
            CHECK(oracle_code(-largest * beyond[i], (enum number_format)format, 1e-30) == (top | 0x80));
            CHECK(quantization_scaled(largest * beyond[i], 1e30f, largest) == largest);
        }
        const float lost[3] = {NAN, INFINITY, -INFINITY};
        for (int i = 0; i < 3; i++) {
            CHECK(isnan(value_of((enum number_format)format, oracle_code(lost[i], (enum number_format)format, 1.0))));
            CHECK(isnan(quantization_scaled(lost[i], 0.0f, largest)));
        }
        CHECK(oracle_code(0.0f, (enum number_format)format, 0x1p-149) == 0);
    }
    CHECK(isnan(oracle_e2m1(NAN)));
}

/* -- Scales -------------------------------------------------------------------------------------------------------- */

/* Of every scaling whose scales are made so, from a tensor with that amax among zeros. */
static void check_scale(int largest, bool powers, float amax, float scale)
{
    const enum number_format format = largest == 448 ? FORMAT_E4M3 : FORMAT_E5M2;
    CHECK(same_float(quantization_reciprocal(quantization_multiplier(amax, (float)largest, powers)), scale));
    static const enum scaling scalings[4] = {SCALING_TENSOR, SCALING_ROW, SCALING_1X128, SCALING_128X128};
    for (int i = powers; i < 4; i++) { /* a tensor's scale is no power of two */
        struct tensor x = zeros(DTYPE_F32, 2, 3);
        reference_store(&x, 1, 2, -amax);
        struct quantized_operands to =
            operands_of(&x, (struct quantization){.format = format, .scaling = scalings[i], .power_of_two = powers}, 2);
        const bool of_rows = scalings[i] == SCALING_ROW || scalings[i] == SCALING_1X128;
        CHECK(same_float((float)reference_load(&to.row_scale, 0, of_rows ? 1 : 0), scale));
        CHECK(same_float((float)reference_load(&to.column_scale, 0, of_rows ? 2 : 0), scale));
        CHECK(!of_rows || reference_load(&to.row_scale, 0, 0) == 1.0);
        case_end();
    }
}

/* MXFP8's exponents: those of amax / 448 rounded up. A block with NaN or inf is NaN, its padding is not. */
static void test_exponents(void)
{
    static const struct {
        float amax;
        int exponent;
    } cases[] = {{0.0f, -127},        {0x1p-149f, -127},   {448.0f * 0x1p-126f, -126}, {0x1.c00004p-119f, -126},
                 {0x1.cp-119f, -127}, {448.0f, 0},         {0x1.bffffep8f, 0},         {0x1.c00002p8f, 1},
                 {3.5f, -7},          {0x1.c00002p1f, -6}, {0x1.cp127f, 119},          {FLT_MAX, 120}};
    for (int64_t i = 0; i < COUNT(cases); i++) {
        CHECK(quantization_e8m0(cases[i].amax, 448.0f) == cases[i].exponent);
        const double unit = ldexp(1.0, cases[i].exponent);
        CHECK((double)quantization_power(cases[i].exponent) == unit);
        struct tensor x = zeros(DTYPE_F32, 1, 33);
        reference_store(&x, 0, 4, cases[i].amax);
        reference_store(&x, 0, 5, 13.0 * unit); /* between 12 and 14 there is one number, 13; 27 rounds to 28 */
        reference_store(&x, 0, 6, -27.0 * unit);
        reference_store(&x, 0, 32, NAN);
        struct quantized_operands to =
            operands_of(&x, (struct quantization){.format = FORMAT_E4M3, .scaling = SCALING_1X32}, 3);
        if ((double)cases[i].amax >= 32.0 * unit) {
            CHECK(reference_load(&to.row, 0, 5) == 13.0 * unit);
            CHECK(reference_load(&to.row, 0, 6) == -28.0 * unit);
        }
        CHECK(isnan(reference_load(&to.row, 0, 32)) && reference_load(&to.row, 0, 31) == 0.0);
        CHECK(isnan(reference_load(&to.column, 32, 0)) && reference_load(&to.column, 32, 1) == 0.0);
        case_end();
    }
}

/* -- Copies that torchao made -------------------------------------------------------------------------------------- */

static uint32_t mixed(uint32_t h)
{
    h = (h ^ h >> 15) * 739982445u;
    return h ^ h >> 12;
}

/* x() of golden/make_quantization.py. */
static struct tensor golden_x(int64_t rows, int64_t cols)
{
    struct tensor x = zeros(DTYPE_F32, rows, cols);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            int number = (int)(mixed((uint32_t)i * 2654435761u + (uint32_t)j * 40503u + 12345u) & 0xffff) - 32768;
            int power = (int)(mixed((uint32_t)i * 69069u + (uint32_t)(j / 16) * 362437u) & 7);
            reference_store(&x, i, j, ldexp(number, power - 20));
        }
    reference_store(&x, 0, 0, 5.25);
    return x;
}

static uint64_t hash_of(const struct tensor *x)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (int64_t i = 0; i < x->rows; i++)
        for (int64_t b = 0; b < x->cols * dtype_size(x->dtype); b++)
            hash = (hash ^ ((const uint8_t *)tensor_at(x, i, 0))[b]) * 0x100000001b3u;
    return hash;
}

static void check_operand(const char *kind, const char *name, int64_t rows, int64_t cols, uint64_t hash)
{
    struct quantization rule = {.format = FORMAT_E4M3, .scaling = SCALING_1X128};
    const bool mx = strncmp(name, "1x32", 4) == 0, column = strcmp(name, "1x128_column") == 0;
    if (strcmp(name, "128x128") == 0)
        rule.scaling = SCALING_128X128;
    if (mx)
        rule = (struct quantization){.format = strstr(name, "e5m2") != NULL ? FORMAT_E5M2 : FORMAT_E4M3,
                                     .scaling = SCALING_1X32};
    if (strcmp(name, "1x16") == 0)
        rule = (struct quantization){.format = FORMAT_E2M1, .scaling = SCALING_1X16};
    struct tensor x = golden_x(rows, cols);
    for (int64_t j = 0; mx && j < cols; j++)
        reference_store(&x, 3, j, 0.0);
    struct quantized_operands to = operands_of(&x, rule, rows);
    const struct tensor *of =
        strcmp(kind, "copy") == 0 ? (column ? &to.column : &to.row) : (column ? &to.column_scale : &to.row_scale);
    if (!check_report(__FILE__, __LINE__, hash_of(of) == hash, "torchao makes the same"))
        fprintf(stderr, "    %s %s\n", kind, name);
    case_end();
}

static void test_golden(void)
{
    char path[4096], line[160], name[32];
    snprintf(path, sizeof path, "%s/tests/golden/quantization.txt", getenv("abs_top_srcdir"));
    FILE *file = fopen(path, "r");
    if (file == NULL)
        error_fatal("cannot open %s", path);
    int64_t casts = 0, codes = 0, scales = 0, copies = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        uint32_t bits, code;
        uint64_t hash;
        int largest, powers, rows = 128, cols = 256;
        if (sscanf(line, "cast %31s %" SCNx32 " %" SCNx32, name, &bits, &code) == 3) {
            check_cast(name[1] == '4' ? FORMAT_E4M3 : name[1] == '5' ? FORMAT_E5M2 : FORMAT_E2M1, float_of(bits), code);
            casts++;
        } else if (sscanf(line, "code %31s %" SCNx32 " %" SCNx32, name, &code, &bits) == 3) {
            const enum number_format format = name[1] == '4' ? FORMAT_E4M3 : name[1] == '5' ? FORMAT_E5M2 : FORMAT_E2M1;
            CHECK(same_float(value_of(format, code), float_of(bits)));
            CHECK(format == FORMAT_E2M1 || same_float(value_of(format, code | 0x80), -float_of(bits)));
            codes++;
        } else if (sscanf(line, "scale %d %d %" SCNx32 " %" SCNx32, &largest, &powers, &bits, &code) == 4) {
            check_scale(largest, powers, float_of(bits), float_of(code));
            scales++;
        } else if (sscanf(line, "copy %31s %d %d %" SCNx64, name, &rows, &cols, &hash) == 4) {
            check_operand("copy", name, rows, cols, hash);
            copies++;
        } else if (sscanf(line, "scales %31s %" SCNx64, name, &hash) == 2) {
            check_operand("scales", name, rows, cols, hash);
            copies++;
        } else {
            error_fatal("%s: what is \"%s\"?", path, line);
        }
    }
    fclose(file);
    CHECK(casts == 4 * (126 + 123 + 7) + 9 && codes == 127 + 124 + 8 && scales == 76 && copies == 9);
    CHECK(isnan(value_of(FORMAT_E4M3, 0x7f)) && isnan(value_of(FORMAT_E5M2, 0x7d)));
    CHECK(value_of(FORMAT_E5M2, 0xfc) == -INFINITY);
}

/* -- Where scales lie, and what copies are worth ------------------------------------------------------------------- */

static const struct quantization rules[] = {
    {.format = FORMAT_E4M3, .scaling = SCALING_TENSOR},
    {.format = FORMAT_E5M2, .scaling = SCALING_ROW},
    {.format = FORMAT_E4M3, .scaling = SCALING_ROW, .power_of_two = true},
    {.format = FORMAT_E4M3, .scaling = SCALING_1X128},
    {.format = FORMAT_E4M3, .scaling = SCALING_128X128, .power_of_two = true},
    {.format = FORMAT_E4M3, .scaling = SCALING_1X32},
    {.format = FORMAT_E2M1, .scaling = SCALING_1X16},
    {.format = FORMAT_E2M1, .scaling = SCALING_16X16},
};

/* The scale of element (r, c) of a copy with so many rows and columns, by op.h's words. */
static double scale_at(const struct tensor *scale, enum scaling scaling, int64_t rows, int64_t cols, int64_t r,
                       int64_t c)
{
    const float *s = scale->data;
    const int64_t across = (cols + 127) / 128;
    switch (scaling) {
    case SCALING_ROW:
        return s[r];
    case SCALING_1X128:
        return s[c / 128 * ((rows + 3) / 4 * 4) + r];
    case SCALING_128X128:
        return s[r / 128 * ((across + 3) / 4 * 4) + c / 128];
    case SCALING_1X32:
        return 1.0;
    default:
        return s[0];
    }
}

/* Half the distance of the format's numbers around x, with margin for the scale's and the product's roundings; below
 * the smallest normal number, of amax / largest. */
static double half_step(double x, double amax, const struct quantization *rule)
{
    const double relative = rule->format == FORMAT_E4M3 ? 0x1p-4 : rule->format == FORMAT_E5M2 ? 0x1p-3 : 0.26;
    const double denormal = rule->format == FORMAT_E4M3   ? 0x1p-10 / 448.0
                            : rule->format == FORMAT_E5M2 ? 0x1p-17 / 57344.0
                                                          : 0.26 / 6.0 * 1.07;
    const double up = rule->scaling == SCALING_1X32 || rule->power_of_two ? 2.0 : 1.0;
    return 1.0001 * fmax(relative * x, denormal * up * amax);
}

/* |x| of the elements that share a scale with (r, c) of the row copy, or of the column copy: its largest. */
static double amax_around(const struct tensor *x, enum scaling scaling, bool column, int64_t r, int64_t c)
{
    static const int64_t heights[] = {1 << 20, 1, 1, 128, 1, 1, 16},
                         widths[] = {1 << 20, 1 << 20, 128, 128, 32, 16, 16};
    const int64_t rows = column ? x->cols : x->rows, cols = column ? x->rows : x->cols;
    const int64_t first_row = r / heights[scaling] * heights[scaling],
                  first_col = c / widths[scaling] * widths[scaling];
    double amax = 0.0;
    for (int64_t i = first_row; i < rows && i < first_row + heights[scaling]; i++)
        for (int64_t j = first_col; j < cols && j < first_col + widths[scaling]; j++)
            amax = fmax(amax, fabs(column ? reference_load(x, j, i) : reference_load(x, i, j)));
    return amax;
}

/* A view of the first rows of a larger matrix, whose other rows are huge; magnitudes differ from block to block. */
static struct tensor varied(int64_t rows, int64_t cols, int64_t turn)
{
    struct tensor all = zeros(DTYPE_F32, rows + 3, cols), random = normal(1, rows * cols);
    for (int64_t i = 0; i < rows + 3; i++)
        for (int64_t j = 0; j < cols; j++)
            reference_store(&all, i, j,
                            i >= rows ? 1e6
                                      : reference_load(&random, 0, i * cols + j) *
                                            ldexp(1.0, (int)((i / 16 * 5 + j / 16 * 3 + turn) % 11) - 5));
    return tensor_rows(&all, 0, rows);
}

enum { TOKENS = 137, INPUTS = 1280, OUTPUTS = 20, PADDED = 272 };

/* Looks at every seventh element, and all near the end. */
static void check_values(const struct tensor *x, const struct quantized_operands *to, bool column)
{
    const struct tensor *copy = column ? &to->column : &to->row, *scale = column ? &to->column_scale : &to->row_scale;
    int64_t wrong = 0;
    for (int64_t r = 0; r < copy->rows; r += 7)
        for (int64_t c = r % 5; c < copy->cols; c += c < 120 ? 11 : 3) {
            if (to->rule.scaling <= SCALING_ROW && (r + c) % 40 != 0)
                continue; /* amax is a long walk */
            const bool padding = column && c >= x->rows;
            double wanted = padding ? 0.0 : column ? reference_load(x, c, r) : reference_load(x, r, c);
            double value = reference_load(copy, r, c) * scale_at(scale, to->rule.scaling, copy->rows, copy->cols, r, c);
            double amax = amax_around(x, to->rule.scaling, column, r, c);
            wrong += !(fabs(value - wanted) <= half_step(fabs(wanted), amax, &to->rule));
            wrong += padding && reference_load(copy, r, c) != 0.0;
        }
    if (!check_report(__FILE__, __LINE__, wrong == 0, "copy * scale is x"))
        fprintf(stderr, "    scaling %d, column %d: %lld\n", (int)to->rule.scaling, column, (long long)wrong);
}

/* sqrt(sum (got - wanted)^2 / sum wanted^2) of a (+) b' and its product from the copies. */
static double product_error(const struct tensor *a, const struct tensor *b, const struct quantized_operands *of_a,
                            const struct quantized_operands *of_b, bool column)
{
    struct gemm_args args = {.a = column ? of_a->column : of_a->row,
                             .b = column ? of_b->column : of_b->row,
                             .scale_a = column ? of_a->column_scale : of_a->row_scale,
                             .scale_b = column ? of_b->column_scale : of_b->row_scale,
                             .scaling_a = of_a->rule.scaling,
                             .scaling_b = of_b->rule.scaling,
                             .transpose_b = true};
    args.d = zeros(DTYPE_F32, args.a.rows, args.b.rows);
    run(OP_GEMM, &args);
    struct tensor wanted = zeros(DTYPE_F64, args.a.rows, args.b.rows);
    run(OP_GEMM, &(struct gemm_args){.a = *a, .b = *b, .d = wanted, .transpose_a = column, .transpose_b = !column});
    double error = 0.0, squares = 0.0;
    for (int64_t i = 0; i < wanted.rows; i++)
        for (int64_t j = 0; j < wanted.cols; j++) {
            double value = reference_load(&wanted, i, j);
            error += pow(reference_load(&args.d, i, j) - value, 2);
            squares += value * value;
        }
    return sqrt(error / squares);
}

static void test_layouts(void)
{
    for (int64_t i = 0; i < COUNT(rules); i++) {
        const struct quantization rule = rules[i];
        struct tensor x = varied(TOKENS, INPUTS, 0), w = varied(OUTPUTS, INPUTS, 4), dy = varied(TOKENS, OUTPUTS, 7);
        struct quantized_operands of_x = operands_of(&x, rule, PADDED), of_w = operands_of(&w, rule, 32);
        struct quantized_operands of_dy = operands_of(&dy, rule, PADDED);
        check_values(&x, &of_x, false);
        check_values(&x, &of_x, true);
        /* e4m3's errors are 2.6 % on average, e5m2's 5.2 %, e2m1's 9 to 10 %, of each operand */
        const double allowed = rule.format == FORMAT_E4M3 ? 0.045 : rule.format == FORMAT_E5M2 ? 0.09 : 0.18;
        CHECK_NEAR(product_error(&x, &w, &of_x, &of_w, false), 0.0, 0.0, allowed);
        CHECK_NEAR(product_error(&dy, &x, &of_dy, &of_x, true), 0.0, 0.0, allowed);
        for (int64_t r = 0; rule.scaling == SCALING_1X128 && r < INPUTS; r++) /* nothing but padding */
            CHECK(reference_load(&of_x.column_scale, 2, r) == 1.0);
        case_end();
    }
}

/* -- The Hadamard transform ---------------------------------------------------------------------------------------- */

static void test_hadamard(void)
{
    static const int negative[] = {3, 5, 6, 7, 8, 9, 10, 12, 14, 15};
    double signs[16];
    for (int j = 0; j < 16; j++)
        signs[j] = 1.0;
    for (int64_t j = 0; j < COUNT(negative); j++)
        signs[negative[j]] = -1.0;
    for (int j = 0; j < 16; j++) { /* column j of the matrix, in Sylvester's order */
        float unit[16] = {0.0f};
        unit[j] = 1.0f;
        quantization_hadamard(unit);
        for (int i = 0; i < 16; i++) {
            int ones = 0;
            for (int both = i & j; both > 0; both /= 2)
                ones += both % 2;
            CHECK(unit[i] == (ones % 2 ? -0.25 : 0.25) * signs[j]);
        }
    }
    /* both transformed: the same product; one alone: another */
    struct quantization plain = {.format = FORMAT_E2M1, .scaling = SCALING_1X16}, turned = plain;
    turned.hadamard = true;
    struct tensor x = varied(TOKENS, 48, 0), dy = varied(TOKENS, OUTPUTS, 3);
    struct quantized_operands of_x = operands_of(&x, turned, 144), of_dy = operands_of(&dy, turned, 144);
    struct quantized_operands other = operands_of(&dy, plain, 144);
    CHECK_NEAR(product_error(&dy, &x, &of_dy, &of_x, true), 0.0, 0.0, 0.18);
    CHECK(product_error(&dy, &x, &other, &of_x, true) > 0.9);
    CHECK(memcmp(of_dy.row.data, other.row.data, (size_t)tensor_extent(&other.row)) == 0);
    CHECK(reference_load(&of_x.column_scale, 0, 0) != reference_load(&of_x.row_scale, 0, 0));
    for (int64_t r = 0; r < 48; r++) { /* a last group of nine tokens and seven zeros fills its sixteen places */
        double squares = 0.0;
        for (int64_t c = TOKENS; c < 144; c++)
            squares += fabs(reference_load(&of_x.column, r, c));
        CHECK(squares > 0.0);
    }
    /* in a copy so fine that the rounding does not matter, the largest of all is the transform's */
    double largest = 0.0;
    for (int64_t r = 0; r < 48; r++)
        for (int64_t t = 0; t < 144; t += 16) {
            float group[16];
            for (int64_t i = 0; i < 16; i++)
                group[i] = t + i < TOKENS ? (float)reference_load(&x, t + i, r) : 0.0f;
            quantization_hadamard(group);
            for (int64_t i = 0; i < 16; i++)
                largest = fmax(largest, fabs((double)group[i]));
        }
    CHECK_NEAR(reference_load(&of_x.column_scale, 0, 0), largest / 2688.0, 1e-6, 0.0);
    case_end();
}

/* -- Random rounding ----------------------------------------------------------------------------------------------- */

enum { DRAWN_ROWS = 64, DRAWN_COLS = 128 };

static struct quantized_operands draw_operands(const struct tensor *x, int32_t first, int32_t second, uint32_t salt)
{
    const int32_t numbers[2] = {first, second};
    struct quantized_operands to = {.rule = {.format = FORMAT_E2M1, .scaling = SCALING_1X16, .stochastic = true},
                                    .row = zeros(DTYPE_BF16, x->rows, x->cols),
                                    .column = zeros(DTYPE_BF16, x->cols, x->rows),
                                    .row_scale = one(0.0),
                                    .column_scale = one(0.0),
                                    .draw = integers(2, numbers),
                                    .salt = salt};
    run(OP_QUANTIZE, &(struct quantize_args){.x = *x, .to = to});
    return to;
}

static double share_that_differs(const struct tensor *a, const struct tensor *b)
{
    double count = 0.0;
    for (int64_t i = 0; i < a->rows; i++)
        for (int64_t j = 0; j < a->cols; j++)
            count += reference_load(a, i, j) != reference_load(b, i, j);
    return count / (double)tensor_count(a);
}

/* Every element is next to x, right on average, and others go other ways with other keys. All scales are 1. */
static void test_random(void)
{
    static const double values[] = {0.1, -0.7, 1.2, -2.3, 3.9, 5.5};
    for (int64_t v = 0; v < COUNT(values); v++) {
        const double magnitude = fabs(values[v]);
        double below = 0.0, above = 6.0, sum = 0.0, count = 0.0;
        for (int i = 0; i < 8; i++) {
            below = (double)e2m1_values[i] <= magnitude ? (double)e2m1_values[i] : below;
            above = (double)e2m1_values[7 - i] > magnitude ? (double)e2m1_values[7 - i] : above;
        }
        struct tensor x = zeros(DTYPE_F32, DRAWN_ROWS, DRAWN_COLS);
        for (int64_t i = 0; i < DRAWN_ROWS; i++)
            for (int64_t j = 0; j < DRAWN_COLS; j++)
                reference_store(&x, i, j, i == 0 && j == 0 ? 2688.0 : (i + j) % 16 == 0 ? 6.0 : values[v]);
        struct quantized_operands to = draw_operands(&x, 7, 0, 3), again = draw_operands(&x, 7, 0, 3);
        CHECK(share_that_differs(&to.row, &again.row) == 0.0 && share_that_differs(&to.column, &again.column) == 0.0);
        CHECK(reference_load(&to.row_scale, 0, 0) == 1.0);
        for (int copy = 0; copy < 2; copy++)
            for (int64_t i = 0; i < DRAWN_ROWS; i++)
                for (int64_t j = 16; j < DRAWN_COLS; j++) {
                    if ((i + j) % 16 == 0 || i < 16)
                        continue;
                    double got = copy ? reference_load(&to.column, j, i) : reference_load(&to.row, i, j);
                    CHECK(fabs(got) == below || fabs(got) == above);
                    sum += got;
                    count += 1.0;
                }
        const double share = (magnitude - below) / (above - below);
        const double deviation = (above - below) * sqrt(share * (1.0 - share) / count);
        CHECK_NEAR(sum / count, values[v], 0.0, 4.0 * deviation);
        const double wanted = 2.0 * share * (1.0 - share) * 15.0 / 16.0; /* of independent draws */
        struct quantized_operands others[3] = {draw_operands(&x, 8, 0, 3), draw_operands(&x, 7, 1, 3),
                                               draw_operands(&x, 7, 0, 4)};
        for (int i = 0; i < 3; i++)
            CHECK_NEAR(share_that_differs(&to.row, &others[i].row), wanted, 0.0, 0.03);
        struct tensor turned = zeros(DTYPE_BF16, DRAWN_ROWS, DRAWN_COLS);
        for (int64_t i = 0; i < DRAWN_ROWS; i++)
            for (int64_t j = 0; j < DRAWN_COLS; j++)
                reference_store(&turned, i, j, reference_load(&to.column, j, i));
        CHECK_NEAR(share_that_differs(&to.row, &turned), wanted, 0.0, 0.03);
        case_end();
    }
}

/* -- Activations --------------------------------------------------------------------------------------------------- */

/* The oracle's copies are those of y as rounded, whether y is kept or not. */
static void test_activations(void)
{
    struct tensor values = normal(9, 40), x = rounded_copy(DTYPE_BF16, &values), dy = zeros(DTYPE_BF16, 9, 20);
    for (int64_t i = 0; i < 9; i++)
        for (int64_t j = 0; j < 20; j++)
            reference_store(&dy, i, j, reference_load(&x, 8 - i, j));
    struct tensor half = tensor_columns(&x, 20, 20);
    for (int which = 0; which < 4; which++) {
        const int64_t cols = which == 1 ? 40 : 20;
        const struct quantization rule = {.format = FORMAT_E4M3, .scaling = SCALING_1X128};
        struct tensor y = zeros(DTYPE_BF16, 9, cols), none = {0};
        struct quantized_operands to[2];
        for (int kept = 0; kept < 2; kept++) {
            to[kept] = (struct quantized_operands){
                .rule = rule, .row = zeros(DTYPE_E4M3, 9, cols), .row_scale = scales_for(SCALING_1X128, 9, cols)};
            struct tensor made = kept ? y : none;
            if (which == 0)
                run(OP_SWIGLU_FORWARD, &(struct swiglu_forward_args){.x = x, .y = made, .to = to[kept]});
            else if (which == 1)
                run(OP_SWIGLU_BACKWARD, &(struct swiglu_backward_args){.x = x, .dy = dy, .dx = made, .to = to[kept]});
            else if (which == 2)
                run(OP_GELU_FORWARD, &(struct gelu_forward_args){.x = half, .y = made, .to = to[kept]});
            else
                run(OP_GELU_BACKWARD, &(struct gelu_backward_args){.x = half, .dy = dy, .dx = made, .to = to[kept]});
        }
        struct quantized_operands wanted = operands_of(&y, rule, 9);
        for (int kept = 0; kept < 2; kept++) {
            CHECK(hash_of(&to[kept].row) == hash_of(&wanted.row));
            CHECK(hash_of(&to[kept].row_scale) == hash_of(&wanted.row_scale));
        }
        CHECK(reference_load(&wanted.row_scale, 0, 3) != 1.0);
    }
    case_end();
}

/* -- Delayed scales, statistics ------------------------------------------------------------------------------------ */

/* Forty steps, written out: an inf at step 12, the tensor not used at 20 and 21, NaN at 30. `wanted`: the largest of
 * the last seven that count. */
static void test_history(void)
{
    static const double amaxes[40] = {1, 2, 3, 2, 1, 1, 1, 1, 1, 1, 0.5, 4, INFINITY, 1, 1, 1, 1, 1, 1, 1,
                                      0, 0, 5, 1, 1, 1, 1, 1, 1, 1, NAN, 1, 8,        1, 1, 1, 1, 1, 1, 9};
    static const double wanted[40] = {1, 2, 3, 3, 3, 3, 3, 3, 3, 2, 1, 4, 4, 4, 4, 4, 4, 4, 4, 1,
                                      1, 1, 5, 5, 5, 5, 5, 5, 5, 1, 1, 1, 8, 8, 8, 8, 8, 8, 8, 9};
    struct tensor amax = zeros(DTYPE_F32, 2, 1), scale = zeros(DTYPE_F32, 2, 1), largest = zeros(DTYPE_F32, 2, 1);
    struct tensor latest = zeros(DTYPE_F32, 2, 1);
    struct tensor window = zeros(DTYPE_F32, 2, 7), only = zeros(DTYPE_F32, 2, 7);
    double last = 1.0;
    for (int64_t i = 0; i < 2; i++) {
        reference_store(&scale, i, 0, 1.0);
        reference_store(&latest, i, 0, 1.0);
        reference_store(&largest, i, 0, i ? 57344.0 / 8.0 : 448.0); /* e5m2 with margin 3 */
    }
    for (int64_t step = 0; step < 40; step++) {
        struct delayed_scale_args args = {.amax = amax, .history = window, .scale = scale, .largest = largest};
        reference_store(&amax, 0, 0, amaxes[step]);
        reference_store(&amax, 1, 0, 2.0 * amaxes[step]);
        run(OP_DELAYED_SCALE, &args);
        CHECK(reference_load(&amax, 0, 0) == 0.0 && reference_load(&amax, 1, 0) == 0.0);
        CHECK(reference_load(&scale, 0, 0) == (double)(1.0f / (448.0f / (float)wanted[step])));
        CHECK(reference_load(&scale, 1, 0) == (double)(1.0f / (7168.0f / (2.0f * (float)wanted[step]))));
        args.latest = true, args.scale = latest, args.history = only;
        last = amaxes[step] > 0.0 && isfinite(amaxes[step]) ? amaxes[step] : last;
        reference_store(&amax, 0, 0, amaxes[step]);
        run(OP_DELAYED_SCALE, &args);
        CHECK(reference_load(&latest, 0, 0) == (double)(1.0f / (448.0f / (float)last)));
        CHECK(reference_load(&latest, 1, 0) == 1.0); /* not used */
    }
    CHECK(reference_load(&window, 0, 0) == 9.0 && reference_load(&window, 0, 6) == 1.0);
    case_end();
}

/* By hand: 1000 is clipped to 448, 2^-11 is lost, 17 becomes 16, -448 and 2 stay; inf and NaN count as elements. */
static void test_statistic(void)
{
    static const double values[8] = {1000.0, 0x1p-11, 17.0, -448.0, 2.0, 0.0, INFINITY, NAN};
    struct tensor x = zeros(DTYPE_F32, 2, 4), result = zeros(DTYPE_F64, 1, STATISTICS);
    for (int64_t i = 0; i < 8; i++)
        reference_store(&x, i / 4, i % 4, values[i]);
    reference_store(&result, 0, STATISTIC_COUNT, 10.0);
    reference_store(&result, 0, STATISTIC_SCALE, 3.0);
    struct quantization_statistic_args args = {
        .x = x, .scale = one(1.0), .result = result, .rule = {.format = FORMAT_E4M3, .scaling = SCALING_TENSOR}};
    run(OP_QUANTIZATION_STATISTIC, &args);
    const double wanted[STATISTICS] = {
        18.0,   1.0, 1.0, 552.0 * 552.0 + 0x1p-22 + 1.0, 1e6 + 0x1p-22 + 289.0 + 448.0 * 448.0 + 4.0, 1.0, 1.0,
        1000.0, 3.0, 1.0};
    for (int64_t i = 0; i < STATISTICS; i++)
        CHECK(reference_load(&result, 0, i) == wanted[i]);

    /* a scale each row: 448 / 448 and 2 / 448, whose reciprocal is 224 */
    struct tensor rows = zeros(DTYPE_F32, 2, 2), of_rows = zeros(DTYPE_F64, 1, STATISTICS);
    reference_store(&rows, 0, 0, 448.0);
    reference_store(&rows, 1, 0, 2.0);
    reference_store(&rows, 1, 1, 0x1p-18);
    args = (struct quantization_statistic_args){
        .x = rows, .result = of_rows, .rule = {.format = FORMAT_E4M3, .scaling = SCALING_ROW}};
    run(OP_QUANTIZATION_STATISTIC, &args);
    CHECK(reference_load(&of_rows, 0, STATISTIC_SCALES) == 2.0 && reference_load(&of_rows, 0, STATISTIC_POWERS) == 1.0);
    CHECK(reference_load(&of_rows, 0, STATISTIC_SCALE) == 1.0 &&
          reference_load(&of_rows, 0, STATISTIC_UNDERFLOWS) == 1.0);
    CHECK_NEAR(reference_load(&of_rows, 0, STATISTIC_INVERSE), 224.0, 1e-6, 0.0);
    CHECK(reference_load(&of_rows, 0, STATISTIC_CLIPPED) == 0.0);
    case_end();
}

int main(void)
{
    oracle = reference_executor_create();
    test_golden();
    test_beyond();
    test_exponents();
    test_layouts();
    test_hadamard();
    test_random();
    test_activations();
    test_history();
    test_statistic();
    oracle->class->destroy(oracle);
    return check_end();
}
