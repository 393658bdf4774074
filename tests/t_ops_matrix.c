/* Products, quantization and embedding of the CPU executor against the oracle. */
#include "ops.h"

enum addend { ADDEND_NONE, ADDEND_SEPARATE, ADDEND_IN_PLACE, ADDEND_ACCUMULATE, ADDEND_COUNT };

static void test_gemm_case(const int64_t *mnk, enum dtype in_a, enum dtype in_b, enum dtype out, int transposes,
                           enum addend addend, bool strided)
{
    bool ta = transposes & 1, tb = transposes & 2;
    int64_t m = mnk[0], n = mnk[1], k = mnk[2];
    struct trial *trial =
        trial_create("m %d n %d k %d, a %s%s b %s%s, addend %d%s", (int)m, (int)n, (int)k, dtype_name(in_a),
                     ta ? "'" : "", dtype_name(in_b), tb ? "'" : "", (int)addend, strided ? ", strided" : "");
    struct gemm_args args = {.transpose_a = ta, .transpose_b = tb, .accumulate = addend == ADDEND_ACCUMULATE};
    args.a = trial_matrix(trial, in_a, ta ? k : m, ta ? m : k, strided, 1.0);
    args.b = trial_matrix(trial, in_b, tb ? n : k, tb ? k : n, strided, 1.0);
    args.d = trial_matrix(trial, out, m, n, strided, 1.0);
    if (addend == ADDEND_SEPARATE)
        args.c = trial_matrix(trial, out, m, n, strided, 1.0);
    if (addend == ADDEND_IN_PLACE)
        args.c = args.d;
    if (dtype_size(in_a) == 1)
        args.scale_a = trial_normal(trial, DTYPE_F32, 1, 1, 0.1);
    if (dtype_size(in_b) == 1)
        args.scale_b = trial_normal(trial, DTYPE_F32, 1, 1, 10.0);
    check_op(trial, OP_GEMM, &args);
}

/* A GPU's 8-bit products take whole 16-byte rows alone and add with fewer bits than fp32 has: not these bounds' case.
 */
static bool has_product(enum dtype in)
{
    return !on_device || dtype_size(in) > 1;
}

static void test_gemm(void)
{
    static const int64_t shapes[6][3] = {{1, 1, 1},     {7, 5, 33},     {64, 64, 64},
                                         {129, 33, 20}, {5, 129, 1000}, {129, 257, 64}};
    static const enum dtype types[3][2] = {{DTYPE_F32, DTYPE_F32}, {DTYPE_BF16, DTYPE_BF16}, {DTYPE_BF16, DTYPE_F32}};
    static const enum dtype eight_bit[3][3] = {
        {DTYPE_E4M3, DTYPE_E4M3, DTYPE_F32}, {DTYPE_E4M3, DTYPE_E4M3, DTYPE_BF16}, {DTYPE_E5M2, DTYPE_E4M3, DTYPE_F32}};
    for (int64_t s = 0; s < COUNT(shapes); s++)
        for (int transposes = 0; transposes < 4; transposes++)
            for (int addend = 0; addend < ADDEND_COUNT; addend++) {
                for (int64_t t = 0; t < COUNT(types); t++)
                    test_gemm_case(shapes[s], types[t][0], types[t][0], types[t][1], transposes, addend,
                                   (s + transposes + addend + t) % 2);
                int64_t e = (s + transposes + addend) % COUNT(eight_bit);
                if (has_product(eight_bit[e][0]))
                    test_gemm_case(shapes[s], eight_bit[e][0], eight_bit[e][1], eight_bit[e][2], transposes, addend,
                                   transposes % 2);
            }
}

/* What a linear layer with biases adds to the product, a bias, and to its weight's gradient, the sum of the transposed
 * output gradient; here with every addend, transpose and type. */
static void test_gemm_bias_case(const int64_t *mnk, enum dtype in, enum dtype out, int transposes, enum addend addend,
                                bool bias, bool sum)
{
    bool ta = transposes & 1, tb = transposes & 2, strided = (transposes + (int)addend) % 2;
    int64_t m = mnk[0], n = mnk[1], k = mnk[2];
    struct trial *trial =
        trial_create("m %d n %d k %d, %s to %s, transposes %d, addend %d, bias %d, sum %d", (int)m, (int)n, (int)k,
                     dtype_name(in), dtype_name(out), transposes, (int)addend, bias, sum);
    struct gemm_args args = {.transpose_a = ta, .transpose_b = tb, .accumulate = addend == ADDEND_ACCUMULATE};
    args.a = trial_matrix(trial, in, ta ? k : m, ta ? m : k, strided, 1.0);
    args.b = trial_matrix(trial, in, tb ? n : k, tb ? k : n, strided, 1.0);
    args.d = trial_matrix(trial, out, m, n, strided, 1.0);
    if (addend == ADDEND_SEPARATE)
        args.c = trial_matrix(trial, out, m, n, strided, 1.0);
    if (addend == ADDEND_IN_PLACE)
        args.c = args.d;
    if (dtype_size(in) == 1) {
        args.scale_a = trial_normal(trial, DTYPE_F32, 1, 1, 0.1);
        args.scale_b = trial_normal(trial, DTYPE_F32, 1, 1, 10.0);
    }
    struct gemm_args mistaken = args;
    if (bias) {
        args.bias = trial_normal(trial, out, 1, n, 3.0);
        check_noticed(trial, OP_GEMM, &args, &mistaken);
    }
    if (sum)
        args.sum_a = trial_normal(trial, DTYPE_F32, 1, m, 3.0);
    mistaken = args;
    mistaken.scale_a = args.scale_b, mistaken.scale_b = args.scale_a;
    if (sum && dtype_size(in) == 1) /* the sum takes a's scale alone */
        check_noticed(trial, OP_GEMM, &args, &mistaken);
    check_op(trial, OP_GEMM, &args);
}

static void test_gemm_bias(void)
{
    static const int64_t shapes[6][3] = {{1, 1, 1},     {3, 17, 1},     {7, 5, 33},
                                         {1000, 3, 65}, {17, 1000, 20}, {65, 33, 200}};
    static const enum dtype types[4][2] = {
        {DTYPE_F32, DTYPE_F32}, {DTYPE_BF16, DTYPE_BF16}, {DTYPE_BF16, DTYPE_F32}, {DTYPE_E4M3, DTYPE_BF16}};
    for (int64_t s = 0; s < COUNT(shapes); s++)
        for (int transposes = 0; transposes < 4; transposes++)
            for (int addend = 0; addend < ADDEND_COUNT; addend++)
                for (int64_t t = (s + transposes) % 2; t < COUNT(types); t += 2) {
                    if (!has_product(types[t][0]))
                        continue;
                    int64_t extras = 1 + (s + transposes + addend + t) % 3;
                    test_gemm_bias_case(shapes[s], types[t][0], types[t][1], transposes, addend, extras & 1,
                                        extras & 2);
                }
}

/* Sums over more than one block of a GPU takes, each way. */
static void test_gemm_sum_large(void)
{
    static const int64_t shapes[4][3] = {{40, 1, 1003}, {264, 1, 1003}, {700, 1, 1003}, {2048, 1, 257}};
    for (int64_t s = 0; s < COUNT(shapes); s++)
        for (int64_t d = 0; d < 2; d++)
            for (int transposes = 0; transposes < 4; transposes++) {
                enum addend addend = (s + d) % 2 ? ADDEND_ACCUMULATE : ADDEND_NONE;
                test_gemm_bias_case(shapes[s], storage[d], DTYPE_F32, transposes, addend, false, true);
            }
}

/* The sum over a's rows or columns is the same, bit for bit, on any number of threads. */
static void test_gemm_sum_order(void)
{
    for (int transposed = 0; transposed < 2; transposed++) {
        struct trial *trial = trial_create("sum of a, transposed %d", transposed);
        struct gemm_args args = {.a = trial_normal(trial, DTYPE_F32, 1003, 257, 1.0), .transpose_a = transposed != 0};
        int64_t m = transposed ? 257 : 1003, k = transposed ? 1003 : 257;
        args.b = trial_normal(trial, DTYPE_F32, k, 1, 1.0);
        args.d = trial_empty(trial, DTYPE_F32, m, 1);
        args.sum_a = trial_empty(trial, DTYPE_F32, 1, m);
        float first[1003] = {0.0f};
        for (int i = 0; i < executor_count && !on_device; i++) {
            struct stream stream = {.executor = executors[i]};
            launch(&stream, OP_GEMM, &args);
            if (i == 0)
                memcpy(first, args.sum_a.data, (size_t)m * sizeof *first);
            CHECK(memcmp(first, args.sum_a.data, (size_t)m * sizeof *first) == 0);
        }
        trial_destroy(trial);
    }
}

static void test_quantize(void)
{
    for (int64_t d = 0; d < 2; d++)
        for (int64_t t = 0; t < COUNT(lengths); t++)
            for (int outputs = 1; outputs < 4; outputs++) {
                int64_t rows = lengths[t], cols = rows == 129 ? 257 : 33;
                struct trial *trial = trial_create("%s T %d, outputs %d", dtype_name(storage[d]), (int)rows, outputs);
                struct quantize_args args = {.to.row_scale = trial_empty(trial, DTYPE_F32, 1, 1)};
                args.x = trial_matrix(trial, storage[d], rows, cols, t % 2, 0.02);
                if (outputs & 1)
                    args.to.row = trial_empty(trial, DTYPE_E4M3, rows, cols);
                if (outputs & 2)
                    args.to.column = trial_strided(trial, DTYPE_E4M3, cols, rows, rows + 5);
                check_op(trial, OP_QUANTIZE, &args);
            }
    /* all zero; then, with scale 1, every e4m3 number, the ties between neighbours and a hair to each side of those */
    for (int ties = 0; ties < 2; ties++) {
        struct trial *trial = trial_create(ties ? "ties" : "zeros");
        struct quantize_args args = {.to.row_scale = trial_empty(trial, DTYPE_F32, 1, 1),
                                     .x = trial_empty(trial, DTYPE_F32, 8, 127),
                                     .to.row = trial_empty(trial, DTYPE_E4M3, 8, 127),
                                     .to.column = trial_empty(trial, DTYPE_E4M3, 127, 8)};
        for (int64_t i = 0; i < 127; i++) {
            float value = e4m3_to_f32((uint8_t)i), next = i < 126 ? e4m3_to_f32((uint8_t)(i + 1)) : value;
            float middle = 0.5f * (value + next);
            float of_row[4] = {value, middle, nextafterf(middle, value), nextafterf(middle, next)};
            for (int64_t row = 0; row < 8; row++)
                reference_store(&args.x, row, i, ties ? (row % 2 ? -1.0 : 1.0) * (double)of_row[row / 2] : 0.0);
        }
        check_op_exact(trial, OP_QUANTIZE, &args);
    }
}

/* Every finite 8-bit number times 1. */
static void test_eight_bit_codes(void)
{
    static const enum dtype types[2] = {DTYPE_E4M3, DTYPE_E5M2};
    for (int64_t t = 0; t < 2; t++) {
        struct trial *trial = trial_create("all codes of %s", dtype_name(types[t]));
        struct gemm_args args = {.a = trial_empty(trial, types[t], 256, 1),
                                 .b = trial_empty(trial, DTYPE_F32, 1, 1),
                                 .d = trial_empty(trial, DTYPE_F32, 256, 1),
                                 .scale_a = trial_empty(trial, DTYPE_F32, 1, 1)};
        reference_store(&args.b, 0, 0, 1.0);
        reference_store(&args.scale_a, 0, 0, 1.0);
        for (int code = 0; code < 256; code++) {
            uint8_t bits = (uint8_t)code;
            struct tensor one = tensor_vector(&bits, types[t], 1);
            bits = isfinite(reference_load(&one, 0, 0)) ? bits : 1;
            *(uint8_t *)tensor_at(&args.a, code, 0) = bits;
        }
        check_op(trial, OP_GEMM, &args);
    }
}

/* Token dropout's factors: 0 at some tokens, others a little off 1. */
static struct tensor token_scales(struct trial *trial, int64_t tokens)
{
    struct tensor scale = trial_normal(trial, DTYPE_F32, 1, tokens, 1.0);
    for (int64_t t = 2; t < tokens; t += 5)
        reference_store(&scale, 0, t, 0.0);
    return scale;
}

/* With factors, and a padding token, which is one that is there. */
static void test_scaled_embedding(enum dtype dtype, int64_t tokens, int64_t vocabulary, int64_t width, bool accumulate)
{
    struct trial *trial = trial_create("scaled: %s T %d V %d H %d%s", dtype_name(dtype), (int)tokens, (int)vocabulary,
                                       (int)width, accumulate ? ", accumulate" : "");
    struct embedding_forward_args forward = {.tokens = trial_draw_integers(trial, tokens, (int32_t)vocabulary),
                                             .scale = token_scales(trial, tokens),
                                             .weight = trial_matrix(trial, dtype, vocabulary, width, accumulate, 1.0),
                                             .y = trial_strided(trial, dtype, tokens, width, width + 3)};
    struct embedding_forward_args unscaled = forward;
    unscaled.scale = (struct tensor){0};
    check_noticed(trial, OP_EMBEDDING_FORWARD, &forward, &unscaled);
    check_op(trial, OP_EMBEDDING_FORWARD, &forward);

    trial = trial_create("scaled: %s T %d V %d H %d%s", dtype_name(dtype), (int)tokens, (int)vocabulary, (int)width,
                         accumulate ? ", accumulate" : "");
    struct embedding_backward_args backward = {.tokens = trial_draw_integers(trial, tokens, (int32_t)vocabulary),
                                               .scale = token_scales(trial, tokens),
                                               .dy = trial_matrix(trial, dtype, tokens, width, accumulate, 1.0),
                                               .dweight = trial_normal(trial, DTYPE_F32, vocabulary, width, 1.0),
                                               .accumulate = accumulate};
    backward.padding = tokens > 1 ? ((const int32_t *)backward.tokens.data)[1] : -1;
    struct embedding_backward_args mistaken = backward;
    mistaken.scale = (struct tensor){0};
    check_noticed(trial, OP_EMBEDDING_BACKWARD, &backward, &mistaken);
    mistaken = backward;
    mistaken.padding = -1;
    if (tokens > 1)
        check_noticed(trial, OP_EMBEDDING_BACKWARD, &backward, &mistaken);
    check_op(trial, OP_EMBEDDING_BACKWARD, &backward);
}

static void test_embedding(void)
{
    static const int64_t vocabularies[5] = {5, 33, 64, 256, 1000}, widths[3] = {8, 33, 192};
    for (int64_t d = 0; d < 2; d++) {
        test_scaled_embedding(storage[d], 400, 2, 48, d); /* runs of one token that are longer than a GPU's pieces */
        for (int64_t v = 0; v < COUNT(vocabularies); v++)
            for (int64_t t = 0; t < COUNT(lengths); t++) {
                int64_t tokens = lengths[t], width = widths[(v + t) % 3], vocabulary = vocabularies[v];
                struct trial *trial =
                    trial_create("%s T %d V %d H %d", dtype_name(storage[d]), (int)tokens, (int)vocabulary, (int)width);
                struct embedding_forward_args forward = {
                    .tokens = trial_draw_integers(trial, tokens, (int32_t)vocabulary),
                    .weight = trial_normal(trial, storage[d], vocabulary, width, 1.0),
                    .y = trial_strided(trial, storage[d], tokens, width, width + (t % 2 ? 5 : 0))};
                check_op(trial, OP_EMBEDDING_FORWARD, &forward);
                test_scaled_embedding(storage[d], tokens, vocabulary, width, (v + t) % 2);

                trial = trial_create("%s T %d V %d H %d%s", dtype_name(storage[d]), (int)tokens, (int)vocabulary,
                                     (int)width, (v + t) % 2 ? ", accumulate" : "");
                struct embedding_backward_args backward = {
                    .tokens = trial_draw_integers(trial, tokens, (int32_t)vocabulary),
                    .dy = trial_matrix(trial, storage[d], tokens, width, t % 2, 1.0),
                    .dweight = trial_normal(trial, DTYPE_F32, vocabulary, width, 1.0),
                    .padding = -1,
                    .accumulate = (v + t) % 2};
                check_op(trial, OP_EMBEDDING_BACKWARD, &backward);
            }
    }
}

/* More kinds of products than a GPU's executor keeps plans (512) or choices (1024) of, as in scoring, where each batch
 * has another number of tokens; then the first ones again. */
static void test_gemm_many_kinds(void)
{
    enum { KINDS = 1100, AGAIN = 20 };
    for (int64_t i = 0; i < KINDS + AGAIN; i++) {
        const int64_t shape[3] = {1 + i % KINDS, 8, 8};
        test_gemm_bias_case(shape, DTYPE_F32, DTYPE_F32, i % 2 ? 0 : 1, ADDEND_NONE, false, i % 2 == 0);
    }
}

int main(int count, char **arguments)
{
    executors_open(count, arguments);
    test_gemm();
    if (on_device)
        test_gemm_many_kinds();
    test_gemm_bias();
    test_gemm_sum_large();
    test_gemm_sum_order();
    test_quantize();
    if (has_product(DTYPE_E4M3))
        test_eight_bit_codes();
    test_embedding();
    executors_close();
    return check_end();
}
