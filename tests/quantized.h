/* For test programs of quantized operands: the rules by which ops quantize, and memory for operands and scales. */
#ifndef TESTS_QUANTIZED_H
#define TESTS_QUANTIZED_H

#include "ops.h"

static inline int64_t rounded_up(int64_t n, int64_t multiple)
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

static inline const char *kind_name(const struct kind *kind)
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
static inline struct tensor scales_for(struct trial *trial, enum scaling scaling, int64_t rows, int64_t cols)
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
static inline struct quantized_operands operands_for(struct trial *trial, const struct kind *kind, int64_t rows,
                                                     int64_t cols)
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

#endif
