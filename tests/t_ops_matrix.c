/* Matrix products and embeddings of an executor match the oracle. A bias gradient has the same bits from gelu and from
 * a product. With "gradients", the GPU's own kernels for weight gradients are checked. */
#include "ops.h"

#include "base/memory.h"
#include "base/random.h"
#include "cpu/sgemm.h"

enum addend { ADDEND_NONE, ADDEND_SEPARATE, ADDEND_IN_PLACE, ADDEND_ACCUMULATE, ADDEND_COUNT };

/* Draws the operands of a product. transposes: of a (1) and b (2). */
static struct gemm_args random_gemm(struct trial *trial, const int64_t *mnk, enum dtype in, enum dtype out,
                                    int transposes, enum addend addend, bool strided)
{
    const bool ta = transposes & 1, tb = transposes & 2;
    const int64_t m = mnk[0], n = mnk[1], k = mnk[2];
    struct gemm_args args = {.transpose_a = ta, .transpose_b = tb, .accumulate = addend == ADDEND_ACCUMULATE};
    args.a = trial_matrix(trial, in, ta ? k : m, ta ? m : k, strided, 1.0);
    args.b = trial_matrix(trial, in, tb ? n : k, tb ? k : n, strided, 1.0);
    args.d = trial_matrix(trial, out, m, n, strided, 1.0);
    if (addend == ADDEND_SEPARATE)
        args.c = trial_matrix(trial, out, m, n, strided, 1.0);
    if (addend == ADDEND_IN_PLACE)
        args.c = args.d;
    return args;
}

static void test_gemm_case(const int64_t *mnk, enum dtype in, enum dtype out, int transposes, enum addend addend,
                           bool strided)
{
    bool ta = transposes & 1, tb = transposes & 2;
    int64_t m = mnk[0], n = mnk[1], k = mnk[2];
    struct trial *trial =
        trial_create("m %d n %d k %d, a %s%s b %s%s, addend %d%s", (int)m, (int)n, (int)k, dtype_name(in),
                     ta ? "'" : "", dtype_name(in), tb ? "'" : "", (int)addend, strided ? ", strided" : "");
    struct gemm_args args = random_gemm(trial, mnk, in, out, transposes, addend, strided);
    check_op(trial, OP_GEMM, &args);
}

static void test_gemm(void)
{
    static const int64_t shapes[6][3] = {{1, 1, 1},     {7, 5, 33},     {64, 64, 64},
                                         {129, 33, 20}, {5, 129, 1000}, {129, 257, 64}};
    static const enum dtype types[3][2] = {{DTYPE_F32, DTYPE_F32}, {DTYPE_BF16, DTYPE_BF16}, {DTYPE_BF16, DTYPE_F32}};
    for (int64_t s = 0; s < COUNT(shapes); s++)
        for (int transposes = 0; transposes < 4; transposes++)
            for (int addend = 0; addend < ADDEND_COUNT; addend++)
                for (int64_t t = 0; t < COUNT(types); t++)
                    test_gemm_case(shapes[s], types[t][0], types[t][1], transposes, addend,
                                   (s + transposes + addend + t) % 2);
}

/* What a linear layer with biases adds to the product, a bias, and to its weight's gradient, the sum of the transposed
 * output gradient; here with every addend, transpose and type. */
static void test_gemm_bias_case(const int64_t *mnk, enum dtype in, enum dtype out, int transposes, enum addend addend,
                                bool bias, bool sum)
{
    bool strided = (transposes + (int)addend) % 2;
    int64_t m = mnk[0], n = mnk[1], k = mnk[2];
    struct trial *trial =
        trial_create("m %d n %d k %d, %s to %s, transposes %d, addend %d, bias %d, sum %d", (int)m, (int)n, (int)k,
                     dtype_name(in), dtype_name(out), transposes, (int)addend, bias, sum);
    struct gemm_args args = random_gemm(trial, mnk, in, out, transposes, addend, strided);
    struct gemm_args mistaken = args;
    if (bias) {
        args.bias = trial_normal(trial, out, 1, n, 3.0);
        check_noticed(trial, OP_GEMM, &args, &mistaken);
    }
    if (sum)
        args.sum_a = trial_normal(trial, DTYPE_F32, 1, m, 3.0);
    check_op(trial, OP_GEMM, &args);
}

static void test_gemm_bias(void)
{
    static const int64_t shapes[6][3] = {{1, 1, 1},     {3, 17, 1},     {7, 5, 33},
                                         {1000, 3, 65}, {17, 1000, 20}, {65, 33, 200}};
    static const enum dtype types[3][2] = {{DTYPE_F32, DTYPE_F32}, {DTYPE_BF16, DTYPE_BF16}, {DTYPE_BF16, DTYPE_F32}};
    for (int64_t s = 0; s < COUNT(shapes); s++)
        for (int transposes = 0; transposes < 4; transposes++)
            for (int addend = 0; addend < ADDEND_COUNT; addend++)
                for (int64_t t = (s + transposes) % 2; t < COUNT(types); t += 2) {
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

/* So that some columns are left out on both sides, in rows that a GPU's copy engine can read. */
static struct tensor inner_columns(struct trial *trial, enum dtype dtype, int64_t rows, int64_t cols, bool inner)
{
    struct tensor wide = trial_normal(trial, dtype, rows, cols + (inner ? 16 : 0), 1.0);
    return tensor_columns(&wide, inner ? 8 : 0, cols);
}

/* A GPU's own products, by a few clusters of blocks: fewer tiles of 256 x 256 than clusters, and more. Tiles that are
 * left over are each one part, or several parts, or first some in two parts, then one in four, then one in seven. Steps
 * along k that end behind the last row. */
static void test_gemm_gradients(void)
{
    static const struct {
        int clusters;
        int64_t m, n, k;
    } shapes[] = {{3, 256, 256, 1},   {3, 256, 256, 64},    {3, 512, 256, 300},
                  {5, 512, 768, 520}, {7, 256, 1280, 1810}, {2, 1024, 256, 130}};
    int64_t cases = 0;
    for (int64_t s = 0; s < COUNT(shapes); s++)
        for (int accumulate = 0; accumulate < 2; accumulate++, cases++) {
            const int64_t m = shapes[s].m, n = shapes[s].n, k = shapes[s].k;
            const bool inner = (s + accumulate) % 2 != 0;
            struct trial *trial =
                trial_create("gradient m %d n %d k %d%s%s, %d clusters", (int)m, (int)n, (int)k,
                             accumulate ? ", accumulate" : "", inner ? ", strided" : "", shapes[s].clusters);
            trial_reserve(trial, 32 << 20);
            struct gemm_args args = {.transpose_a = true, .accumulate = accumulate != 0};
            args.a = inner_columns(trial, DTYPE_BF16, k, m, inner);
            args.b = inner_columns(trial, DTYPE_BF16, k, n, inner);
            args.d = inner_columns(trial, DTYPE_F32, m, n, inner);
            if (s % 3 == 0)
                args.sum_a = trial_normal(trial, DTYPE_F32, 1, m, 3.0);
            executor_gradients(shapes[s].clusters);
            check_op(trial, OP_GEMM, &args);
        }
    CHECK(executor_gradients(0) >= cases);
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

/* Token dropout's factors: 0 at some tokens, others a little off 1. */
static struct tensor token_scales(struct trial *trial, int64_t tokens)
{
    struct tensor scale = trial_normal(trial, DTYPE_F32, 1, tokens, 1.0);
    for (int64_t t = 2; t < tokens; t += 5)
        reference_store(&scale, 0, t, 0.0);
    return scale;
}

/* Of an embedding's gradient: either, by the shape. */
static enum dtype sums_type(int64_t tokens, int64_t vocabulary)
{
    return storage[(tokens + vocabulary) / 2 % 2];
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
    struct embedding_backward_args backward = {
        .tokens = trial_draw_integers(trial, tokens, (int32_t)vocabulary),
        .scale = token_scales(trial, tokens),
        .dy = trial_matrix(trial, dtype, tokens, width, accumulate, 1.0),
        .dweight = trial_normal(trial, sums_type(tokens, vocabulary), vocabulary, width, 1.0),
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

/* Rows of a part of the vocabulary, from its middle on, and a padding token in it or not. */
static void test_embedding_part(enum dtype dtype, int64_t tokens, int64_t rows, int64_t width, bool scaled)
{
    struct trial *trial = trial_create("part: %s T %d V %d H %d%s", dtype_name(dtype), (int)tokens, (int)rows,
                                       (int)width, scaled ? ", scaled" : "");
    struct embedding_forward_args forward = {.tokens = trial_draw_integers(trial, tokens, (int32_t)(2 * rows)),
                                             .weight = trial_matrix(trial, dtype, rows, width, scaled, 1.0),
                                             .y = trial_strided(trial, dtype, tokens, width, width + 3),
                                             .origin = rows / 2};
    if (scaled)
        forward.scale = token_scales(trial, tokens);
    struct embedding_forward_args mistaken = forward;
    mistaken.origin++;
    if (tokens > 60)
        check_noticed(trial, OP_EMBEDDING_FORWARD, &forward, &mistaken);
    compare_op(trial, OP_EMBEDDING_FORWARD, &forward);

    struct embedding_backward_args backward = {.tokens = forward.tokens,
                                               .scale = forward.scale,
                                               .dy = trial_matrix(trial, dtype, tokens, width, scaled, 1.0),
                                               .dweight =
                                                   trial_normal(trial, sums_type(tokens, rows), rows, width, 1.0),
                                               .padding = reference_index(&forward.tokens, 0),
                                               .origin = forward.origin,
                                               .accumulate = scaled};
    struct embedding_backward_args displaced = backward;
    displaced.origin++;
    if (tokens > 60)
        check_noticed(trial, OP_EMBEDDING_BACKWARD, &backward, &displaced);
    check_op(trial, OP_EMBEDDING_BACKWARD, &backward);
}

static void test_embedding(void)
{
    static const int64_t vocabularies[5] = {5, 33, 64, 256, 1000}, widths[3] = {8, 33, 192};
    for (int64_t d = 0; d < 2; d++) {
        test_scaled_embedding(storage[d], 400, 2, 48, d); /* runs of one token that are longer than a GPU's pieces */
        test_embedding_part(storage[d], 400, 3, 48, d);
        for (int64_t t = 0; t < COUNT(lengths); t++)
            test_embedding_part(storage[d], lengths[t], vocabularies[t], widths[t % 3], t % 2);
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
                    .dweight = trial_normal(trial, storage[(v / 2 + t / 2) % 2], vocabulary, width, 1.0),
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

/* Products x w^T of sgemm(), on one thread and on three: a row has the same bits whatever rows come with it.
 * The last shape is one for which oneDNN's AVX2 kernels have another algorithm from 300 rows on. */
static void test_rows_do_not_depend_on_others(void)
{
    enum { ROWS = 400 };
    static const int64_t shapes[5][2] = {{1, 64}, {33, 64}, {257, 96}, {300, 96}, {2048, 520}}; /* n, k */
    for (int s = 0; s < COUNT(shapes); s++) {
        int64_t n = shapes[s][0], k = shapes[s][1];
        float *x = memory_allocate((ROWS + n) * k * sizeof *x), *w = x + ROWS * k;
        float *all = memory_allocate(2 * ROWS * n * sizeof *all), *some = all + ROWS * n;
        random_normal_floats(&(struct random_key){.seed = 5}, 0, (ROWS + n) * k, 1.0, x);
        struct sgemm_matrix b = {.data = w, .stride = k, .transpose = true};
        sgemm(1, ROWS, n, k, 1.0f, (struct sgemm_matrix){.data = x, .stride = k}, b, 0.0f, all, n);
        for (int64_t rows = 2; rows <= ROWS; rows += rows < 40 ? 1 : 61)
            for (int from_end = 0; from_end < 2; from_end++) {
                int64_t first = from_end ? ROWS - rows : 0;
                sgemm(from_end ? 3 : 1, rows, n, k, 1.0f, (struct sgemm_matrix){.data = x + first * k, .stride = k}, b,
                      0.0f, some, n);
                CHECK(memcmp(some, all + first * n, rows * n * sizeof *some) == 0);
            }
        memory_free(all);
        memory_free(x);
    }
}

int main(int count, char **arguments)
{
    executors_open(count, arguments);
    if (count > 1 && strcmp(arguments[1], "gradients") == 0) {
        test_gemm_gradients();
        executors_close();
        return check_end();
    }
    test_gemm();
    if (on_device)
        test_gemm_many_kinds();
    else if (sgemm_rows_are_independent())
        test_rows_do_not_depend_on_others();
    test_gemm_bias();
    test_gemm_sum_large();
    test_gemm_sum_order();
    test_embedding();
    executors_close();
    return check_end();
}
