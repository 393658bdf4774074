/* Rates of the CPU executor's ops at the sizes of small models: GFLOP/s of products and attention, GB/s (bytes read and
 * written once) of the others. Best of several runs, and the first beside it, which pays for what libraries compile.
 *   bench/cpu_op_speed [THREADS [f32|bf16 [PART]]]      only ops that have PART in their name */
#include "base/clock.h"
#include "cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>

enum { RUNS = 9 };

struct model {
    int64_t tokens, hidden, ffn, heads, kv_heads, vocab, segment;
};

static struct executor *executor;
static struct stream stream;
static enum dtype storage = DTYPE_F32;
static const char *part = ""; /* of an op's name: others are left out */

/* Numbers in -0.5 .. 0.5; the memory stays until the program ends. */
static struct tensor matrix(enum dtype dtype, int64_t rows, int64_t cols)
{
    static uint32_t state = 1;
    struct tensor wide = tensor_matrix(
        executor->class->allocate(executor, rows * cols * dtype_size(DTYPE_F32), MEMORY_DEVICE), DTYPE_F32, rows, cols);
    float *values = wide.data;
    for (int64_t i = 0; i < rows * cols; i++) {
        state = state * 1664525u + 1013904223u;
        values[i] = (float)(state >> 8) * 0x1p-24f - 0.5f;
    }
    if (dtype == DTYPE_F32)
        return wide;
    struct tensor narrow = tensor_matrix(
        executor->class->allocate(executor, rows * cols * dtype_size(dtype), MEMORY_DEVICE), dtype, rows, cols);
    for (int64_t i = 0; i < rows * cols && dtype == DTYPE_BF16; i++)
        ((uint16_t *)narrow.data)[i] = f32_to_bf16(values[i]);
    executor->class->release(executor, wide.data, MEMORY_DEVICE);
    return narrow;
}

static struct tensor integers(int64_t count, int64_t modulus)
{
    struct tensor x = matrix(DTYPE_F32, 1, count);
    int32_t *values = x.data;
    for (int64_t i = 0; i < count; i++)
        values[i] = (int32_t)(i * 7 % modulus);
    x.dtype = DTYPE_I32;
    return x;
}

/* Times an op; `work` is in FLOP when positive, else the op's bytes are counted. */
static void measure(const char *label, enum op op, const void *args, double work)
{
    if (strstr(op_info(op)->name, part) == NULL)
        return;
    executor->class->reserve(executor, STREAM_COMPUTE, executor->class->workspace(executor, op, args));
    double first = 0.0, best = 1e30, bytes = 0.0;
    for (int run = 0; run < RUNS; run++) {
        double start = clock_seconds();
        launch(&stream, op, args);
        double seconds = clock_seconds() - start;
        if (run == 0)
            first = seconds;
        best = seconds < best ? seconds : best;
    }
    for (int i = 0; i < op_info(op)->field_count; i++) {
        int access = op_field_access(op, args, i);
        if (tensor_present(op_tensor(op, args, i)))
            bytes += (double)tensor_extent(op_tensor(op, args, i)) * (access == OP_READ_WRITE ? 2.0 : 1.0);
    }
    printf("  %-22s %-24s %8.3f ms (first %8.3f)  %7.1f %s\n", op_info(op)->name, label, best * 1e3, first * 1e3,
           (work > 0.0 ? work : bytes) / best * 1e-9, work > 0.0 ? "GFLOP/s" : "GB/s");
}

#define MEASURE(label, OP, name, work, ...) measure(label, OP_##OP, &(struct name##_args){__VA_ARGS__}, work)

static void measure_gemm(const char *name, int64_t tokens, int64_t in, int64_t out)
{
    struct tensor x = matrix(storage, tokens, in), w = matrix(storage, out, in), y = matrix(storage, tokens, out);
    struct tensor dw = matrix(DTYPE_F32, out, in);
    double flops = 2.0 * (double)tokens * (double)in * (double)out;
    char label[64];
    snprintf(label, sizeof label, "%s %lld -> %lld", name, (long long)in, (long long)out);
    MEASURE(label, GEMM, gemm, flops, .a = x, .b = w, .d = y, .transpose_b = true);
    MEASURE("  input gradient", GEMM, gemm, flops, .a = y, .b = w, .d = x);
    MEASURE("  weight gradient", GEMM, gemm, flops, .a = y, .b = x, .d = dw, .transpose_a = true, .accumulate = true);
    MEASURE("  product, bias", GEMM, gemm, flops, .a = x, .b = w, .d = y, .bias = matrix(storage, 1, out),
            .transpose_b = true);
    MEASURE("  gradient, bias's too", GEMM, gemm, flops, .a = y, .b = x, .d = dw, .sum_a = matrix(DTYPE_F32, 1, out),
            .transpose_a = true, .accumulate = true);
}

static void measure_attention(const struct model *m)
{
    int64_t dim = m->hidden / m->heads, slots = m->tokens / m->segment, kv_hidden = m->kv_heads * dim;
    struct tensor q = matrix(storage, m->tokens, m->hidden), k = matrix(storage, m->tokens, kv_hidden);
    struct tensor v = matrix(storage, m->tokens, kv_hidden), o = matrix(storage, m->tokens, m->hidden);
    struct tensor d_o = matrix(storage, m->tokens, m->hidden), dq = matrix(storage, m->tokens, m->hidden);
    struct tensor dk = matrix(storage, m->tokens, kv_hidden), dv = matrix(storage, m->tokens, kv_hidden);
    struct tensor lse = matrix(DTYPE_F32, m->heads, m->tokens);
    struct tensor start = integers(slots, slots), length = integers(slots, slots), offset = integers(slots, slots);
    for (int32_t i = 0; i < slots; i++) {
        ((int32_t *)start.data)[i] = i * (int32_t)m->segment;
        ((int32_t *)length.data)[i] = (int32_t)m->segment;
        ((int32_t *)offset.data)[i] = 0;
    }
    struct attention_segments segments = {
        .q_start = start, .q_length = length, .kv_start = start, .kv_length = length, .q_offset = offset};
    char label[64];
    snprintf(label, sizeof label, "%lld x %lld of %lld", (long long)m->heads, (long long)dim, (long long)m->segment);
    double pairs = (double)m->tokens * (double)(m->segment + 1) / 2.0 * (double)m->hidden;
    MEASURE(label, ATTENTION_FORWARD, attention_forward, 4.0 * pairs, .q = q, .k = k, .v = v, .o = o, .lse = lse,
            .segments = segments, .heads = m->heads, .kv_heads = m->kv_heads, .head_dim = dim, .scale = 0.2f,
            .causal = true);
    MEASURE(label, ATTENTION_BACKWARD, attention_backward, 10.0 * pairs, .q = q, .k = k, .v = v, .o = o, .lse = lse,
            .d_o = d_o, .dq = dq, .dk = dk, .dv = dv, .segments = segments, .heads = m->heads, .kv_heads = m->kv_heads,
            .head_dim = dim, .scale = 0.2f, .causal = true);
    const int64_t window = (m->segment + 7) / 8;
    pairs -= (double)m->tokens / (double)m->segment * (double)(m->segment - window) *
             (double)(m->segment - window + 1) / 2.0 * (double)m->hidden;
    snprintf(label, sizeof label, "in a window of %lld", (long long)window);
    MEASURE(label, ATTENTION_FORWARD, attention_forward, 4.0 * pairs, .q = q, .k = k, .v = v, .o = o, .lse = lse,
            .segments = segments, .heads = m->heads, .kv_heads = m->kv_heads, .head_dim = dim, .scale = 0.2f,
            .causal = true, .window = window);
    MEASURE(label, ATTENTION_BACKWARD, attention_backward, 10.0 * pairs, .q = q, .k = k, .v = v, .o = o, .lse = lse,
            .d_o = d_o, .dq = dq, .dk = dk, .dv = dv, .segments = segments, .heads = m->heads, .kv_heads = m->kv_heads,
            .head_dim = dim, .scale = 0.2f, .causal = true, .window = window);
    MEASURE("", ROPE, rope, 0.0, .x = q, .positions = integers(m->tokens, m->segment),
            .table = matrix(DTYPE_F32, m->segment, dim), .head_dim = dim);
    MEASURE("interleaved", ROPE, rope, 0.0, .x = q, .positions = integers(m->tokens, m->segment),
            .table = matrix(DTYPE_F32, m->segment, dim), .head_dim = dim, .interleaved = true);
}

static struct tensor scales(int64_t rows, int64_t cols)
{
    struct tensor scale = matrix(DTYPE_F32, rows, (cols + 3) / 4 * 4);
    scale.cols = cols;
    return scale;
}

/* Both copies of x, with scales of each kind. */
static void measure_quantize(struct tensor x)
{
    int64_t rows = x.rows, cols = x.cols, down = (rows + 127) / 128, across = (cols + 127) / 128;
    const struct {
        const char *label;
        struct quantized_operands to;
    } cases[] = {
        {"tensor, given", {.scale = scales(1, 1), .amax = scales(1, 1)}},
        {"tensor", {.row_scale = scales(1, 1), .column_scale = scales(1, 1)}},
        {"row", {.row_scale = scales(1, rows), .column_scale = scales(1, cols), .rule.scaling = SCALING_ROW}},
        {"1x128",
         {.row_scale = scales(across, rows), .column_scale = scales(down, cols), .rule.scaling = SCALING_1X128}},
        {"128x128",
         {.row_scale = scales(down, across), .column_scale = scales(across, down), .rule.scaling = SCALING_128X128}},
        {"1x32", {.rule.scaling = SCALING_1X32}},
        {"1x16",
         {.row_scale = scales(1, 1), .column_scale = scales(1, 1), .rule = {FORMAT_E2M1, .scaling = SCALING_1X16}}},
        {"1x16, random, hadamard",
         {.row_scale = scales(1, 1),
          .column_scale = scales(1, 1),
          .draw = integers(2, 7),
          .rule = {FORMAT_E2M1, .scaling = SCALING_1X16, .stochastic = true, .hadamard = true}}},
        {"16x16",
         {.row_scale = scales(1, 1), .column_scale = scales(1, 1), .rule = {FORMAT_E2M1, .scaling = SCALING_16X16}}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct quantized_operands to = cases[i].to;
        to.row = matrix(quantization_dtype(&to.rule), rows, cols);
        to.column = matrix(quantization_dtype(&to.rule), cols, rows);
        MEASURE(cases[i].label, QUANTIZE, quantize, 0.0, .x = x, .to = to);
    }
}

static void measure_model(const struct model *m)
{
    printf("tokens %lld, hidden %lld, ffn %lld, vocabulary %lld, %s\n", (long long)m->tokens, (long long)m->hidden,
           (long long)m->ffn, (long long)m->vocab, dtype_name(storage));
    measure_gemm("qkv", m->tokens, m->hidden, m->hidden + 2 * m->hidden / m->heads * m->kv_heads);
    measure_gemm("output", m->tokens, m->hidden, m->hidden);
    measure_gemm("gate, up", m->tokens, m->hidden, 2 * m->ffn);
    measure_gemm("down", m->tokens, m->ffn, m->hidden);
    measure_gemm("head", m->tokens, m->hidden, m->vocab);
    measure_attention(m);

    struct tensor x = matrix(storage, m->tokens, m->hidden), y = matrix(storage, m->tokens, m->hidden);
    struct tensor dx = matrix(storage, m->tokens, m->hidden), weight = matrix(storage, 1, m->hidden);
    struct tensor rstd = matrix(DTYPE_F32, 1, m->tokens), dweight = matrix(DTYPE_F32, 1, m->hidden);
    MEASURE("", RMSNORM_FORWARD, rmsnorm_forward, 0.0, .x = x, .weight = weight, .y = y, .rstd = rstd, .eps = 1e-5f);
    MEASURE("", RMSNORM_BACKWARD, rmsnorm_backward, 0.0, .x = x, .weight = weight, .rstd = rstd, .dy = y,
            .residual = dx, .dx = dx, .dweight = dweight, .accumulate = true);
    struct tensor bias = matrix(storage, 1, m->hidden), mean = matrix(DTYPE_F32, 1, m->tokens);
    MEASURE("", LAYERNORM_FORWARD, layernorm_forward, 0.0, .x = x, .weight = weight, .bias = bias, .y = y, .mean = mean,
            .rstd = rstd, .eps = 1e-5f);
    MEASURE("", LAYERNORM_BACKWARD, layernorm_backward, 0.0, .x = x, .weight = weight, .mean = mean, .rstd = rstd,
            .dy = y, .residual = dx, .dx = dx, .dweight = dweight, .dbias = matrix(DTYPE_F32, 1, m->hidden),
            .accumulate = true);

    struct tensor gate_up = matrix(storage, m->tokens, 2 * m->ffn), act = matrix(storage, m->tokens, m->ffn);
    MEASURE("", SWIGLU_FORWARD, swiglu_forward, 0.0, .x = gate_up, .y = act);
    MEASURE("", SWIGLU_BACKWARD, swiglu_backward, 0.0, .x = gate_up, .dy = act,
            .dx = matrix(storage, m->tokens, 2 * m->ffn));
    struct tensor wide = matrix(storage, m->tokens, m->ffn), d_wide = matrix(storage, m->tokens, m->ffn);
    for (int form = 0; form < 2; form++) {
        const char *label = form == 0 ? "erf" : "tanh";
        MEASURE(label, GELU_FORWARD, gelu_forward, 0.0, .x = wide, .y = act, .tanh_form = form != 0);
        MEASURE(label, GELU_BACKWARD, gelu_backward, 0.0, .x = wide, .dy = act, .dx = d_wide, .tanh_form = form != 0);
    }

    struct tensor tokens = integers(m->tokens, m->vocab), table = matrix(storage, m->vocab, m->hidden);
    MEASURE("", EMBEDDING_FORWARD, embedding_forward, 0.0, .tokens = tokens, .weight = table, .y = y);
    MEASURE("scaled", EMBEDDING_FORWARD, embedding_forward, 0.0, .tokens = tokens,
            .scale = matrix(DTYPE_F32, 1, m->tokens), .weight = table, .y = y);
    MEASURE("", EMBEDDING_BACKWARD, embedding_backward, 0.0, .tokens = tokens, .dy = y,
            .dweight = matrix(DTYPE_F32, m->vocab, m->hidden), .padding = -1, .accumulate = true);

    struct tensor logits = matrix(storage, m->tokens, m->vocab), lse = matrix(DTYPE_F32, 1, m->tokens);
    MEASURE("", XENT_STAT, xent_stat, 0.0, .logits = logits, .labels = tokens, .loss = matrix(DTYPE_F32, 1, m->tokens),
            .lse = lse, .total = matrix(DTYPE_F64, 1, 2));
    MEASURE("", XENT_GRAD, xent_grad, 0.0, .logits = logits, .labels = tokens, .lse = lse);
    MEASURE("", XENT_BOTH, xent_both, 0.0, .logits = logits, .labels = tokens, .loss = matrix(DTYPE_F32, 1, m->tokens),
            .total = matrix(DTYPE_F64, 1, 2));

    int64_t n = 4 * (4 * m->hidden * m->hidden + 3 * m->hidden * m->ffn); /* four blocks of parameters */
    struct tensor master = matrix(DTYPE_F32, 1, n), gradient = matrix(DTYPE_F32, 1, n), v = matrix(DTYPE_F32, 1, n);
    struct tensor high = matrix(DTYPE_BF16, 1, n), low = matrix(DTYPE_I16, 1, n), one = matrix(DTYPE_F32, 1, 1),
                  step = matrix(DTYPE_F32, 1, 3);
    LAUNCH(&stream, FILL, fill, .x = v, .value = 0.01);
    LAUNCH(&stream, FILL, fill, .x = step, .value = 0.5);
    LAUNCH(&stream, FILL, fill, .x = one, .value = 1.0);
    MEASURE("", SUM_SQUARES, sum_squares, 0.0, .x = gradient, .sum = matrix(DTYPE_F64, 1, 1));
    MEASURE("", ADAMW, adamw, 0.0, .weight = high, .low = low, .gradient = gradient, .m = matrix(DTYPE_F32, 1, n),
            .v = v, .step = step, .scale = one, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1,
            .lr_factor = 1.0);
    MEASURE("", SPLIT, split, 0.0, .from = master, .high = high, .low = low);
    MEASURE("", JOIN, join, 0.0, .high = high, .low = low, .to = master);
    MEASURE("f32", COPY, copy, 0.0, .from = master, .to = gradient);
    MEASURE("f32", FILL, fill, 0.0, .x = gradient, .value = 0.0);
    measure_quantize(x);
}

int main(int count, char **arguments)
{
    static const struct model models[] = {{4096, 128, 336, 4, 4, 256, 256}, {4096, 512, 1408, 8, 8, 256, 1024}};
    executor = cpu_executor_create(count > 1 ? atoi(arguments[1]) : 1);
    stream = (struct stream){.executor = executor};
    if (count > 2 && strcmp(arguments[2], "bf16") == 0)
        storage = DTYPE_BF16;
    if (count > 3)
        part = arguments[3];
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        measure_model(&models[i]);
    executor->class->destroy(executor);
    return 0;
}
