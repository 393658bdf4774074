/* quantize: makes quantized operands in pieces of 128 x 128 elements. A columnwise piece is a rowwise piece of the
 * transposed tensor; if both have the same elements, these are quantized once. */
#include "cpu/blocks.h"
#include "cpu/convert.h"
#include "cpu/quantize.h"
#include "cpu/sum.h"

/* -- Largest magnitudes ------------------------------------------------------------------------------------------- */

static float largest_of(struct cpu *cpu, const struct tensor *x)
{
    struct cpu_spans spans = cpu_spans(x->rows, x->cols);
    float largest = 0.0f;
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(x))) schedule(static) reduction(max : largest)
    for (int64_t i = 0; i < spans.count; i++) {
        struct cpu_span s = cpu_span(&spans, i);
        float buffer[CPU_SPAN];
        float candidate = cpu_largest(cpu_read(x, s.row, s.col, s.count, buffer), s.count);
        largest = candidate > largest ? candidate : largest;
    }
    return largest;
}

CPU_CLONES static void raise_each(const float *x, float *restrict largest, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        float magnitude = cpu_magnitude(x[i]);
        largest[i] = magnitude > largest[i] ? magnitude : largest[i];
    }
}

static void largest_of_columns(struct cpu *cpu, const struct tensor *x, float *largest)
{
    memset(largest, 0, (size_t)x->cols * sizeof *largest);
    int parts = cpu_threads(cpu, tensor_count(x));
#pragma omp parallel for num_threads(parts) schedule(static)
    for (int i = 0; i < parts; i++) {
        int64_t end = cpu_part(x->cols, parts, i + 1, CPU_LINE / sizeof(float)), count;
        for (int64_t first = cpu_part(x->cols, parts, i, CPU_LINE / sizeof(float)); first < end; first += count) {
            count = cpu_min(CPU_SPAN, end - first);
            for (int64_t row = 0; row < x->rows; row++) {
                float buffer[CPU_SPAN];
                raise_each(cpu_read(x, row, first, count, buffer), largest + first, count);
            }
        }
    }
}

/* -- Pieces ------------------------------------------------------------------------------------------------------- */

/* Elements of x as f32, from (row, col) on. */
struct quantize_piece {
    int64_t row, col, rows, cols;
    const float *values;
    int64_t stride;
};

typedef float square[CPU_PIECE][CPU_PIECE];

static struct quantize_piece read_piece(const struct tensor *x, int64_t row, int64_t col, square buffer)
{
    struct quantize_piece piece = {row,
                                   col,
                                   cpu_max(0, cpu_min(CPU_PIECE, x->rows - row)),
                                   cpu_min(CPU_PIECE, x->cols - col),
                                   x->dtype == DTYPE_F32 ? tensor_at(x, row, col) : buffer[0],
                                   x->dtype == DTYPE_F32 ? x->stride : CPU_PIECE};
    for (int64_t i = 0; x->dtype != DTYPE_F32 && i < piece.rows; i++)
        cpu_widen(tensor_at(x, row + i, col), x->dtype, buffer[i], piece.cols);
    return piece;
}

CPU_CLONES static void transpose(const float *from, int64_t stride, int64_t rows, int64_t cols, square to)
{
    enum { SIDE = 8 };
    for (int64_t i = 0; i < rows; i += SIDE)
        for (int64_t j = 0; j < cols; j += SIDE) {
            int64_t down = cpu_min(SIDE, rows - i), across = cpu_min(SIDE, cols - j);
            for (int64_t r = 0; r < down; r++)
                for (int64_t c = 0; c < across; c++)
                    to[j + c][i + r] = from[(i + r) * stride + j + c];
        }
}

/* Returns the transposed piece, padded with zeros to `width` columns. */
static struct quantize_piece transposed(const struct quantize_piece *piece, int64_t width, bool hadamard, square buffer)
{
    transpose(piece->values, piece->stride, piece->rows, piece->cols, buffer);
    for (int64_t i = 0; i < piece->cols; i++) {
        memset(&buffer[i][piece->rows], 0, (size_t)(width - piece->rows) * sizeof(float));
        for (int64_t j = 0; hadamard && j < width; j += QUANTIZATION_HADAMARD)
            quantization_hadamard(&buffer[i][j]);
    }
    return (struct quantize_piece){piece->col, piece->row, piece->cols, width, buffer[0], CPU_PIECE};
}

/* -- Quantized operands ------------------------------------------------------------------------------------------ */

/* The rowwise or columnwise operand [R, C], and the scales that are known before its pieces are made. */
struct target {
    struct tensor operand, scale;
    const struct quantization *rule;
    float multiplier;   /* of the whole tensor */
    float *multipliers; /* SCALING_ROW: [R] */
    uint32_t key;       /* key of the random bits */
};

static void store_scales(const struct target *target, const struct quantize_piece *piece,
                         const struct cpu_blocks *blocks)
{
    int64_t block = piece->col / CPU_PIECE;
    if (target->rule->scaling == SCALING_128X128)
        *(float *)tensor_at(&target->scale, piece->row / CPU_PIECE, block) = blocks->scale[0][0];
    for (int64_t i = 0; target->rule->scaling == SCALING_1X128 && i < piece->rows; i++)
        *(float *)tensor_at(&target->scale, block, piece->row + i) = blocks->scale[i][0];
}

static void make_blocks(const struct target *target, const struct quantize_piece *piece, struct cpu_blocks *blocks)
{
    const float *multipliers = target->multipliers == NULL ? NULL : target->multipliers + piece->row;
    cpu_blocks_make(blocks, target->rule, piece->values, piece->stride, piece->rows, piece->cols, target->multiplier,
                    multipliers);
    store_scales(target, piece, blocks);
}

static void write_piece(const struct target *target, const struct quantize_piece *piece)
{
    struct cpu_blocks blocks;
    make_blocks(target, piece, &blocks);
    for (int64_t i = 0; i < piece->rows; i++) {
        float row[CPU_PIECE];
        cpu_blocks_scale(&blocks, i, piece->values + i * piece->stride, row, piece->cols);
        if (quantization_emulated(target->rule))
            cpu_blocks_round(&blocks, i, row, piece->cols, target->key, piece->row + i, piece->col);
        cpu_narrow(row, tensor_at(&target->operand, piece->row + i, piece->col), target->operand.dtype, piece->cols);
    }
}

/* Writes a piece of both operands, whose 8-bit elements are the same; `width` is the columnwise one's, padding
 * included. */
static void write_twice(const struct target *row, const struct target *column, const struct quantize_piece *piece,
                        int64_t width)
{
    struct cpu_blocks blocks;
    uint8_t codes[CPU_PIECE][CPU_PIECE];
    make_blocks(row, piece, &blocks);
    store_scales(column, &(struct quantize_piece){.row = piece->col, .col = piece->row}, &blocks);
    for (int64_t i = 0; i < piece->rows; i++) {
        float scaled[CPU_PIECE];
        cpu_blocks_scale(&blocks, i, piece->values + i * piece->stride, scaled, piece->cols);
        cpu_narrow(scaled, codes[i], row->operand.dtype, piece->cols);
        memcpy(tensor_at(&row->operand, piece->row + i, piece->col), codes[i], (size_t)piece->cols);
    }
    memset(&codes[piece->rows], 0, (size_t)(width - piece->rows) * sizeof *codes);
    for (int64_t j = 0; j < piece->cols; j++) {
        uint8_t *to = tensor_at(&column->operand, piece->col + j, piece->row);
        for (int64_t i = 0; i < width; i++)
            to[i] = codes[i][j];
    }
}

/* Scales of the whole tensor and of rows, which are made before the elements. */
static void set_tensor_scale(struct target *target, float amax)
{
    bool four = target->rule->format == FORMAT_E2M1;
    target->multiplier =
        quantization_multiplier(amax, four ? QUANTIZATION_NVFP4 : format_largest(target->rule->format), false);
    *(float *)target->scale.data = quantization_reciprocal(target->multiplier);
}

static void set_row_scales(struct target *target, int64_t rows)
{
    for (int64_t i = 0; i < rows; i++) {
        target->multipliers[i] = quantization_multiplier(target->multipliers[i], format_largest(target->rule->format),
                                                         target->rule->power_of_two);
        *(float *)tensor_at(&target->scale, 0, i) = quantization_reciprocal(target->multipliers[i]);
    }
}

/* Returns the largest magnitude after the Hadamard transform. */
static float largest_transformed(struct cpu *cpu, const struct tensor *x)
{
    int64_t across = (x->cols + CPU_PIECE - 1) / CPU_PIECE, down = (x->rows + CPU_PIECE - 1) / CPU_PIECE;
    float largest = 0.0f;
#pragma omp parallel for num_threads(cpu_threads(cpu, tensor_count(x))) schedule(static) reduction(max : largest)
    for (int64_t i = 0; i < across * down; i++) {
        square buffer, turned;
        struct quantize_piece piece = read_piece(x, i / across * CPU_PIECE, i % across * CPU_PIECE, buffer);
        int64_t width = (piece.rows + QUANTIZATION_HADAMARD - 1) / QUANTIZATION_HADAMARD * QUANTIZATION_HADAMARD;
        struct quantize_piece column = transposed(&piece, width, true, turned);
        for (int64_t j = 0; j < column.rows; j++) {
            float candidate = cpu_largest(turned[j], width);
            largest = candidate > largest ? candidate : largest;
        }
    }
    return largest;
}

static int64_t lay_out(const struct quantize_args *args, char *base, struct target *row, struct target *column)
{
    const struct quantized_operands *to = &args->to;
    int64_t used = 0, width = (int64_t)sizeof(float);
    *row = (struct target){.operand = to->row, .scale = to->row_scale, .rule = &to->rule};
    *column = (struct target){.operand = to->column, .scale = to->column_scale, .rule = &to->rule};
    if (to->rule.scaling == SCALING_ROW && tensor_present(&to->row))
        row->multipliers = cpu_take(base, &used, to->row.rows * width);
    if (to->rule.scaling == SCALING_ROW && tensor_present(&to->column))
        column->multipliers = cpu_take(base, &used, to->column.rows * width);
    return used;
}

int64_t cpu_quantize_workspace(const struct cpu *cpu, const struct quantize_args *args)
{
    (void)cpu;
    struct target row, column;
    return lay_out(args, NULL, &row, &column);
}

static void prepare(struct cpu *cpu, const struct quantize_args *args, struct target *row, struct target *column)
{
    const struct tensor *x = &args->x;
    const struct quantized_operands *to = &args->to;
    enum scaling scaling = to->rule.scaling;
    bool given = tensor_present(&to->scale), amax = tensor_present(&to->amax);
    bool current = !given && scaling_whole(scaling), part = tensor_present(&to->whole_amax);
    float largest = amax || (current && !part) ? largest_of(cpu, x) : 0.0f;
    if (amax && largest > *(float *)to->amax.data)
        *(float *)to->amax.data = largest;
    if (part)
        largest = *(const float *)to->whole_amax.data;
    if (given)
        row->multiplier = column->multiplier = quantization_reciprocal(*(const float *)to->scale.data);
    if (current && tensor_present(&to->row_scale))
        set_tensor_scale(row, largest);
    if (current && tensor_present(&to->column_scale))
        set_tensor_scale(column, to->rule.hadamard ? largest_transformed(cpu, x) : largest);
    if (row->multipliers != NULL) {
        cpu_largest_of_rows(cpu, x, row->multipliers);
        set_row_scales(row, x->rows);
    }
    if (column->multipliers != NULL) {
        largest_of_columns(cpu, x, column->multipliers);
        set_row_scales(column, x->cols);
    }
    if (to->rule.stochastic) {
        row->key = quantization_key(to->draw.data, to->salt, false);
        column->key = quantization_key(to->draw.data, to->salt, true);
    }
}

/* 1X32: makes padding zero, also in blocks with NaN. */
static void clear_padding(const struct tensor *column, const struct quantize_piece *piece, int64_t width)
{
    for (int64_t i = 0; i < piece->cols; i++)
        memset(tensor_at(column, piece->col + i, piece->row + piece->rows), 0,
               (size_t)((width - piece->rows) * dtype_size(column->dtype)));
}

void cpu_quantize(struct cpu *cpu, const struct quantize_args *args)
{
    const struct tensor *x = &args->x;
    struct target row, column;
    lay_out(args, cpu->workspace, &row, &column);
    prepare(cpu, args, &row, &column);
    if (tensor_present(&args->sum))
        cpu_sum(cpu, x, true, &args->sum, args->accumulate);
    bool to_row = tensor_present(&row.operand), to_column = tensor_present(&column.operand);
    int64_t rows = to_column ? column.operand.cols
                   : to_row  ? x->rows
                             : 0; /* includes the padding of the columnwise operand */
    int64_t across = (x->cols + CPU_PIECE - 1) / CPU_PIECE, down = (rows + CPU_PIECE - 1) / CPU_PIECE;
    enum scaling scaling = args->to.rule.scaling;
    bool alike = to_row && to_column && (scaling == SCALING_TENSOR || scaling == SCALING_128X128);
#pragma omp parallel for num_threads(cpu_threads(cpu, rows * x->cols)) schedule(static)
    for (int64_t i = 0; i < across * down; i++) {
        square buffer, turned;
        struct quantize_piece piece = read_piece(x, i / across * CPU_PIECE, i % across * CPU_PIECE, buffer);
        int64_t width = cpu_min(CPU_PIECE, rows - piece.row);
        if (alike && piece.rows > 0) {
            write_twice(&row, &column, &piece, width);
            continue;
        }
        if (to_row && piece.rows > 0)
            write_piece(&row, &piece);
        if (to_column) {
            struct quantize_piece turned_piece = transposed(&piece, width, args->to.rule.hadamard, turned);
            write_piece(&column, &turned_piece);
            if (args->to.rule.scaling == SCALING_1X32 && piece.rows < width)
                clear_padding(&column.operand, &piece, width);
        }
    }
}

/* -- Ops that quantize their result ----------------------------------------------------------------------------- */

int64_t cpu_made_workspace(const struct tensor *y, enum dtype dtype, int64_t rows, int64_t cols)
{
    return tensor_present(y) ? 0 : rows * cols * dtype_size(dtype);
}

struct tensor cpu_made(struct cpu *cpu, const struct tensor *y, enum dtype dtype, int64_t rows, int64_t cols)
{
    return tensor_present(y) ? *y : tensor_matrix(cpu->workspace, dtype, rows, cols);
}

/* y may be in scratch, because quantize needs none for the scalings of these ops. */
void cpu_make_quantized(struct cpu *cpu, const struct tensor *y, const struct quantized_operands *to)
{
    if (has_quantized(to) || tensor_present(&to->amax))
        cpu_quantize(cpu, &(struct quantize_args){.x = *y, .to = *to});
}

/* -- Delayed scales ----------------------------------------------------------------------------------------------- */

void cpu_delayed_scale(struct cpu *cpu, const struct delayed_scale_args *args)
{
    (void)cpu;
    for (int64_t i = 0; i < args->amax.rows; i++) {
        float *amax = tensor_at(&args->amax, i, 0), *history = tensor_at(&args->history, i, 0);
        if (*amax > 0.0f && *amax <= FLT_MAX) {
            memmove(history + 1, history, (size_t)(args->history.cols - 1) * sizeof *history);
            history[0] = *amax;
            float most = args->latest ? *amax : cpu_largest(history, args->history.cols);
            float multiplier = quantization_multiplier(most, *(const float *)tensor_at(&args->largest, i, 0), false);
            *(float *)tensor_at(&args->scale, i, 0) = quantization_reciprocal(multiplier);
        }
        *amax = 0.0f;
    }
}
