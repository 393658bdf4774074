/* op_check accepts right arguments of every op. It refuses each tensor that is absent, of another element type, or one
 * row or column larger, unless the op allows it, and names the tensor and both sizes. */
#include "check.h"

#include "core/group.h"
#include "core/op.h"

static char memory[8]; /* where all tensors lie: op_check reads no elements */
static struct group group = {.name = "three", .size = 3};

/* Letters of a sample have sizes that differ. Tensors that may be bf16 are, so each f32 one is to refuse bf16. `free`:
 * "NAME-" the tensor may be absent, "NAME.rows" and "NAME.cols" may be any number, "NAME.type" any type, "all.type" any
 * one type. */
struct sample {
    enum op op;
    const char *free;
    const void *args;
};

#define TENSOR(dtype, rows, cols)                                                                                      \
    {                                                                                                                  \
        memory, DTYPE_##dtype, rows, cols, cols                                                                        \
    }
#define SAMPLE(NAME, name, free, ...)                                                                                  \
    {                                                                                                                  \
        OP_##NAME, " " free " ", &(const struct name##_args)                                                           \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }
#define SEGMENTS                                                                                                       \
    {                                                                                                                  \
        .q_start = TENSOR(I32, 1, 3), .q_length = TENSOR(I32, 1, 3), .kv_start = TENSOR(I32, 1, 3),                    \
        .kv_length = TENSOR(I32, 1, 3), .q_offset = TENSOR(I32, 1, 3)                                                  \
    }
#define QUANTIZED(cols) /* of 8 bits, with a given scale */                                                            \
    {                                                                                                                  \
        .row = TENSOR(E4M3, 7, cols), .column = TENSOR(E4M3, cols, 9), .scale = TENSOR(F32, 1, 1),                     \
        .amax = TENSOR(F32, 1, 1)                                                                                      \
    }
#define QUANTIZED_FREE "to.row- to.column- to.column.cols to.amax- "
#define REMADE_FREE "y_to.row- y_to.column- y_to.column.cols y_to.amax- "
#define BLOCKS                                                                                                         \
    {                                                                                                                  \
        .format = FORMAT_E4M3, .scaling = SCALING_128X128                                                              \
    }

static const struct sample samples[] = {
    SAMPLE(GEMM, gemm, "c- bias- sum_a-", .a = TENSOR(BF16, 7, 5), .b = TENSOR(BF16, 5, 11), .c = TENSOR(BF16, 7, 11),
           .d = TENSOR(BF16, 7, 11), .bias = TENSOR(BF16, 1, 11), .sum_a = TENSOR(F32, 1, 7)),
    SAMPLE(GEMM, gemm, "bias- sum_a-", .a = TENSOR(BF16, 5, 7), .b = TENSOR(BF16, 11, 5), .d = TENSOR(BF16, 7, 11),
           .bias = TENSOR(BF16, 1, 11), .sum_a = TENSOR(F32, 1, 7), .transpose_a = true, .transpose_b = true,
           .accumulate = true),
    SAMPLE(GEMM, gemm, "", .a = TENSOR(E4M3, 7, 5), .b = TENSOR(E5M2, 11, 5), .d = TENSOR(BF16, 7, 11),
           .scale_a = TENSOR(F32, 1, 1), .scale_b = TENSOR(F32, 1, 11), .scaling_b = SCALING_ROW, .transpose_b = true),
    SAMPLE(EMBEDDING_FORWARD, embedding_forward, "scale- weight.rows", .tokens = TENSOR(I32, 1, 7),
           .scale = TENSOR(F32, 1, 7), .weight = TENSOR(BF16, 11, 5), .y = TENSOR(BF16, 7, 5)),
    SAMPLE(EMBEDDING_FORWARD, embedding_forward, "weight.rows ends- ends.cols", .tokens = TENSOR(I32, 1, 7),
           .weight = TENSOR(BF16, 11, 5), .y = TENSOR(BF16, 7, 5), .ends = TENSOR(I32, 1, 3)),
    SAMPLE(EMBEDDING_BACKWARD, embedding_backward, "scale- dweight.rows", .tokens = TENSOR(I32, 1, 7),
           .scale = TENSOR(F32, 1, 7), .dy = TENSOR(BF16, 7, 5), .dweight = TENSOR(BF16, 11, 5)),
    SAMPLE(RMSNORM_FORWARD, rmsnorm_forward, "", .x = TENSOR(BF16, 7, 5), .weight = TENSOR(BF16, 1, 5),
           .y = TENSOR(BF16, 7, 5), .rstd = TENSOR(F32, 1, 7)),
    SAMPLE(RMSNORM_BACKWARD, rmsnorm_backward, "residual- dx- dweight-", .x = TENSOR(BF16, 7, 5),
           .weight = TENSOR(BF16, 1, 5), .rstd = TENSOR(F32, 1, 7), .dy = TENSOR(BF16, 7, 5),
           .residual = TENSOR(BF16, 7, 5), .dx = TENSOR(BF16, 7, 5), .dweight = TENSOR(F32, 1, 5)),
    SAMPLE(LAYERNORM_FORWARD, layernorm_forward, "bias-", .x = TENSOR(BF16, 7, 5), .weight = TENSOR(BF16, 1, 5),
           .bias = TENSOR(BF16, 1, 5), .y = TENSOR(BF16, 7, 5), .mean = TENSOR(F32, 1, 7), .rstd = TENSOR(F32, 1, 7)),
    SAMPLE(LAYERNORM_BACKWARD, layernorm_backward, "residual- dbias- sum-", .x = TENSOR(BF16, 7, 5),
           .weight = TENSOR(BF16, 1, 5), .mean = TENSOR(F32, 1, 7), .rstd = TENSOR(F32, 1, 7), .dy = TENSOR(BF16, 7, 5),
           .residual = TENSOR(BF16, 7, 5), .dx = TENSOR(BF16, 7, 5), .dweight = TENSOR(F32, 1, 5),
           .dbias = TENSOR(F32, 1, 5), .sum = TENSOR(F32, 1, 5)),
    SAMPLE(HEAD_NORM_FORWARD, head_norm_forward, "", .x = TENSOR(BF16, 7, 12), .weight = TENSOR(BF16, 1, 4),
           .y = TENSOR(BF16, 7, 12), .rstd = TENSOR(F32, 3, 7), .head_dim = 4),
    SAMPLE(HEAD_NORM_BACKWARD, head_norm_backward, "dx- dweight-", .x = TENSOR(BF16, 7, 12),
           .weight = TENSOR(BF16, 1, 4), .rstd = TENSOR(F32, 3, 7), .dy = TENSOR(BF16, 7, 12),
           .dx = TENSOR(BF16, 7, 12), .dweight = TENSOR(F32, 1, 4), .head_dim = 4),
    SAMPLE(ROUTE_FORWARD, route_forward, "logits.cols", .logits = TENSOR(F32, 7, 5), .experts = TENSOR(I32, 7, 2),
           .weights = TENSOR(F32, 7, 2)),
    SAMPLE(ROUTE_BACKWARD, route_backward, "", .logits = TENSOR(F32, 6, 5), .experts = TENSOR(I32, 6, 2),
           .weights = TENSOR(F32, 6, 2), .d_weights = TENSOR(F32, 6, 2), .labels = TENSOR(I32, 1, 6),
           .load = TENSOR(F32, 3, 6), .d_logits = TENSOR(BF16, 6, 5)),
    SAMPLE(EXPERT_LOAD, expert_load, "experts.cols load.cols", .experts = TENSOR(I32, 6, 2),
           .labels = TENSOR(I32, 1, 6), .load = TENSOR(F32, 3, 6)),
    SAMPLE(EXPERT_ORDER, expert_order, "ends.cols", .experts = TENSOR(I32, 7, 2), .places = TENSOR(I32, 7, 2),
           .tokens = TENSOR(I32, 1, 14), .ends = TENSOR(I32, 1, 5)),
    SAMPLE(EXPERT_ORDER, expert_order, "", .experts = TENSOR(I32, 7, 2), .places = TENSOR(I32, 7, 2),
           .tokens = TENSOR(I32, 1, 7), .ends = TENSOR(I32, 1, 1), .first = 3),
    SAMPLE(EXPERT_GEMM, expert_gemm, "", .a = TENSOR(BF16, 7, 11), .b = TENSOR(BF16, 33, 13), .ends = TENSOR(I32, 1, 3),
           .d = TENSOR(BF16, 7, 13)),
    SAMPLE(EXPERT_GEMM, expert_gemm, "", .a = TENSOR(BF16, 7, 11), .b = TENSOR(BF16, 39, 11), .ends = TENSOR(I32, 1, 3),
           .d = TENSOR(BF16, 7, 13), .transpose_b = true),
    SAMPLE(EXPERT_GRADIENT, expert_gradient, "", .dy = TENSOR(BF16, 7, 13), .x = TENSOR(BF16, 7, 11),
           .ends = TENSOR(I32, 1, 3), .dweight = TENSOR(BF16, 39, 11)),
    SAMPLE(COMBINE_FORWARD, combine_forward, "x.rows weights- addend-", .x = TENSOR(BF16, 14, 5),
           .places = TENSOR(I32, 7, 2), .weights = TENSOR(F32, 7, 2), .addend = TENSOR(BF16, 7, 5),
           .y = TENSOR(BF16, 7, 5)),
    SAMPLE(COMBINE_BACKWARD, combine_backward, "", .dy = TENSOR(BF16, 7, 5), .x = TENSOR(BF16, 14, 5),
           .places = TENSOR(I32, 7, 2), .weights = TENSOR(F32, 7, 2), .dx = TENSOR(BF16, 14, 5),
           .d_weights = TENSOR(F32, 7, 2)),
    SAMPLE(ROPE, rope, "table.rows", .x = TENSOR(BF16, 7, 12), .positions = TENSOR(I32, 1, 7),
           .table = TENSOR(F32, 100, 4), .head_dim = 4),
    SAMPLE(ATTENTION_FORWARD, attention_forward, "", .q = TENSOR(BF16, 7, 24), .k = TENSOR(BF16, 9, 8),
           .v = TENSOR(BF16, 9, 8), .o = TENSOR(BF16, 7, 24), .lse = TENSOR(F32, 6, 7), .segments = SEGMENTS,
           .heads = 6, .kv_heads = 2, .head_dim = 4),
    SAMPLE(ATTENTION_BACKWARD, attention_backward, "", .q = TENSOR(BF16, 7, 24), .k = TENSOR(BF16, 9, 8),
           .v = TENSOR(BF16, 9, 8), .o = TENSOR(BF16, 7, 24), .lse = TENSOR(F32, 6, 7), .d_o = TENSOR(BF16, 7, 24),
           .dq = TENSOR(BF16, 7, 24), .dk = TENSOR(BF16, 9, 8), .dv = TENSOR(BF16, 9, 8), .segments = SEGMENTS,
           .heads = 6, .kv_heads = 2, .head_dim = 4),
    SAMPLE(ATTENTION_BACKWARD, attention_backward, "table.rows", .q = TENSOR(BF16, 7, 24), .k = TENSOR(BF16, 7, 8),
           .v = TENSOR(BF16, 7, 8), .o = TENSOR(BF16, 7, 24), .lse = TENSOR(F32, 6, 7), .d_o = TENSOR(BF16, 7, 24),
           .dq = TENSOR(BF16, 7, 24), .dk = TENSOR(BF16, 7, 8), .dv = TENSOR(BF16, 7, 8), .segments = SEGMENTS,
           .heads = 6, .kv_heads = 2, .head_dim = 4, .positions = TENSOR(I32, 1, 7), .table = TENSOR(F32, 100, 4)),
    SAMPLE(ATTENTION_MERGE, attention_merge, "to-", .part_o = TENSOR(BF16, 7, 24), .part_lse = TENSOR(F32, 6, 7),
           .o = TENSOR(F32, 7, 24), .lse = TENSOR(F32, 6, 7), .to = TENSOR(BF16, 7, 24), .heads = 6, .head_dim = 4),
    SAMPLE(SWIGLU_FORWARD, swiglu_forward, QUANTIZED_FREE "y-", .x = TENSOR(BF16, 7, 10), .y = TENSOR(BF16, 7, 5),
           .to = QUANTIZED(5)),
    SAMPLE(SWIGLU_FORWARD, swiglu_forward, "ends- ends.cols", .x = TENSOR(BF16, 7, 10), .y = TENSOR(BF16, 7, 5),
           .ends = TENSOR(I32, 1, 3)),
    SAMPLE(SWIGLU_BACKWARD, swiglu_backward, "ends- ends.cols", .x = TENSOR(BF16, 7, 10), .dy = TENSOR(BF16, 7, 5),
           .dx = TENSOR(BF16, 7, 10), .ends = TENSOR(I32, 1, 3)),
    SAMPLE(SWIGLU_BACKWARD, swiglu_backward, QUANTIZED_FREE "dx-", .x = TENSOR(BF16, 7, 10), .dy = TENSOR(BF16, 7, 5),
           .dx = TENSOR(BF16, 7, 10), .to = QUANTIZED(10)),
    SAMPLE(SWIGLU_BACKWARD, swiglu_backward, REMADE_FREE, .x = TENSOR(BF16, 7, 10), .dy = TENSOR(BF16, 7, 5),
           .dx = TENSOR(BF16, 7, 10), .y_to = QUANTIZED(5)),
    SAMPLE(GELU_FORWARD, gelu_forward, QUANTIZED_FREE "y-", .x = TENSOR(BF16, 7, 5), .y = TENSOR(BF16, 7, 5),
           .to = QUANTIZED(5)),
    SAMPLE(GELU_BACKWARD, gelu_backward, QUANTIZED_FREE "dx- sum-", .x = TENSOR(BF16, 7, 5), .dy = TENSOR(BF16, 7, 5),
           .dx = TENSOR(BF16, 7, 5), .to = QUANTIZED(5), .sum = TENSOR(F32, 1, 5)),
    SAMPLE(GELU_BACKWARD, gelu_backward, REMADE_FREE, .x = TENSOR(BF16, 7, 5), .dy = TENSOR(BF16, 7, 5),
           .dx = TENSOR(BF16, 7, 5), .y_to = QUANTIZED(5)),
    SAMPLE(TANH_FORWARD, tanh_forward, "", .x = TENSOR(BF16, 7, 5), .y = TENSOR(BF16, 7, 5)),
    SAMPLE(TANH_BACKWARD, tanh_backward, "", .y = TENSOR(BF16, 7, 5), .dy = TENSOR(BF16, 7, 5),
           .dx = TENSOR(BF16, 7, 5)),
    SAMPLE(XENT_STAT, xent_stat, "logits.cols", .logits = TENSOR(BF16, 7, 11), .labels = TENSOR(I32, 1, 7),
           .loss = TENSOR(F32, 1, 7), .lse = TENSOR(F32, 1, 7), .total = TENSOR(F64, 1, 2)),
    SAMPLE(XENT_PART, xent_part, "logits.cols", .logits = TENSOR(BF16, 7, 11), .labels = TENSOR(I32, 1, 7),
           .statistics = TENSOR(F32, 3, 7)),
    SAMPLE(XENT_MERGE, xent_merge, "", .statistics = TENSOR(F32, 6, 7), .labels = TENSOR(I32, 1, 7),
           .loss = TENSOR(F32, 1, 7), .lse = TENSOR(F32, 1, 7), .total = TENSOR(F64, 1, 2)),
    SAMPLE(XENT_GRAD, xent_grad, "logits.cols", .logits = TENSOR(BF16, 7, 11), .labels = TENSOR(I32, 1, 7),
           .lse = TENSOR(F32, 1, 7)),
    SAMPLE(XENT_BOTH, xent_both, "logits.cols", .logits = TENSOR(BF16, 7, 11), .labels = TENSOR(I32, 1, 7),
           .loss = TENSOR(F32, 1, 7), .total = TENSOR(F64, 1, 2)),
    SAMPLE(MSE, mse, "gradient- targets.rows", .predictions = TENSOR(BF16, 7, 3), .labels = TENSOR(I32, 1, 7),
           .targets = TENSOR(F32, 11, 3), .gradient = TENSOR(BF16, 7, 3), .loss = TENSOR(F32, 1, 7),
           .total = TENSOR(F64, 1, 2)),
    SAMPLE(CLASS_WEIGHT, class_weight, "gradient-", .labels = TENSOR(I32, 1, 7), .weights = TENSOR(F32, 1, 3),
           .loss = TENSOR(F32, 1, 7), .gradient = TENSOR(BF16, 7, 3), .total = TENSOR(F64, 1, 2)),
    SAMPLE(COPY, copy, "all.type", .from = TENSOR(BF16, 7, 5), .to = TENSOR(BF16, 7, 5)),
    SAMPLE(SCATTER, scatter, "to.rows", .from = TENSOR(BF16, 7, 5), .rows = TENSOR(I32, 1, 7),
           .to = TENSOR(BF16, 11, 5)),
    SAMPLE(TRANSPOSE, transpose, "", .from = TENSOR(E4M3, 7, 5), .to = TENSOR(E4M3, 5, 7)),
    SAMPLE(SPLIT, split, "low-", .from = TENSOR(F32, 1, 5), .high = TENSOR(BF16, 1, 5), .low = TENSOR(I16, 1, 5)),
    SAMPLE(JOIN, join, "low-", .high = TENSOR(BF16, 1, 5), .low = TENSOR(I16, 1, 5), .to = TENSOR(F32, 1, 5)),
    SAMPLE(FILL, fill, "x.rows x.cols", .x = TENSOR(BF16, 7, 5)),
    SAMPLE(ADD, add, "", .from = TENSOR(BF16, 7, 5), .to = TENSOR(BF16, 7, 5)),
    SAMPLE(MULTIPLY, multiply, "x.rows x.cols", .x = TENSOR(BF16, 7, 5), .factor = 2),
    SAMPLE(DROPOUT, dropout, "", .x = TENSOR(BF16, 7, 5), .keys = TENSOR(I32, 1, 7), .y = TENSOR(BF16, 7, 5),
           .probability = 0.5),
    SAMPLE(EXACT_ADD, exact_add, "", .from = TENSOR(F32, 1, 5), .to = TENSOR(F64, 1, 5), .quantum = 1, .most = 1),
    SAMPLE(EXACT_READ, exact_read, "", .from = TENSOR(F64, 1, 5), .to = TENSOR(F32, 1, 5)),
    SAMPLE(QUANTIZE, quantize, QUANTIZED_FREE "sum-", .x = TENSOR(BF16, 7, 5), .to = QUANTIZED(5),
           .sum = TENSOR(F32, 1, 5)),
    SAMPLE(QUANTIZE, quantize, "to.row- to.column- to.column.cols to.whole_amax-", .x = TENSOR(BF16, 7, 5),
           .to = {.row = TENSOR(E4M3, 7, 5),
                  .column = TENSOR(E4M3, 5, 9),
                  .row_scale = TENSOR(F32, 1, 1),
                  .column_scale = TENSOR(F32, 1, 1),
                  .whole_amax = TENSOR(F32, 1, 1)}),
    SAMPLE(QUANTIZE, quantize, "to.row- to.column- to.column.cols", .x = TENSOR(BF16, 600, 500),
           .to = {.row = TENSOR(E4M3, 600, 500),
                  .column = TENSOR(E4M3, 500, 608),
                  .rule = BLOCKS,
                  .row_scale = {memory, DTYPE_F32, 5, 4, 4},
                  .column_scale = {memory, DTYPE_F32, 4, 5, 8}}),
    SAMPLE(QUANTIZE, quantize, "to.row- to.column- to.column.cols", .x = TENSOR(BF16, 7, 5),
           .to = {.row = TENSOR(BF16, 7, 5),
                  .column = TENSOR(BF16, 5, 9),
                  .row_scale = TENSOR(F32, 1, 1),
                  .column_scale = TENSOR(F32, 1, 1),
                  .draw = TENSOR(I32, 1, 2),
                  .rule = {.format = FORMAT_E2M1, .scaling = SCALING_16X16, .stochastic = true}}),
    SAMPLE(QUANTIZATION_STATISTIC, quantization_statistic, "x.rows x.cols", .x = TENSOR(BF16, 7, 5),
           .scale = TENSOR(F32, 1, 1), .result = TENSOR(F64, 1, STATISTICS)),
    SAMPLE(DELAYED_SCALE, delayed_scale, "history.cols", .amax = TENSOR(F32, 7, 1), .history = TENSOR(F32, 7, 5),
           .scale = TENSOR(F32, 7, 1), .largest = TENSOR(F32, 7, 1)),
    SAMPLE(SUM_SQUARES, sum_squares, "x.rows x.cols", .x = TENSOR(BF16, 7, 5), .sum = TENSOR(F64, 1, 1)),
    SAMPLE(SUM_SQUARES, sum_squares, "", .x = TENSOR(F32, 1, SQUARES_BLOCK), .sum = TENSOR(F64, 1, SQUARES_PARTS),
           .quantum = 1),
    SAMPLE(GRADIENT_SCALE, gradient_scale, "squares.cols", .squares = TENSOR(F64, 1, 5), .total = TENSOR(F64, 1, 2),
           .scale = TENSOR(F32, 1, 1), .norm = TENSOR(F32, 1, 1), .updates = TENSOR(F64, 1, 1),
           .corrections = TENSOR(F32, 1, 2)),
    SAMPLE(ADAMW, adamw, "", .weight = TENSOR(BF16, 1, 5), .low = TENSOR(I16, 1, 5), .gradient = TENSOR(BF16, 1, 5),
           .m = TENSOR(F32, 1, 5), .v = TENSOR(F32, 1, 5), .step = TENSOR(F32, 1, ADAMW_STEP_COUNT),
           .scale = TENSOR(F32, 1, 1)),
    SAMPLE(AFFINE, affine, "squares-", .from = TENSOR(BF16, 7, 5), .squares = TENSOR(F64, 1, 1),
           .to = TENSOR(BF16, 7, 5)),
    SAMPLE(MOMENTUM, momentum, "", .gradient = TENSOR(BF16, 1, 5), .m = TENSOR(BF16, 1, 5),
           .update = TENSOR(BF16, 1, 5), .scale = TENSOR(F32, 1, 1)),
    SAMPLE(MUON, muon, "low-", .weight = TENSOR(BF16, 1, 5), .low = TENSOR(I16, 1, 5), .update = TENSOR(BF16, 1, 5),
           .rate = TENSOR(F32, 1, 1), .scale = TENSOR(F32, 1, 1)),
    SAMPLE(ALL_REDUCE, all_reduce, "scratch-", .group = &group, .x = TENSOR(BF16, 2, 6), .scratch = TENSOR(BF16, 3, 4)),
    SAMPLE(REDUCE_SCATTER, reduce_scatter, "scratch-", .group = &group, .in = TENSOR(BF16, 3, 5),
           .out = TENSOR(BF16, 1, 5), .scratch = TENSOR(BF16, 3, 5)),
    SAMPLE(ALL_GATHER, all_gather, "all.type", .group = &group, .in = TENSOR(BF16, 1, 5), .out = TENSOR(BF16, 3, 5)),
    SAMPLE(BROADCAST, broadcast, "all.type x.rows x.cols x.type", .group = &group, .x = TENSOR(BF16, 7, 5)),
    SAMPLE(ALL_TO_ALL, all_to_all, "all.type", .group = &group, .in = TENSOR(BF16, 3, 5), .out = TENSOR(BF16, 3, 5)),
    SAMPLE(SHIFT, shift, "all.type", .group = &group, .in = TENSOR(BF16, 1, 5), .out = TENSOR(BF16, 1, 5)),
    SAMPLE(
        SEND_RECEIVE, send_receive,
        "to_next- to_next.rows to_next.cols to_next.type from_previous- from_previous.rows from_previous.cols "
        "from_previous.type to_previous- to_previous.rows to_previous.cols to_previous.type from_next- from_next.rows "
        "from_next.cols from_next.type all.type",
        .group = &group, .to_next = TENSOR(BF16, 2, 5), .from_previous = TENSOR(BF16, 2, 5),
        .to_previous = TENSOR(BF16, 3, 5), .from_next = TENSOR(BF16, 3, 5)),
};

/* Are a sample's arguments with `changed` in the place of a tensor refused, unless the sample has that tensor's
 * `suffix` among what is free? */
static void expect(const struct sample *sample, int field, const char *suffix, struct tensor changed)
{
    const struct op_info *info = op_info(sample->op);
    char args[1024], name[64], what[128];
    memcpy(args, sample->args, info->args_bytes);
    memcpy(args + info->fields[field].offset, &changed, sizeof changed);
    snprintf(name, sizeof name, " %s%s ", info->fields[field].name, suffix);
    snprintf(what, sizeof what, "%s, sample %d: %s", info->name, (int)(sample - samples), name);
    check_report(__FILE__, __LINE__, (op_check(sample->op, args) == NULL) == (strstr(sample->free, name) != NULL),
                 what);
}

/* A tensor of few bits may be one that takes other floats; f32 may be f64 (the oracle's). */
static void test_types(const struct sample *sample, int field, struct tensor x)
{
    const enum dtype had = x.dtype;
    const bool integer = had == DTYPE_I32 || had == DTYPE_I16, wide = had == DTYPE_F32 || had == DTYPE_F64;
    for (int d = 0; d < DTYPE_COUNT; d++) {
        x.dtype = (enum dtype)d;
        if (d != (int)had && (integer || d == DTYPE_I32 || d == DTYPE_I16 || (wide && d != DTYPE_F64)))
            expect(sample, field, ".type", x);
    }
}

/* Integers in the place of all tensors that have the first one's type: "all.type" where they are free. */
static void test_all_types(const struct sample *sample)
{
    const struct op_info *info = op_info(sample->op);
    char args[1024];
    memcpy(args, sample->args, info->args_bytes);
    for (int i = 0; i < info->field_count; i++) {
        struct tensor *x = (struct tensor *)(args + info->fields[i].offset);
        if (tensor_present(x) && x->dtype == op_tensor(sample->op, sample->args, 0)->dtype)
            x->dtype = x->dtype == DTYPE_I32 ? DTYPE_I16 : DTYPE_I32;
    }
    check_report(__FILE__, __LINE__,
                 (op_check(sample->op, args) == NULL) == (strstr(sample->free, " all.type ") != NULL), info->name);
}

static void test_sample(const struct sample *sample)
{
    const struct op_info *info = op_info(sample->op);
    const char *wrong = op_check(sample->op, sample->args);
    if (!check_report(__FILE__, __LINE__, wrong == NULL, info->name))
        fprintf(stderr, "    %s\n", wrong);
    test_all_types(sample);
    for (int i = 0; i < info->field_count; i++) {
        const struct tensor x = *op_tensor(sample->op, sample->args, i);
        if (!tensor_present(&x))
            continue;
        test_types(sample, i, x);
        expect(sample, i, "-", (struct tensor){0});
        expect(sample, i, ".rows", (struct tensor){x.data, x.dtype, x.rows + 1, x.cols, x.stride});
        expect(sample, i, ".cols", (struct tensor){x.data, x.dtype, x.rows, x.cols + 1, x.stride + 1});
        if (x.rows > 1)
            expect(sample, i, ": rows overlap", (struct tensor){x.data, x.dtype, x.rows, x.cols, x.cols - 1});
        if (x.rows > 1 && info->collective)
            expect(sample, i, ": rows apart", (struct tensor){x.data, x.dtype, x.rows, x.cols, x.stride + 1});
    }
}

/* Rules of numbers, and one message. */
static void test_numbers(void)
{
    struct rope_args rope = {
        .x = TENSOR(BF16, 7, 12), .positions = TENSOR(I32, 1, 8), .table = TENSOR(F32, 9, 4), .head_dim = 4};
    CHECK_STRING(op_check(OP_ROPE, &rope), "positions has 8 columns, not T = 7");
    rope.positions.cols = 7, rope.x.cols = rope.x.stride = 13;
    CHECK_STRING(op_check(OP_ROPE, &rope), "x has 13 columns, and ND is a multiple of 4");
    rope.x = (struct tensor)TENSOR(E4M3, 7, 12);
    CHECK_STRING(op_check(OP_ROPE, &rope), "x is e4m3, not f32 or bf16 or f64");
    rope.x.data = NULL;
    CHECK_STRING(op_check(OP_ROPE, &rope), "x is absent");
    rope.head_dim = 0;
    CHECK_STRING(op_check(OP_ROPE, &rope), "head_dim is 0");
    rope = (struct rope_args){
        .x = TENSOR(BF16, 7, 9), .positions = TENSOR(I32, 1, 7), .table = TENSOR(F32, 9, 3), .head_dim = 3};
    CHECK(op_check(OP_ROPE, &rope) != NULL); /* odd */
    struct broadcast_args broadcast = {.group = &group, .x = TENSOR(F32, 1, 5), .root = 3};
    CHECK(op_check(OP_BROADCAST, &broadcast) != NULL);
    broadcast.root = 2;
    CHECK(op_check(OP_BROADCAST, &broadcast) == NULL);
    broadcast.group = NULL;
    CHECK_STRING(op_check(OP_BROADCAST, &broadcast), "the group is absent");
    struct xent_grad_args grad = {
        .logits = TENSOR(F32, 7, 11), .labels = TENSOR(I32, 1, 7), .lse = TENSOR(F32, 1, 7), .origin = -1};
    CHECK(op_check(OP_XENT_GRAD, &grad) != NULL);
    struct expert_order_args order = {.experts = TENSOR(I32, 7, 2),
                                      .places = TENSOR(I32, 7, 2),
                                      .tokens = TENSOR(I32, 1, 14),
                                      .ends = TENSOR(I32, 1, 5),
                                      .first = -1};
    CHECK(op_check(OP_EXPERT_ORDER, &order) != NULL);
    struct swiglu_forward_args swiglu = {
        .x = TENSOR(BF16, 7, 10), .y = TENSOR(BF16, 7, 5), .ends = TENSOR(I32, 1, 3), .to = QUANTIZED(5)};
    CHECK(op_check(OP_SWIGLU_FORWARD, &swiglu) != NULL);
    swiglu.ends = (struct tensor){0};
    CHECK(op_check(OP_SWIGLU_FORWARD, &swiglu) == NULL);
    struct all_reduce_args sum = {.group = &group, .x = TENSOR(BF16, 1, 5), .maximum = true};
    CHECK(op_check(OP_ALL_REDUCE, &sum) != NULL); /* no maximum of bf16 */
}

int main(void)
{
    bool seen[OP_COUNT] = {false};
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        test_sample(&samples[i]);
        seen[samples[i].op] = true;
    }
    for (int op = 0; op < OP_COUNT; op++)
        check_report(__FILE__, __LINE__, seen[op], op_info((enum op)op)->name);
    test_numbers();
    return check_end();
}
