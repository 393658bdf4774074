/* The oracle's quantization. It shares no function with core/quantization.h: values are doubles, and where the rules
 * say f32, a result is rounded to f32. (A quotient or product of two f32 numbers, first rounded to double, rounds to
 * the same f32.) */
#include "reference.h"
#include "reference_ops.h"

#include "base/memory.h"

#include <float.h>

static double f32(double x)
{
    return (double)(float)x;
}

static const double largest_of[] = {[FORMAT_E4M3] = 448.0, [FORMAT_E5M2] = 57344.0, [FORMAT_E2M1] = 6.0};

/* The formats: stored bits of the mantissa, and exponent of the smallest normal number. */
static const struct {
    int mantissa, lowest;
} grid[] = {[FORMAT_E4M3] = {3, -6}, [FORMAT_E5M2] = {2, -14}, [FORMAT_E2M1] = {1, 0}};

/* Returns the distance from |x| to the next larger number of the format, if |x| is one. */
static double unit_at(double x, enum number_format format)
{
    int exponent = x != 0.0 ? ilogb(x) : grid[format].lowest;
    return ldexp(1.0, (exponent < grid[format].lowest ? grid[format].lowest : exponent) - grid[format].mantissa);
}

/* Returns x * multiplier clipped to the format's range; NaN for inf. */
static double within_range(double x, double multiplier, enum number_format format)
{
    if (!isfinite(x) || isnan(multiplier))
        return NAN;
    double product = f32(x * multiplier);
    return copysign(fmin(fabs(product), largest_of[format]), product);
}

static double to_nearest(double x, enum number_format format)
{
    return isnan(x) ? x : nearbyint(x / unit_at(x, format)) * unit_at(x, format);
}

/* Rounds stochastically: up with a probability equal to the fraction of the interval below x. */
static double at_random(double x, uint64_t word)
{
    if (isnan(x))
        return x;
    double unit = unit_at(x, FORMAT_E2M1), below = floor(fabs(x) / unit);
    bool up = fabs(x) / unit - below > ldexp((double)(word / 256), -24);
    return copysign((below + (up ? 1.0 : 0.0)) * unit, x);
}

/* Mixes a 32-bit word; one to one. */
static uint64_t mixed(uint64_t word)
{
    const uint64_t words = (uint64_t)1 << 32;
    word ^= word / 65536;
    word = word * 2654435761u % words;
    word ^= word / 8192;
    word = word * 1540483477u % words;
    return word ^ word / 32768;
}

static uint64_t random_word(const struct quantized_operands *to, bool column, int64_t row, int64_t col)
{
    const uint64_t words = (uint64_t)1 << 32;
    const uint64_t first = (uint32_t)reference_index(&to->draw, 0), second = (uint32_t)reference_index(&to->draw, 1);
    uint64_t key = mixed((first + 2654435769u) % words);
    key = mixed((key + second) % words);
    key = mixed((key + to->salt) % words);
    key = mixed((key + column) % words);
    return mixed(mixed((key + (uint64_t)row) % words) ^ (uint64_t)col * 3266489909u % words);
}

/* The source of a quantized operand: x, or x transposed, padded with zeros and possibly transformed. */
struct record_source {
    const struct tensor *x;
    bool column, hadamard;
    int64_t rows, cols;
};

/* Returns the sum over rows first .. first + count - 1 of the group of 16 of H[i][j] sign[j] x[j], halves first; each
 * sum is f32. */
static double walsh(const struct record_source *source, int64_t i, int64_t group, int64_t feature, int64_t first,
                    int64_t count)
{
    static const int negative[16] = {0, 0, 0, 1, 0, 1, 1, 1, 1, 1, 1, 0, 1, 0, 1, 1};
    if (count == 1) {
        int64_t t = 16 * group + first;
        double x = t < source->x->rows ? reference_load(source->x, t, feature) : 0.0;
        return negative[first] ? -x : x;
    }
    double one = walsh(source, i, group, feature, first, count / 2);
    double other = walsh(source, i, group, feature, first + count / 2, count / 2);
    return f32(i & count / 2 ? one - other : one + other);
}

static double source_at(const struct record_source *source, int64_t row, int64_t col)
{
    if (!source->column)
        return reference_load(source->x, row, col);
    if (source->hadamard)
        return f32(walsh(source, col % 16, col / 16, row, 0, 16) / 4.0);
    return col < source->x->rows ? reference_load(source->x, col, row) : 0.0;
}

/* A block of a quantized operand: first .. last - 1 in each direction. */
struct part {
    int64_t row, last_row, col, last_col;
};

static double amax_of(const struct record_source *source, const struct part *part)
{
    double amax = 0.0;
    for (int64_t i = part->row; i < part->last_row; i++)
        for (int64_t j = part->col; j < part->last_col; j++) {
            double value = fabs(source_at(source, i, j));
            amax = isnan(value) || value > amax ? (isnan(value) ? INFINITY : value) : amax;
        }
    return amax;
}

/* Rows and columns of a block of elements with one scale; -1: all. */
static const struct {
    int64_t rows, cols;
} block[] = {
    [SCALING_TENSOR] = {-1, -1}, [SCALING_ROW] = {1, -1},  [SCALING_1X128] = {1, 128}, [SCALING_128X128] = {128, 128},
    [SCALING_1X32] = {1, 32},    [SCALING_1X16] = {1, 16}, [SCALING_16X16] = {16, 16}};

/* How the elements of a block become numbers of the format, and how those become values. */
struct measure {
    double multiplier; /* NaN: the block has no scale, and its quantized elements are NaN */
    double inside;     /* factor already applied to the quantized elements */
    double scale;      /* factor that is left to apply */
};

/* Returns the multiplier by TransformerEngine's rules. */
static double multiplier_of(double amax, double largest, bool power_of_two)
{
    if (amax == 0.0 || isinf(amax))
        return 1.0;
    double multiplier = fmin(f32(largest / amax), FLT_MAX);
    return power_of_two ? ldexp(1.0, ilogb(multiplier)) : multiplier;
}

static double reciprocal(double x)
{
    return fmin(f32(1.0 / x), FLT_MAX);
}

/* Returns the measure of a block. whole: the tensor's multiplier for 1X16 and 16X16, or its scale if given, else -1. */
static struct measure measure_of(const struct quantization *rule, double amax, double whole)
{
    const double largest = largest_of[rule->format];
    switch (rule->scaling) {
    case SCALING_1X32: {
        if (isinf(amax))
            return (struct measure){NAN, 1.0, 1.0};
        int exponent;
        double fraction = frexp(f32(amax / largest), &exponent); /* in [0.5, 1): the next power, or the number */
        exponent -= fraction == 0.5;
        exponent = fraction == 0.0 || exponent < -127 ? -127 : exponent;
        return (struct measure){ldexp(1.0, -exponent), ldexp(1.0, exponent), 1.0};
    }
    case SCALING_1X16:
    case SCALING_16X16: {
        double scale = to_nearest(fmin(f32(f32(amax / 6.0) * whole), 448.0), FORMAT_E4M3);
        double multiplier = scale == 0.0 ? 0.0 : fmin(f32(whole / scale), FLT_MAX);
        return (struct measure){multiplier, scale, reciprocal(whole)};
    }
    case SCALING_TENSOR:
        if (whole >= 0.0)
            return (struct measure){reciprocal(whole), 1.0, whole};
        break;
    default:
        break;
    }
    double multiplier = multiplier_of(amax, largest, rule->power_of_two && rule->scaling != SCALING_TENSOR);
    return (struct measure){multiplier, 1.0, reciprocal(multiplier)};
}

/* Writes the row and column at which the scale of element (row, col) is stored. */
static void scale_place(enum scaling scaling, int64_t row, int64_t col, int64_t place[2])
{
    place[0] = scaling == SCALING_1X128 ? col / 128 : scaling == SCALING_128X128 ? row / 128 : 0;
    place[1] = scaling == SCALING_128X128 ? col / 128 : scaling == SCALING_ROW || scaling == SCALING_1X128 ? row : 0;
}

double reference_scale(const struct tensor *scale, enum scaling scaling, int64_t row, int64_t col)
{
    int64_t place[2];
    scale_place(scaling, row, col, place);
    return tensor_present(scale) ? reference_load(scale, place[0], place[1]) : 1.0;
}

/* Moves to the block after `part` of a quantized operand [rows, cols]; in the first call last_row is 0. Returns false
 * after the last block. */
static bool next_part(enum scaling scaling, int64_t rows, int64_t cols, struct part *part)
{
    const int64_t height = block[scaling].rows < 0 ? rows : block[scaling].rows;
    const int64_t width = block[scaling].cols < 0 ? cols : block[scaling].cols;
    if (part->last_row != 0 && part->last_col < cols)
        part->col += width;
    else
        part->row = part->last_row, part->col = 0;
    part->last_row = part->row + height < rows ? part->row + height : rows;
    part->last_col = part->col + width < cols ? part->col + width : cols;
    return part->row < rows;
}

static void make_operand(const struct record_source *source, const struct quantized_operands *to,
                         const struct tensor *copy, const struct tensor *scale)
{
    const struct quantization *rule = &to->rule;
    const struct part all = {0, source->rows, 0, source->cols};
    const int64_t tokens = source->hadamard ? (source->x->rows + 15) / 16 * 16 : source->x->rows;
    double whole = tensor_present(&to->scale) ? reference_load(&to->scale, 0, 0) : -1.0;
    if (rule->scaling == SCALING_1X16 || rule->scaling == SCALING_16X16)
        whole = multiplier_of(amax_of(source, &all), 6.0 * 448.0, false);
    const double given = tensor_present(&to->whole_amax) ? reference_load(&to->whole_amax, 0, 0) : -1.0;
    if (given >= 0.0 && tensor_present(scale)) /* also if x is empty */
        reference_store(scale, 0, 0, measure_of(rule, given, -1.0).scale);
    for (struct part part = {0}; next_part(rule->scaling, source->rows, source->cols, &part);) {
        const struct measure measure = measure_of(rule, given >= 0.0 ? given : amax_of(source, &part), whole);
        int64_t place[2];
        scale_place(rule->scaling, part.row, part.col, place);
        if (tensor_present(scale))
            reference_store(scale, place[0], place[1], measure.scale);
        for (int64_t i = part.row; i < part.last_row; i++)
            for (int64_t j = part.col; j < part.last_col; j++) {
                double number = within_range(source_at(source, i, j), measure.multiplier, rule->format);
                number = rule->stochastic ? at_random(number, random_word(to, source->column, i, j))
                                          : to_nearest(number, rule->format);
                reference_store(copy, i, j, source->column && j >= tokens ? 0.0 : number * measure.inside);
            }
    }
}

void reference_quantized(const struct tensor *x, const struct quantized_operands *to)
{
    const struct record_source rows = {.x = x, .rows = x->rows, .cols = x->cols};
    const struct part all = {0, x->rows, 0, x->cols};
    if (tensor_present(&to->row))
        make_operand(&rows, to, &to->row, &to->row_scale);
    if (tensor_present(&to->column)) {
        const struct record_source columns = {
            .x = x, .column = true, .hadamard = to->rule.hadamard, .rows = x->cols, .cols = to->column.cols};
        make_operand(&columns, to, &to->column, &to->column_scale);
    }
    if (tensor_present(&to->amax))
        reference_store(&to->amax, 0, 0, fmax(reference_load(&to->amax, 0, 0), amax_of(&rows, &all)));
}

struct tensor reference_made(const struct tensor *y, enum dtype dtype, int64_t rows, int64_t cols)
{
    return tensor_present(y) ? *y : tensor_matrix(memory_allocate(rows * cols * dtype_size(dtype)), dtype, rows, cols);
}

void reference_made_end(const struct tensor *made, const struct tensor *y, const struct quantized_operands *to)
{
    reference_quantized(made, to);
    if (!tensor_present(y))
        memory_free(made->data);
}

void reference_quantize(const struct quantize_args *args)
{
    reference_quantized(&args->x, &args->to);
    for (int64_t j = 0; tensor_present(&args->sum) && j < args->sum.cols; j++) {
        double sum = args->accumulate ? reference_load(&args->sum, 0, j) : 0.0;
        for (int64_t i = 0; i < args->x.rows; i++)
            sum += reference_load(&args->x, i, j);
        reference_store(&args->sum, 0, j, sum);
    }
}

static void raise_statistic(double *result, enum quantization_statistic which, double value)
{
    result[which] = fmax(result[which], value);
}

static void count_scale(double scale, double *result)
{
    int exponent;
    result[STATISTIC_SCALES] += 1.0;
    result[STATISTIC_POWERS] += frexp(scale, &exponent) == 0.5;
    raise_statistic(result, STATISTIC_SCALE, scale);
    if (scale != 0.0)
        raise_statistic(result, STATISTIC_INVERSE, reciprocal(scale));
}

static void count_element(double x, const struct measure *measure, enum number_format format, double *result)
{
    result[STATISTIC_COUNT] += 1.0;
    if (!isfinite(x))
        return;
    raise_statistic(result, STATISTIC_AMAX, fabs(x));
    result[STATISTIC_SQUARES] += x * x;
    if (isnan(measure->multiplier))
        return;
    double value = to_nearest(within_range(x, measure->multiplier, format), format) * measure->inside * measure->scale;
    result[STATISTIC_UNDERFLOWS] += x != 0.0 && value == 0.0;
    result[STATISTIC_CLIPPED] += f32(fabs(x) * measure->multiplier) > f32(largest_of[format] * (1.0 + 0x1p-20));
    result[STATISTIC_ERROR] += (value - x) * (value - x);
}

void reference_quantization_statistic(const struct quantization_statistic_args *args)
{
    const struct quantization *rule = &args->rule;
    const struct record_source source = {.x = &args->x, .rows = args->x.rows, .cols = args->x.cols};
    const bool emulated = rule->scaling == SCALING_1X16 || rule->scaling == SCALING_16X16;
    double result[STATISTICS], given = tensor_present(&args->scale) ? reference_load(&args->scale, 0, 0) : -1.0;
    for (int i = 0; i < STATISTICS; i++)
        result[i] = reference_load(&args->result, 0, i);
    for (struct part part = {0}; next_part(rule->scaling, source.rows, source.cols, &part);) {
        struct measure measure = measure_of(rule, amax_of(&source, &part), emulated ? reciprocal(given) : given);
        measure.scale = emulated ? given : measure.scale;
        if (!isnan(measure.multiplier))
            count_scale(f32(measure.inside * measure.scale), result);
        for (int64_t i = part.row; i < part.last_row; i++)
            for (int64_t j = part.col; j < part.last_col; j++)
                count_element(reference_load(&args->x, i, j), &measure, rule->format, result);
    }
    for (int i = 0; i < STATISTICS; i++)
        reference_store(&args->result, 0, i, result[i]);
}

void reference_delayed_scale(const struct delayed_scale_args *args)
{
    const int64_t length = args->history.cols;
    for (int64_t i = 0; i < args->amax.rows; i++) {
        const double amax = reference_load(&args->amax, i, 0);
        reference_store(&args->amax, i, 0, 0.0);
        if (!(amax > 0.0) || isinf(amax))
            continue;
        for (int64_t age = length - 1; age > 0; age--)
            reference_store(&args->history, i, age, reference_load(&args->history, i, age - 1));
        reference_store(&args->history, i, 0, amax);
        double decides = amax;
        for (int64_t age = 1; age < length && !args->latest; age++)
            decides = fmax(decides, reference_load(&args->history, i, age));
        const double quotient = fmin(f32(reference_load(&args->largest, i, 0) / decides), FLT_MAX);
        reference_store(&args->scale, i, 0, f32(1.0 / quotient));
    }
}
