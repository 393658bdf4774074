/* Ops of the CUDA executor at the shapes of training.
 *   bench/gpu/op_speed [PART]      all parts, or one:
 *     norms       at every width of the presets: GB/s, tensors counted once and those that are read and written twice
 *     rows        other ops that memory bounds: the same
 *     experts     the router and the experts of a mixture: the same; TFLOP/s of their GEMMs, beside one GEMM of all
 * rows tokens      embeddings and cross-entropy, by vocabulary: the same, with all of the embedding's weight counted
 *     state       updates of weights, sums of gradients, merging of attention, numbers of a step: the same
 *     copies      of few bits by each rule, made of a matrix or beside an activation: the same
 *     gradients   of weights, with the sum for the bias made inside the product or apart; exits with 1 when they differ
 *     scaled      products of 8-bit operands with each kind of scale, under load, beside those of bf16 */
#include "base/memory.h"
#include "cuda/cuda.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Several sets of tensors take turns, so that none is found in the cache. */
enum { SETS = 4, RUNS = 9, TENSORS = 64, POSITIONS = 4096 };

static const double copy_rate = 4.3e12; /* bytes read and written a second, of copies on an H200 */

static struct executor *executor;
static struct stream stream;
static void *taken[TENSORS];
static int taken_count;

/* -- Tensors ----------------------------------------------------------------------------------------------------- */

static struct tensor device(enum dtype dtype, int64_t rows, int64_t cols)
{
    taken[taken_count] = executor->class->allocate(executor, rows * cols * dtype_size(dtype), MEMORY_DEVICE);
    return tensor_matrix(taken[taken_count++], dtype, rows, cols);
}

static void release_all(void)
{
    while (taken_count > 0)
        executor->class->release(executor, taken[--taken_count], MEMORY_DEVICE);
}

static double draw(void)
{
    static uint32_t state = 1;
    state = state * 1664525u + 1013904223u;
    return (double)(state >> 8) * 0x1p-24;
}

/* The first elements of t, as a vector. */
static struct tensor part(const struct tensor *t, int64_t from, int64_t count)
{
    return tensor_vector((char *)t->data + from * dtype_size(t->dtype), t->dtype, count);
}

/* Nearly normal numbers, in 8 bits 64 times as large: a block from the host, over and over. */
static struct tensor filled(enum dtype dtype, int64_t rows, int64_t cols)
{
    enum { BLOCK = 1000003 };
    static float block[BLOCK];
    static uint16_t narrow[BLOCK];
    static uint8_t eight_bit[BLOCK];
    struct tensor t = device(dtype, rows, cols);
    int64_t count = rows * cols, done = count < BLOCK ? count : BLOCK;
    for (int64_t i = 0; i < done; i++) {
        block[i] = (float)(1.7320508 * (draw() + draw() + draw() + draw() - 2.0));
        narrow[i] = f32_to_bf16(block[i]);
        if (dtype_size(dtype) == 1)
            eight_bit[i] = dtype == DTYPE_E4M3 ? f32_to_e4m3(64 * block[i]) : f32_to_e5m2(64 * block[i]);
    }
    void *values = dtype == DTYPE_F32 ? (void *)block : dtype == DTYPE_BF16 ? (void *)narrow : (void *)eight_bit;
    LAUNCH(&stream, COPY, copy, .from = tensor_vector(values, dtype, done), .to = part(&t, 0, done));
    stream_synchronize(&stream);
    for (; done < count; done *= 2) {
        int64_t more = done < count - done ? done : count - done;
        LAUNCH(&stream, COPY, copy, .from = part(&t, 0, more), .to = part(&t, done, more));
    }
    return t;
}

static struct tensor matrix(int64_t rows, int64_t cols)
{
    return filled(DTYPE_BF16, rows, cols);
}

static struct tensor numbers(int64_t count)
{
    return filled(DTYPE_F32, 1, count);
}

/* Drawn from 0 .. below - 1, or in turn. */
static struct tensor integers(int64_t count, int64_t below, bool drawn)
{
    struct tensor t = device(DTYPE_I32, 1, count);
    int32_t *values = memory_allocate(count * 4);
    for (int64_t i = 0; i < count; i++)
        values[i] = (int32_t)(drawn ? (int64_t)(draw() * (double)below) : i % below);
    LAUNCH(&stream, COPY, copy, .from = tensor_vector(values, DTYPE_I32, count), .to = t);
    stream_synchronize(&stream);
    memory_free(values);
    return t;
}

static struct tensor positions(int64_t count)
{
    return integers(count, POSITIONS, false);
}

static struct tensor rope_table(int64_t head_dim)
{
    struct tensor t = device(DTYPE_F32, POSITIONS, head_dim);
    float *values = memory_allocate(POSITIONS * head_dim * 4);
    for (int64_t p = 0; p < POSITIONS; p++)
        for (int64_t i = 0; i < head_dim / 2; i++) {
            double angle = (double)p * pow(1e4, -2.0 * (double)i / (double)head_dim);
            values[p * head_dim + i] = (float)cos(angle);
            values[p * head_dim + head_dim / 2 + i] = (float)sin(angle);
        }
    LAUNCH(&stream, COPY, copy, .from = tensor_matrix(values, DTYPE_F32, POSITIONS, head_dim), .to = t);
    stream_synchronize(&stream);
    memory_free(values);
    return t;
}

/* Scales of a copy [rows, k]. */
static struct tensor scales(enum scaling scaling, int64_t rows, int64_t k)
{
    const struct operand_shape shape = scale_shape_of(scaling, rows, quantization_blocks(rows), quantization_blocks(k));
    struct tensor t = device(DTYPE_F32, shape.rows, shape.stride);
    LAUNCH(&stream, FILL, fill, .x = t, .value = 1.0 / 64);
    return tensor_columns(&t, 0, shape.cols);
}

/* -- Times ------------------------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median seconds of a launch; args are SETS of the op's, `size` bytes each. */
static double seconds_of(enum op op, const void *args, size_t size)
{
    double samples[RUNS];
    executor->class->reserve(executor, STREAM_COMPUTE, executor->class->workspace(executor, op, args));
    for (int run = -2; run < RUNS; run++) { /* the first warm up */
        executor->profiling->stamp(executor->owner, &stream, 0);
        for (int set = 0; set < SETS; set++)
            launch(&stream, op, (const char *)args + (size_t)set * size);
        executor->profiling->stamp(executor->owner, &stream, 1);
        stream_synchronize(&stream);
        samples[run < 0 ? 0 : run] = executor->profiling->stamp_seconds(executor->owner, 0, 1) / SETS;
    }
    qsort(samples, RUNS, sizeof *samples, by_value);
    return samples[RUNS / 2];
}

static void report(const char *what, enum op op, const void *args, size_t size, int64_t rows, int64_t cols)
{
    double seconds = seconds_of(op, args, size), rate = (double)op_bytes(op, args) / seconds;
    printf("%-36s %6lld x %-6lld %9.1f us %7.0f GB/s %4.0f %%\n", what, (long long)rows, (long long)cols, seconds * 1e6,
           rate * 1e-9, 100.0 * rate / copy_rate);
    release_all();
}

/* Times an op on x's shape; the arguments are evaluated for each set, where `own` is a new matrix of that shape. */
#define MEASURE(what, OP, name, rows, cols, ...)                                                                       \
    do {                                                                                                               \
        struct name##_args args[SETS];                                                                                 \
        for (int set = 0; set < SETS; set++) {                                                                         \
            struct tensor own = matrix(rows, cols);                                                                    \
            (void)own;                                                                                                 \
            args[set] = (struct name##_args){__VA_ARGS__};                                                             \
        }                                                                                                              \
        report(what, OP_##OP, args, sizeof *args, rows, cols);                                                         \
    } while (0)

static void measure_norms(int64_t t, int64_t h)
{
    MEASURE("copy", COPY, copy, t, h, .from = matrix(t, h), .to = own);
    MEASURE("layernorm_forward", LAYERNORM_FORWARD, layernorm_forward, t, h, .x = own, .weight = matrix(1, h),
            .bias = matrix(1, h), .y = matrix(t, h), .mean = numbers(t), .rstd = numbers(t), .eps = 1e-5f);
    MEASURE("layernorm_backward", LAYERNORM_BACKWARD, layernorm_backward, t, h, .x = matrix(t, h),
            .weight = matrix(1, h), .mean = numbers(t), .rstd = numbers(t), .dy = matrix(t, h), .dx = own,
            .dweight = numbers(h), .dbias = numbers(h));
    MEASURE("layernorm_backward, residual in place", LAYERNORM_BACKWARD, layernorm_backward, t, h, .x = matrix(t, h),
            .weight = matrix(1, h), .mean = numbers(t), .rstd = numbers(t), .dy = matrix(t, h), .residual = own,
            .dx = own, .dweight = numbers(h), .dbias = numbers(h));
    MEASURE("rmsnorm_forward", RMSNORM_FORWARD, rmsnorm_forward, t, h, .x = own, .weight = matrix(1, h),
            .y = matrix(t, h), .rstd = numbers(t), .eps = 1e-5f);
    MEASURE("rmsnorm_backward", RMSNORM_BACKWARD, rmsnorm_backward, t, h, .x = matrix(t, h), .weight = matrix(1, h),
            .rstd = numbers(t), .dy = matrix(t, h), .dx = own, .dweight = numbers(h));
    MEASURE("rmsnorm_backward, residual in place", RMSNORM_BACKWARD, rmsnorm_backward, t, h, .x = matrix(t, h),
            .weight = matrix(1, h), .rstd = numbers(t), .dy = matrix(t, h), .residual = own, .dx = own,
            .dweight = numbers(h));
}

static void measure_all_norms(void)
{
    static const int64_t shapes[][2] = {{32768, 320},  {32768, 640},  {32768, 1280}, {16384, 2048}, {16384, 2560},
                                        {16384, 4096}, {16384, 5120}, {8192, 8192},  {4096, 16384}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        measure_norms(shapes[i][0], shapes[i][1]);
}

static void measure_rows(int64_t t, int64_t h)
{
    int64_t head_dim = h < 1000 ? 16 : h < 2000 ? 64 : 128;
    MEASURE("copy", COPY, copy, t, h, .from = matrix(t, h), .to = own);
    MEASURE("rope", ROPE, rope, t, 2 * h, .x = own, .positions = positions(t), .table = rope_table(head_dim),
            .head_dim = head_dim);
    MEASURE("rope, interleaved", ROPE, rope, t, 2 * h, .x = own, .positions = positions(t),
            .table = rope_table(head_dim), .head_dim = head_dim, .interleaved = true);
    MEASURE("head_norm_forward", HEAD_NORM_FORWARD, head_norm_forward, t, h, .x = own, .weight = matrix(1, head_dim),
            .y = matrix(t, h), .rstd = filled(DTYPE_F32, h / head_dim, t), .head_dim = head_dim, .eps = 1e-5f);
    MEASURE("head_norm_backward", HEAD_NORM_BACKWARD, head_norm_backward, t, h, .x = matrix(t, h),
            .weight = matrix(1, head_dim), .rstd = filled(DTYPE_F32, h / head_dim, t), .dy = matrix(t, h), .dx = own,
            .dweight = numbers(head_dim), .head_dim = head_dim);
    MEASURE("dropout", DROPOUT, dropout, t, h, .x = own, .keys = positions(t), .y = matrix(t, h), .probability = 0.1);
    MEASURE("dropout, adding", DROPOUT, dropout, t, h, .x = matrix(t, h), .keys = positions(t), .y = own,
            .probability = 0.1, .accumulate = true);
    MEASURE("tanh_forward", TANH_FORWARD, tanh_forward, t, h, .x = own, .y = matrix(t, h));
    MEASURE("tanh_backward", TANH_BACKWARD, tanh_backward, t, h, .y = matrix(t, h), .dy = own, .dx = own);
    MEASURE("gelu_forward", GELU_FORWARD, gelu_forward, t, 4 * h, .x = own, .y = matrix(t, 4 * h));
    MEASURE("gelu_backward", GELU_BACKWARD, gelu_backward, t, 4 * h, .x = matrix(t, 4 * h), .dy = own, .dx = own);
    MEASURE("gelu_backward, sum", GELU_BACKWARD, gelu_backward, t, 4 * h, .x = matrix(t, 4 * h), .dy = own, .dx = own,
            .sum = numbers(4 * h));
    MEASURE("swiglu_forward", SWIGLU_FORWARD, swiglu_forward, t, 4 * h, .x = own, .y = matrix(t, 2 * h));
    MEASURE("swiglu_backward", SWIGLU_BACKWARD, swiglu_backward, t, 4 * h, .x = matrix(t, 4 * h),
            .dy = matrix(t, 2 * h), .dx = own);
}

static void measure_all_rows(void)
{
    static const int64_t hidden[] = {320, 1280, 2048, 2560, 4096, 5120};
    for (size_t h = 0; h < sizeof hidden / sizeof *hidden; h++)
        for (int64_t rows = 16384; rows <= 32768; rows *= 2)
            measure_rows(rows, hidden[h]);
}

/* Experts for each of t tokens, `chosen` consecutive ones from a drawn one on, so that all have nearly the same load.
 */
static struct tensor drawn_experts(int64_t t, int64_t chosen, int64_t experts)
{
    struct tensor all = integers(t * chosen, experts, true);
    int32_t *values = memory_allocate(t * chosen * 4);
    for (int64_t i = 0; i < t; i++) {
        const int32_t first = (int32_t)(draw() * (double)experts);
        for (int64_t c = 0; c < chosen; c++)
            values[i * chosen + c] = (int32_t)((first + c) % experts);
    }
    LAUNCH(&stream, COPY, copy, .from = tensor_vector(values, DTYPE_I32, t * chosen), .to = all);
    stream_synchronize(&stream);
    memory_free(values);
    return (struct tensor){all.data, DTYPE_I32, t, chosen, chosen};
}

/* A permutation of t * chosen rows. */
static struct tensor pair_places(int64_t t, int64_t chosen)
{
    struct tensor all = integers(t * chosen, t * chosen, false);
    return (struct tensor){all.data, DTYPE_I32, t, chosen, chosen};
}

static struct tensor expert_ends(int64_t rows, int64_t experts)
{
    struct tensor t = device(DTYPE_I32, 1, experts);
    int32_t values[EXPERTS_MOST];
    for (int64_t e = 0; e < experts; e++)
        values[e] = (int32_t)(rows * (e + 1) / experts);
    LAUNCH(&stream, COPY, copy, .from = tensor_vector(values, DTYPE_I32, experts), .to = t);
    stream_synchronize(&stream);
    return t;
}

static void report_flops(const char *what, enum op op, const void *args, size_t size, int64_t rows, int64_t cols)
{
    const double seconds = seconds_of(op, args, size);
    printf("%-36s %6lld x %-6lld %9.1f us %7.0f TFLOP/s\n", what, (long long)rows, (long long)cols, seconds * 1e6,
           (double)op_flops(op, args) / seconds * 1e-12);
    release_all();
}

#define MEASURE_FLOPS(what, OP, name, rows, cols, ...)                                                                 \
    do {                                                                                                               \
        struct name##_args args[SETS];                                                                                 \
        for (int set = 0; set < SETS; set++)                                                                           \
            args[set] = (struct name##_args){__VA_ARGS__};                                                             \
        report_flops(what, OP_##OP, args, sizeof *args, rows, cols);                                                   \
    } while (0)

static void measure_experts(void)
{
    static const int64_t shapes[][5] = {/* tokens, hidden, ffn, experts, chosen; the first is Mixtral 8x7B */
                                        {8192, 4096, 14336, 8, 2},
                                        {16384, 1024, 2048, 8, 2},
                                        {16384, 1024, 512, 64, 8}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int64_t t = shapes[i][0], h = shapes[i][1], f = shapes[i][2], e = shapes[i][3], c = shapes[i][4];
        const int64_t rows = t * c;
        printf("\n%lld of %lld experts of width %lld\n", (long long)c, (long long)e, (long long)f);
        MEASURE("route_forward", ROUTE_FORWARD, route_forward, t, e, .logits = filled(DTYPE_F32, t, e),
                .experts = drawn_experts(t, c, e), .weights = filled(DTYPE_F32, t, c));
        MEASURE("route_backward", ROUTE_BACKWARD, route_backward, t, e, .logits = filled(DTYPE_F32, t, e),
                .experts = drawn_experts(t, c, e), .weights = filled(DTYPE_F32, t, c),
                .d_weights = filled(DTYPE_F32, t, c), .labels = integers(t, 100, true),
                .load = filled(DTYPE_F32, 1, e + 1), .d_logits = own, .auxiliary = 0.01);
        MEASURE("expert_load", EXPERT_LOAD, expert_load, t, c, .experts = drawn_experts(t, c, e),
                .labels = integers(t, 100, true), .load = filled(DTYPE_F32, 1, e + 1));
        MEASURE("expert_order", EXPERT_ORDER, expert_order, t, c, .experts = drawn_experts(t, c, e),
                .places = pair_places(t, c), .tokens = integers(rows, t, true), .ends = expert_ends(rows, e));
        MEASURE("combine_forward", COMBINE_FORWARD, combine_forward, t, h, .x = matrix(rows, h),
                .places = pair_places(t, c), .weights = filled(DTYPE_F32, t, c), .addend = own, .y = matrix(t, h));
        MEASURE("combine_backward", COMBINE_BACKWARD, combine_backward, t, h, .dy = own, .x = matrix(rows, h),
                .places = pair_places(t, c), .weights = filled(DTYPE_F32, t, c), .dx = matrix(rows, h),
                .d_weights = filled(DTYPE_F32, t, c));
        MEASURE_FLOPS("expert_gemm, up", EXPERT_GEMM, expert_gemm, rows, 2 * f, .a = matrix(rows, h),
                      .b = matrix(e * 2 * f, h), .ends = expert_ends(rows, e), .d = matrix(rows, 2 * f),
                      .transpose_b = true);
        MEASURE_FLOPS("expert_gemm, up's input gradient", EXPERT_GEMM, expert_gemm, rows, h, .a = matrix(rows, 2 * f),
                      .b = matrix(e * 2 * f, h), .ends = expert_ends(rows, e), .d = matrix(rows, h));
        MEASURE_FLOPS("expert_gradient, up", EXPERT_GRADIENT, expert_gradient, 2 * f, h, .dy = matrix(rows, 2 * f),
                      .x = matrix(rows, h), .ends = expert_ends(rows, e), .dweight = device(DTYPE_F32, e * 2 * f, h));
        MEASURE_FLOPS("gemm of as many rows", GEMM, gemm, rows, 2 * f, .a = matrix(rows, h), .b = matrix(2 * f, h),
                      .d = matrix(rows, 2 * f), .transpose_b = true);
    }
}

static void measure_tokens(void)
{
    static const int64_t shapes[][4] = {/* tokens, hidden, vocabulary, tokens of a slice of the head */
                                        {32768, 1280, 64, 32768},
                                        {16384, 2048, 32000, 4096},
                                        {16384, 4096, 128256, 2048}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int64_t t = shapes[i][0], h = shapes[i][1], v = shapes[i][2], slice = shapes[i][3];
        printf("\nvocabulary of %lld\n", (long long)v);
        MEASURE("embedding_forward", EMBEDDING_FORWARD, embedding_forward, t, h, .tokens = integers(t, v, true),
                .weight = matrix(v, h), .y = own);
        MEASURE("scatter", SCATTER, scatter, t, h, .from = own, .rows = integers(t, t, false), .to = matrix(2 * t, h));
        MEASURE("embedding_backward", EMBEDDING_BACKWARD, embedding_backward, t, h, .tokens = integers(t, v, true),
                .dy = own, .dweight = device(DTYPE_F32, v, h), .padding = -1);
        MEASURE("embedding_backward to bf16", EMBEDDING_BACKWARD, embedding_backward, t, h,
                .tokens = integers(t, v, true), .dy = own, .dweight = matrix(v, h), .padding = -1);
        MEASURE("embedding_backward, adding", EMBEDDING_BACKWARD, embedding_backward, t, h,
                .tokens = integers(t, v, true), .dy = own, .dweight = filled(DTYPE_F32, v, h), .padding = -1,
                .accumulate = true);
        MEASURE("xent_stat", XENT_STAT, xent_stat, slice, v, .logits = own, .labels = integers(slice, v, true),
                .loss = numbers(slice), .lse = numbers(slice), .total = device(DTYPE_F64, 1, 2));
        MEASURE("xent_part", XENT_PART, xent_part, slice, v, .logits = own, .labels = integers(slice, v, true),
                .statistics = device(DTYPE_F32, XENT_STATISTICS, slice));
        MEASURE("xent_merge, 8 parts", XENT_MERGE, xent_merge, 8 * XENT_STATISTICS, slice,
                .statistics = filled(DTYPE_F32, 8 * XENT_STATISTICS, slice), .labels = integers(slice, v, true),
                .loss = numbers(slice), .lse = numbers(slice), .total = device(DTYPE_F64, 1, 2));
        MEASURE("xent_grad", XENT_GRAD, xent_grad, slice, v, .logits = own, .labels = integers(slice, v, true),
                .lse = numbers(slice));
        MEASURE("xent_both", XENT_BOTH, xent_both, slice, v, .logits = own, .labels = integers(slice, v, true),
                .loss = numbers(slice), .total = device(DTYPE_F64, 1, 2));
        MEASURE("class_weight", CLASS_WEIGHT, class_weight, slice, v, .labels = integers(slice, v, true),
                .weights = filled(DTYPE_F32, 1, v), .loss = numbers(slice), .gradient = own,
                .total = device(DTYPE_F64, 1, 2));
        MEASURE("mse", MSE, mse, t, 8, .predictions = own, .labels = integers(t, t, false),
                .targets = filled(DTYPE_F32, t, 8), .gradient = own, .loss = numbers(t),
                .total = device(DTYPE_F64, 1, 2));
    }
}

/* One unit's weights, as many as a block of 8 billion parameters has. */
static void measure_updates(void)
{
    const int64_t n = 218103808;
    printf("\n");
    MEASURE("adamw, weights in halves", ADAMW, adamw, 1, n, .weight = own, .low = device(DTYPE_I16, 1, n),
            .gradient = numbers(n), .m = numbers(n), .v = numbers(n), .step = numbers(ADAMW_STEP_COUNT),
            .scale = numbers(1), .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .lr_factor = 1);
    MEASURE("adamw, and a bf16 gradient", ADAMW, adamw, 1, n, .weight = own, .low = device(DTYPE_I16, 1, n),
            .gradient = matrix(1, n), .m = numbers(n), .v = numbers(n), .step = numbers(ADAMW_STEP_COUNT),
            .scale = numbers(1), .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .lr_factor = 1);
    MEASURE("adamw, all in bf16", ADAMW, adamw, 1, n, .weight = own, .gradient = matrix(1, n), .m = matrix(1, n),
            .v = matrix(1, n), .step = numbers(ADAMW_STEP_COUNT), .scale = numbers(1), .beta1 = 0.9, .beta2 = 0.95,
            .eps = 1e-8, .lr_factor = 1);
    MEASURE("momentum, bf16 update", MOMENTUM, momentum, 1, n, .gradient = numbers(n), .m = numbers(n), .update = own,
            .scale = numbers(1), .momentum = 0.95, .nesterov = true);
    MEASURE("muon, weights in halves", MUON, muon, 1, n, .weight = own, .low = device(DTYPE_I16, 1, n),
            .update = matrix(1, n), .rate = numbers(1), .scale = numbers(1), .lr_factor = 1, .adjustment = 1);
    MEASURE("affine, with a norm", AFFINE, affine, 1, n, .from = own, .squares = device(DTYPE_F64, 1, 1),
            .to = matrix(1, n), .factor = 1, .eps = 1e-7);
    MEASURE("affine, with a diagonal", AFFINE, affine, 4096, 4096, .from = matrix(4096, 4096), .to = matrix(4096, 4096),
            .factor = 1, .diagonal = 1);
    MEASURE("add, bf16 to f32", ADD, add, 1, n, .from = own, .to = numbers(n));
    MEASURE("add, f32 to bf16", ADD, add, 1, n, .from = numbers(n), .to = own);
    MEASURE("multiply", MULTIPLY, multiply, 1, n, .x = own, .factor = 0.5);
    MEASURE("join, bf16 to f32", JOIN, join, 1, n, .high = own, .to = device(DTYPE_F32, 1, n));
    MEASURE("split, f32 to halves", SPLIT, split, 1, n, .from = numbers(n), .high = own,
            .low = device(DTYPE_I16, 1, n));
    MEASURE("join, halves to f32", JOIN, join, 1, n, .high = own, .low = device(DTYPE_I16, 1, n),
            .to = device(DTYPE_F32, 1, n));
    MEASURE("fill", FILL, fill, 1, n, .x = own);
    MEASURE("sum_squares of bf16", SUM_SQUARES, sum_squares, 1, n, .x = own, .sum = device(DTYPE_F64, 1, 1));
    MEASURE("sum_squares of f32", SUM_SQUARES, sum_squares, 1, n, .x = numbers(n), .sum = device(DTYPE_F64, 1, 1));
    MEASURE("sum_squares of f32, exact", SUM_SQUARES, sum_squares, 1, n, .x = numbers(n),
            .sum = device(DTYPE_F64, 1, SQUARES_PARTS), .quantum = 1);
    MEASURE("exact_add", EXACT_ADD, exact_add, 1, n, .from = numbers(n), .to = device(DTYPE_F64, 1, n),
            .quantum = 0x1p-30, .most = 1000, .accumulate = true);
    MEASURE("exact_read", EXACT_READ, exact_read, 1, n, .from = device(DTYPE_F64, 1, n), .to = device(DTYPE_F32, 1, n));
}

/* What is computed once a step, of as many numbers as a large model has units and operands. */
static void measure_steps(void)
{
    enum { UNITS = 96, OPERANDS = 1024, HISTORY = 1024 };
    printf("\n");
    MEASURE("gradient_scale", GRADIENT_SCALE, gradient_scale, 1, UNITS, .squares = device(DTYPE_F64, 1, UNITS),
            .total = device(DTYPE_F64, 1, 2), .scale = numbers(1), .norm = numbers(1),
            .updates = device(DTYPE_F64, 1, 1), .corrections = numbers(2), .beta1 = 0.9, .beta2 = 0.95, .max_norm = 1);
    MEASURE("delayed_scale", DELAYED_SCALE, delayed_scale, OPERANDS, HISTORY, .amax = filled(DTYPE_F32, OPERANDS, 1),
            .history = filled(DTYPE_F32, OPERANDS, HISTORY), .scale = filled(DTYPE_F32, OPERANDS, 1),
            .largest = filled(DTYPE_F32, OPERANDS, 1));
}

static void measure_merges(void)
{
    static const int64_t shapes[][3] = {{16384, 32, 128}, {32768, 20, 64}, {32768, 20, 16}};
    printf("\n");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int64_t t = shapes[i][0], heads = shapes[i][1], dim = shapes[i][2], h = heads * dim;
        MEASURE("attention_merge", ATTENTION_MERGE, attention_merge, t, h, .part_o = own,
                .part_lse = filled(DTYPE_F32, heads, t), .o = filled(DTYPE_F32, t, h),
                .lse = filled(DTYPE_F32, heads, t), .heads = heads, .head_dim = dim);
        MEASURE("attention_merge, the first", ATTENTION_MERGE, attention_merge, t, h, .part_o = own,
                .part_lse = filled(DTYPE_F32, heads, t), .o = device(DTYPE_F32, t, h),
                .lse = device(DTYPE_F32, heads, t), .heads = heads, .head_dim = dim, .first = true);
        MEASURE("attention_merge, the last", ATTENTION_MERGE, attention_merge, t, h, .part_o = own,
                .part_lse = filled(DTYPE_F32, heads, t), .o = filled(DTYPE_F32, t, h),
                .lse = filled(DTYPE_F32, heads, t), .to = matrix(t, h), .heads = heads, .head_dim = dim);
    }
}

/* The sums over columns of dy [t, h] that biases take, beside a product that makes nothing. */
static void measure_sums(void)
{
    static const int64_t shapes[][2] = {{32768, 5120}, {32768, 3840}, {32768, 1280}, {32768, 960},
                                        {32768, 320},  {16384, 8192}, {16384, 2048}};
    printf("\n");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        int64_t t = shapes[i][0], h = shapes[i][1];
        MEASURE("sum of columns", GEMM, gemm, t, h, .a = own, .b = tensor_matrix(own.data, DTYPE_BF16, t, 0),
                .d = tensor_matrix(own.data, DTYPE_F32, h, 0), .sum_a = numbers(h), .transpose_a = true);
    }
}

/* -- Copies ------------------------------------------------------------------------------------------------------ */

static const struct copy_kind {
    const char *name;
    struct quantization rule;
    bool given;
} copy_kinds[] = {
    {"tensor, given", {.scaling = SCALING_TENSOR}, true},
    {"1x128", {.scaling = SCALING_1X128, .power_of_two = true}, false},
    {"128x128", {.scaling = SCALING_128X128, .power_of_two = true}, false},
    {"1x32", {.scaling = SCALING_1X32}, false},
    {"tensor", {.scaling = SCALING_TENSOR}, false},
    {"row", {.scaling = SCALING_ROW}, false},
    {"1x16", {.format = FORMAT_E2M1, .scaling = SCALING_1X16}, false},
    {"1x16, hadamard", {.format = FORMAT_E2M1, .scaling = SCALING_1X16, .hadamard = true}, false},
    {"16x16", {.format = FORMAT_E2M1, .scaling = SCALING_16X16}, false},
};
enum { COPY_KINDS = sizeof copy_kinds / sizeof *copy_kinds, ACTIVATION_KINDS = 4 };

/* Both copies of a tensor [t, k]. */
static struct quantized_operands copies(const struct copy_kind *kind, int64_t t, int64_t k)
{
    const enum dtype dtype = quantization_dtype(&kind->rule);
    struct quantized_operands to = {.rule = kind->rule, .row = device(dtype, t, k), .column = device(dtype, k, t)};
    if (kind->given) {
        to.scale = scales(SCALING_TENSOR, 1, 1);
        to.amax = device(DTYPE_F32, 1, 1);
    } else if (kind->rule.scaling != SCALING_1X32) {
        to.row_scale = scales(kind->rule.scaling, t, k);
        to.column_scale = scales(kind->rule.scaling, k, t);
    }
    return to;
}

/* One of the two forms: rowwise, as forward needs of an input, or columnwise, as its weight gradient does. */
static struct quantized_operands form(const struct copy_kind *kind, int64_t t, int64_t k, bool columnwise)
{
    struct quantized_operands to = copies(kind, t, k);
    if (columnwise)
        to.row = to.row_scale = to.amax = (struct tensor){0};
    else
        to.column = to.column_scale = (struct tensor){0};
    return to;
}

static const char *named(const char *op, const struct copy_kind *kind)
{
    static char name[64];
    snprintf(name, sizeof name, "%s: %s", op, kind->name);
    return name;
}

static void measure_copies(void)
{
    static const int64_t shapes[][2] = {{16384, 4096}, {32768, 1280}, {32768, 5120}, {16384, 14336}};
    printf("\n");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int64_t t = shapes[i][0], h = shapes[i][1];
        for (int k = 0; k < COPY_KINDS; k++)
            MEASURE(named("quantize", &copy_kinds[k]), QUANTIZE, quantize, t, h, .x = own,
                    .to = copies(&copy_kinds[k], t, h));
        MEASURE("transpose", TRANSPOSE, transpose, t, h, .from = tensor_matrix(own.data, DTYPE_E4M3, t, h),
                .to = device(DTYPE_E4M3, h, t));
        MEASURE(named("quantize, sum", &copy_kinds[1]), QUANTIZE, quantize, t, h, .x = own,
                .to = copies(&copy_kinds[1], t, h), .sum = numbers(h));
        for (int k = 0; k < ACTIVATION_KINDS; k++) {
            MEASURE(named("swiglu_forward", &copy_kinds[k]), SWIGLU_FORWARD, swiglu_forward, t, 2 * h, .x = own,
                    .to = copies(&copy_kinds[k], t, h));
            MEASURE(named("swiglu_backward", &copy_kinds[k]), SWIGLU_BACKWARD, swiglu_backward, t, 2 * h, .x = own,
                    .dy = matrix(t, h), .to = copies(&copy_kinds[k], t, 2 * h));
            MEASURE(named("swiglu_forward, rows", &copy_kinds[k]), SWIGLU_FORWARD, swiglu_forward, t, 2 * h, .x = own,
                    .to = form(&copy_kinds[k], t, h, false));
            MEASURE(named("swiglu_backward, y", &copy_kinds[k]), SWIGLU_BACKWARD, swiglu_backward, t, 2 * h, .x = own,
                    .dy = matrix(t, h), .to = copies(&copy_kinds[k], t, 2 * h),
                    .y_to = form(&copy_kinds[k], t, h, true));
            MEASURE(named("gelu_forward", &copy_kinds[k]), GELU_FORWARD, gelu_forward, t, h, .x = own,
                    .to = copies(&copy_kinds[k], t, h));
            MEASURE(named("gelu_backward, sum", &copy_kinds[k]), GELU_BACKWARD, gelu_backward, t, h, .x = own,
                    .dy = matrix(t, h), .to = copies(&copy_kinds[k], t, h), .sum = numbers(h));
            MEASURE(named("gelu_forward, rows", &copy_kinds[k]), GELU_FORWARD, gelu_forward, t, h, .x = own,
                    .to = form(&copy_kinds[k], t, h, false));
            MEASURE(named("gelu_backward, sum, y", &copy_kinds[k]), GELU_BACKWARD, gelu_backward, t, h, .x = own,
                    .dy = matrix(t, h), .to = copies(&copy_kinds[k], t, h), .sum = numbers(h),
                    .y_to = form(&copy_kinds[k], t, h, true));
        }
        for (int k = 0; k < COPY_KINDS; k++)
            MEASURE(named("statistic", &copy_kinds[k]), QUANTIZATION_STATISTIC, quantization_statistic, t, h, .x = own,
                    .scale =
                        scaling_whole(copy_kinds[k].rule.scaling) ? scales(SCALING_TENSOR, 1, 1) : (struct tensor){0},
                    .result = device(DTYPE_F64, 1, STATISTICS), .rule = copy_kinds[k].rule);
    }
}

/* -- Products with a sum ----------------------------------------------------------------------------------------- */

static double difference(const struct tensor *a, const struct tensor *b)
{
    float *values = memory_allocate(2 * a->cols * 4);
    double most = 0.0, largest = 0.0;
    LAUNCH(&stream, COPY, copy, .from = *a, .to = tensor_vector(values, DTYPE_F32, a->cols));
    LAUNCH(&stream, COPY, copy, .from = *b, .to = tensor_vector(values + a->cols, DTYPE_F32, a->cols));
    stream_synchronize(&stream);
    for (int64_t i = 0; i < a->cols; i++) {
        most = fmax(most, fabs((double)values[i] - (double)values[a->cols + i]));
        largest = fmax(largest, fabs((double)values[i]));
        most = isnan(values[i]) ? INFINITY : most;
    }
    memory_free(values);
    return most / largest;
}

/* dw [m, n] = dy' x over k rows: alone, with the sum over dy as the tuning pass chose, and with it apart, on an
 * executor that has to be deterministic. Returns whether the sums agree. */
static bool measure_gemm(struct executor *free_one, struct executor *strict, int64_t m, int64_t n, int64_t k)
{
    struct gemm_args args[3][SETS];
    double seconds[3], work = 2.0 * (double)m * (double)n * (double)k;
    executor = free_one;
    stream.executor = executor;
    for (int set = 0; set < SETS; set++) {
        args[0][set] =
            (struct gemm_args){.a = matrix(k, m), .b = matrix(k, n), .d = filled(DTYPE_F32, m, n), .transpose_a = true};
        args[1][set] = args[2][set] = args[0][set];
        args[1][set].sum_a = numbers(m);
        args[2][set].sum_a = numbers(m);
    }
    for (int i = 0; i < 3; i++) {
        executor = i < 2 ? free_one : strict;
        stream.executor = executor;
        seconds[i] = seconds_of(OP_GEMM, args[i], sizeof **args);
    }
    double wrong = difference(&args[1][0].sum_a, &args[2][0].sum_a);
    printf("%6lld x %-6lld over %-6lld %8.0f %8.0f %8.0f   %8.1e%s\n", (long long)m, (long long)n, (long long)k,
           work / seconds[0] * 1e-12, work / seconds[1] * 1e-12, work / seconds[2] * 1e-12, wrong,
           wrong < 1e-4 ? "" : "  WRONG");
    executor = free_one;
    release_all();
    return wrong < 1e-4;
}

static bool measure_gemms(struct executor *free_one, struct executor *strict)
{
    static const int64_t shapes[][3] = {{1280, 1280, 32768}, {3840, 1280, 32768}, {5120, 1280, 32768},
                                        {1280, 5120, 32768}, {960, 320, 32768},   {1280, 320, 32768},
                                        {320, 1280, 32768},  {2048, 2048, 16384}, {8192, 2048, 16384}};
    bool right = true;
    printf("\n%-32s %8s %8s %8s   %s\n", "weight gradients, TFLOP/s", "no sum", "chosen", "apart", "sums differ by");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        right &= measure_gemm(free_one, strict, shapes[i][0], shapes[i][1], shapes[i][2]);
    return right;
}

/* -- Products with scales ---------------------------------------------------------------------------------------- */

/* d [m, n] = a b' over k: a linear layer's output (tokens, out, in), input's gradient (tokens, in, out), or weight's
 * (out, in, tokens). */
struct product {
    const char *name;
    int64_t m, n, k;
    unsigned with;
};
enum { NOTHING, BIAS = 1, ADDEND = 2, WEIGHT = 4 /* a gradient in f32 */, ACCUMULATE = 8 };

static const struct kind {
    const char *name;
    enum dtype a, b;
    enum scaling scaling_a, scaling_b;
    bool fast;
} kinds[] = {
    {"bf16", .a = DTYPE_BF16, .b = DTYPE_BF16},
    {"tensor fast", DTYPE_E4M3, DTYPE_E4M3, SCALING_TENSOR, SCALING_TENSOR, true},
    {"tensor", DTYPE_E4M3, DTYPE_E4M3, SCALING_TENSOR, SCALING_TENSOR, false},
    {"e5m2 tensor", DTYPE_E5M2, DTYPE_E4M3, SCALING_TENSOR, SCALING_TENSOR, false},
    {"row fast", DTYPE_E4M3, DTYPE_E4M3, SCALING_ROW, SCALING_ROW, true},
    {"row", DTYPE_E4M3, DTYPE_E4M3, SCALING_ROW, SCALING_ROW, false},
    {"1x128 128x128", DTYPE_E4M3, DTYPE_E4M3, SCALING_1X128, SCALING_128X128, false},
    {"1x128 1x128", DTYPE_E4M3, DTYPE_E4M3, SCALING_1X128, SCALING_1X128, false},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Mean seconds of a product in the second half of a quarter of a second, when the GPU has found its clocks. */
static double seconds_under_load(const struct gemm_args *args)
{
    const double half = 0.125;
    double each = 0.0;
    int64_t count = 1;
    executor->class->reserve(executor, STREAM_COMPUTE, executor->class->workspace(executor, OP_GEMM, args));
    for (int turn = 0; turn < 4; turn++) { /* chooses; learns how long one takes; finds the clocks; is measured */
        executor->profiling->stamp(executor->owner, &stream, 0);
        for (int64_t i = 0; i < count; i++)
            launch(&stream, OP_GEMM, args);
        executor->profiling->stamp(executor->owner, &stream, 1);
        stream_synchronize(&stream);
        each = executor->profiling->stamp_seconds(executor->owner, 0, 1) / (double)count;
        count = turn == 0 ? 4 : 1 + (int64_t)(half / each);
    }
    return each;
}

static void measure_scaled_product(const struct product *p)
{
    struct tensor a[DTYPE_COUNT], b[DTYPE_COUNT], d = device(p->with & WEIGHT ? DTYPE_F32 : DTYPE_BF16, p->m, p->n);
    struct tensor c = p->with & ADDEND ? matrix(p->m, p->n) : (struct tensor){0};
    struct tensor bias = p->with & BIAS ? matrix(1, p->n) : (struct tensor){0};
    const double work = 2.0 * (double)p->m * (double)p->n * (double)p->k;
    for (enum dtype t = DTYPE_BF16; t <= DTYPE_E5M2; t++) {
        a[t] = filled(t, p->m, p->k);
        b[t] = filled(t, p->n, p->k);
    }
    printf("%-28s %6lld x %-6lld over %-6lld", p->name, (long long)p->m, (long long)p->n, (long long)p->k);
    for (const struct kind *kind = kinds; kind < kinds + KINDS; kind++) {
        struct gemm_args args = {.a = a[kind->a],
                                 .b = b[kind->b],
                                 .c = c,
                                 .d = d,
                                 .bias = bias,
                                 .transpose_b = true,
                                 .accumulate = p->with & ACCUMULATE,
                                 .scaling_a = kind->scaling_a,
                                 .scaling_b = kind->scaling_b,
                                 .fast = kind->fast};
        if (dtype_size(kind->a) == 1) {
            args.scale_a = scales(kind->scaling_a, p->m, p->k);
            args.scale_b = scales(kind->scaling_b, p->n, p->k);
        }
        if (p->with & WEIGHT && kind->scaling_b == SCALING_128X128) /* squares are of weights */
            printf(" %13s", "-");
        else
            printf(" %13.0f", work / seconds_under_load(&args) * 1e-12);
        fflush(stdout);
    }
    printf("\n");
    release_all();
}

static void measure_scaled_products(void)
{
    static const struct product products[] = {
        {"llama8b up", 16384, 28672, 4096, NOTHING},
        {"llama8b up, bias", 16384, 28672, 4096, BIAS},
        {"llama8b up, addend", 16384, 28672, 4096, ADDEND},
        {"llama8b up, both", 16384, 28672, 4096, BIAS | ADDEND},
        {"llama8b up, input", 16384, 4096, 28672, NOTHING},
        {"llama8b up, weight", 28672, 4096, 16384, WEIGHT},
        {"llama8b up, weight, adding", 28672, 4096, 16384, WEIGHT | ACCUMULATE},
        {"llama8b down", 16384, 4096, 14336, NOTHING},
        {"llama8b down, input", 16384, 14336, 4096, NOTHING},
        {"esm15b up", 16384, 20480, 5120, NOTHING},
        {"esm15b up, weight", 20480, 5120, 16384, WEIGHT},
        {"esm15b up, weight, adding", 20480, 5120, 16384, WEIGHT | ACCUMULATE},
        {"esm650m up", 32768, 5120, 1280, NOTHING},
        {"lingua1b up", 16384, 12288, 2048, NOTHING},
    };
    printf("\n%-51s", "products under load, TFLOP/s");
    for (int i = 0; i < KINDS; i++)
        printf(" %13s", kinds[i].name);
    printf("\n");
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        measure_scaled_product(&products[i]);
}

static const char *wanted; /* NULL: all */

static bool is_wanted(const char *name)
{
    return wanted == NULL || strcmp(wanted, name) == 0;
}

int main(int argc, char **argv)
{
    wanted = argc > 1 ? argv[1] : NULL;
    struct executor *free_one = cuda_executor_create(0, 1, &(struct device_request){.deterministic = false});
    struct executor *strict = cuda_executor_create(0, 1, &(struct device_request){.deterministic = true});
    bool right = true;
    executor = free_one;
    stream.executor = executor;
    if (is_wanted("norms"))
        measure_all_norms();
    if (is_wanted("rows")) {
        measure_all_rows();
        measure_sums();
    }
    if (is_wanted("experts"))
        measure_experts();
    if (is_wanted("tokens"))
        measure_tokens();
    if (is_wanted("state")) {
        measure_updates();
        measure_steps();
        measure_merges();
    }
    if (is_wanted("copies"))
        measure_copies();
    free_one->tuning_pass = true;
    if (is_wanted("gradients"))
        right = measure_gemms(free_one, strict);
    if (is_wanted("scaled"))
        measure_scaled_products();
    strict->class->destroy(strict);
    free_one->class->destroy(free_one);
    return right ? 0 : 1;
}
