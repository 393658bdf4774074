/* Copies and element-wise arithmetic of an executor match the oracle: f32 and bf16 storage, odd shapes, strided views,
 * aliases, accumulation. bf16 is rounded to nearest even, fp32 splits into bf16 and remainder without loss, and exact
 * sums do not depend on the order. */
#include "ops.h"

#include "base/memory.h"
#include "ref/fetch.h"

static void test_affine(void)
{
    for (int64_t t = 0; t < COUNT(lengths); t++)
        for (int type = 0; type < 2; type++)
            for (int kind = 0; kind < 4; kind++) { /* alone, with a norm, with a norm of 0, with a diagonal, in place */
                const int64_t rows = lengths[t], cols = kind == 3 ? rows : rows + 5;
                struct trial *trial =
                    trial_create("affine T %d %s, kind %d", (int)rows, dtype_name(storage[type]), kind);
                struct affine_args args = {.from = trial_matrix(trial, storage[type], rows, cols, kind == 1, 2.0),
                                           .factor = -1.25,
                                           .diagonal = kind == 3 ? 3.4445 : 0,
                                           .eps = 1e-3};
                args.to = kind == 3 ? args.from : trial_matrix(trial, storage[type], rows, cols, kind == 0, 1.0);
                if (kind == 1 || kind == 2) {
                    args.squares = trial_empty(trial, DTYPE_F64, 1, 1);
                    reference_store(&args.squares, 0, 0, kind == 1 ? 7.0 : 0.0);
                }
                struct affine_args mistaken = args;
                mistaken.factor = -1.27;
                if (kind < 2 || type == 0) /* bf16 of 0 and of a sum's diagonal may hide it */
                    check_noticed(trial, OP_AFFINE, &args, &mistaken);
                mistaken = args;
                mistaken.diagonal = kind == 3 ? 3.5 : 0;
                mistaken.eps = 2e-3;
                if (kind > 1 && type == 0)
                    check_noticed(trial, OP_AFFINE, &args, &mistaken);
                check_op(trial, OP_AFFINE, &args);
            }
}

enum { EXACT_NUMBERS = 37 * SQUARES_BLOCK, EXACT_CUT = 5 * SQUARES_BLOCK };
static const double exact_quantum = 0x1p-30, exact_most = 1000, squares_quantum = 0x1p8;

/* The sum of squares of elements first .. end - 1, added to what parts hold. */
static void add_squares(struct stream *stream, const struct tensor *x, int64_t first, int64_t end,
                        const struct tensor *sum, double parts[SQUARES_PARTS])
{
    const struct sum_squares_args args = {tensor_columns(x, first, end - first), *sum, squares_quantum};
    const struct executor_class *class = stream->executor->class;
    class->reserve(stream->executor, stream->id, class->workspace(stream->executor, OP_SUM_SQUARES, &args));
    launch(stream, OP_SUM_SQUARES, &args);
    struct tensor found = fetch(stream, sum);
    for (int p = 0; p < SQUARES_PARTS; p++)
        parts[p] += ((double *)found.data)[p];
    memory_free(found.data);
}

/* Sums in another order, and of vectors that are cut elsewhere, have the same bits, which are those of the numbers
 * rounded to quanta; plain sums do not. */
static void test_exact(struct executor *executor)
{
    enum { VECTORS = 5, READ = VECTORS, FORTH, BACK, SUM, TENSORS };
    struct stream stream = {.executor = executor};
    struct tensor at[TENSORS], drawn[VECTORS];
    struct trial *trial = trial_create("exact sums");
    for (int i = 0; i < TENSORS; i++) {
        const enum dtype dtype = i <= READ ? DTYPE_F32 : DTYPE_F64;
        const int64_t count = i == SUM ? SQUARES_PARTS : EXACT_NUMBERS;
        at[i] =
            tensor_vector(executor->class->allocate(executor, count * dtype_size(dtype), MEMORY_DEVICE), dtype, count);
    }
    for (int i = 0; i < VECTORS; i++) {
        drawn[i] = trial_normal(trial, DTYPE_F32, 1, EXACT_NUMBERS, 1.0);
        for (int64_t k = 0; k < EXACT_NUMBERS; k++)
            ((float *)drawn[i].data)[k] *= ldexpf(1, (int)(k + 7 * i) % 24 - 18);
        LAUNCH(&stream, COPY, copy, .from = drawn[i], .to = at[i]);
        stream_synchronize(&stream);
    }
    ((float *)drawn[2].data)[3] = -1001, ((float *)drawn[3].data)[4] = NAN, ((float *)drawn[4].data)[5] = -1000;
    for (int i = 2; i < VECTORS; i++) {
        LAUNCH(&stream, COPY, copy, .from = drawn[i], .to = at[i]);
        stream_synchronize(&stream);
    }
    for (int i = 0; i < VECTORS; i++)
        for (int back = 0; back < 2; back++) {
            const struct exact_add_args add = {at[back ? VECTORS - 1 - i : i], at[back ? BACK : FORTH], exact_quantum,
                                               exact_most, i > 0};
            launch(&stream, OP_EXACT_ADD, &add);
        }
    const struct exact_read_args read = {at[FORTH], at[READ]};
    launch(&stream, OP_EXACT_READ, &read);
    struct tensor forth = fetch(&stream, &at[FORTH]), back = fetch(&stream, &at[BACK]), out = fetch(&stream, &at[READ]);
    int64_t differ = 0, wrong = 0, plain = 0;
    for (int64_t k = 0; k < EXACT_NUMBERS; k++) {
        const double sum = ((double *)forth.data)[k], other = ((double *)back.data)[k];
        double expected = 0;
        float one = 0, two = 0;
        for (int i = 0; i < VECTORS; i++) {
            expected += rint((double)((float *)drawn[i].data)[k] / exact_quantum) * exact_quantum;
            one += ((float *)drawn[i].data)[k], two += ((float *)drawn[VECTORS - 1 - i].data)[k];
        }
        if (k == 3 || k == 4) {
            wrong += !isnan(sum) || !isnan(other) || !isnan(((float *)out.data)[k]);
            continue;
        }
        differ += memcmp(&sum, &other, sizeof sum) != 0;
        wrong += sum != expected || ((float *)out.data)[k] != (float)expected;
        plain += one != two;
    }
    CHECK(differ == 0 && wrong == 0 && plain > 0);

    double whole[SQUARES_PARTS] = {0}, cuts[SQUARES_PARTS] = {0}, squares = 0;
    for (int64_t k = 0; k < EXACT_NUMBERS; k++)
        squares += (double)((float *)drawn[0].data)[k] * (double)((float *)drawn[0].data)[k];
    add_squares(&stream, &at[0], 0, EXACT_NUMBERS, &at[SUM], whole);
    add_squares(&stream, &at[0], EXACT_CUT, EXACT_NUMBERS, &at[SUM], cuts);
    add_squares(&stream, &at[0], 0, EXACT_CUT, &at[SUM], cuts);
    add_squares(&stream, &at[0], 0, 0, &at[SUM], cuts);
    CHECK(memcmp(whole, cuts, sizeof whole) == 0);
    CHECK(whole[1] != 0 && whole[2] != 0 && fmod(whole[0], squares_quantum) == 0);
    CHECK(fabs(whole[0] + whole[1] + whole[2] - squares) <= 1e-12 * squares);
    memory_free(forth.data);
    memory_free(back.data);
    memory_free(out.data);
    for (int i = 0; i < TENSORS; i++)
        executor->class->release(executor, at[i].data, MEMORY_DEVICE);
    trial_destroy(trial);
}

/* To every third row but the first, the last row first. */
static void test_scatter(enum dtype dtype, int64_t rows, int64_t cols, bool strided)
{
    struct trial *trial = trial_create("scatter T %d %s, strided %d", (int)rows, dtype_name(dtype), strided);
    struct tensor places = trial_draw_integers(trial, rows, 1);
    for (int64_t t = 0; t < rows; t++)
        reference_store(&places, 0, t, (double)(3 * (rows - t)));
    struct scatter_args scatter = {.from = trial_matrix(trial, dtype, rows, cols, strided, 100.0),
                                   .rows = places,
                                   .to = trial_matrix(trial, dtype, 3 * rows + 2, cols, !strided, 100.0)};
    check_op_exact(trial, OP_SCATTER, &scatter);
}

static void test_dropout(enum dtype dtype, int64_t rows, int64_t cols, bool strided, bool adds)
{
    struct trial *trial =
        trial_create("dropout T %d %s, strided %d, adds %d", (int)rows, dtype_name(dtype), strided, adds);
    struct dropout_args dropout = {.x = trial_matrix(trial, dtype, rows, cols, strided, 100.0),
                                   .keys = trial_draw_integers(trial, rows, 1 << 30),
                                   .y = trial_matrix(trial, dtype, rows, cols, !strided, 100.0),
                                   .probability = strided ? 0.1 : 0.5,
                                   .salt = (uint32_t)(rows + adds),
                                   .origin = strided ? 4096 : 0,
                                   .accumulate = adds};
    check_op(trial, OP_DROPOUT, &dropout);
}

static void test_moves(void)
{
    static const enum dtype floats[3] = {DTYPE_F32, DTYPE_BF16, DTYPE_F64};
    static const enum dtype any[4] = {DTYPE_F32, DTYPE_BF16, DTYPE_E4M3, DTYPE_I32};
    for (int64_t t = 0; t < COUNT(lengths); t++)
        for (int from = 0; from < 4; from++)
            for (int strided = 0; strided < 2; strided++) {
                int64_t rows = lengths[t], cols = rows == 129 ? 257 : 33;
                struct trial *trial = trial_create("T %d %s, strided %d", (int)rows, dtype_name(any[from]), strided);
                struct copy_args copy = {.from = trial_matrix(trial, any[from], rows, cols, strided, 100.0),
                                         .to = trial_matrix(trial, any[from], rows, cols, !strided, 100.0)};
                check_op_exact(trial, OP_COPY, &copy);
                if (from == 3)
                    continue;
                if (from < 2)
                    test_scatter(any[from], rows, cols, strided);
                trial = trial_create("T %d %s, strided %d", (int)rows, dtype_name(floats[from]), strided);
                struct fill_args fill = {.x = trial_matrix(trial, floats[from], rows, cols, strided, 1.0),
                                         .value = strided ? 0.1 : 0.0};
                check_op_exact(trial, OP_FILL, &fill);
                if (from < 2) {
                    trial = trial_create("T %d %s, strided %d", (int)rows, dtype_name(floats[from]), strided);
                    struct multiply_args multiply = {.x = trial_matrix(trial, floats[from], rows, cols, strided, 100.0),
                                                     .factor = strided ? 0.75 : 1.625};
                    check_op(trial, OP_MULTIPLY, &multiply);
                }
                for (int adds = 0; adds < 2 && from < 2; adds++)
                    test_dropout(floats[from], rows, cols, strided, adds);
                for (int to = 0; to < 2 && from < 2; to++) {
                    trial = trial_create("T %d %s to %s, strided %d", (int)rows, dtype_name(floats[from]),
                                         dtype_name(floats[to]), strided);
                    struct add_args add = {.from = trial_matrix(trial, floats[from], rows, cols, strided, 100.0),
                                           .to = trial_matrix(trial, floats[to], rows, cols, !strided, 1.0)};
                    if (to == 0)
                        check_op_exact(trial, OP_ADD, &add);
                    else
                        check_op(trial, OP_ADD, &add);
                }
            }
}

/* Widths that kernels move at once, and others; a row or a column alone. */
static void test_transpose(void)
{
    static const int64_t shapes[][2] = {{1, 1},   {7, 33},    {33, 7},    {1, 300},   {300, 1},
                                        {64, 64}, {128, 128}, {129, 257}, {256, 136}, {40, 272}};
    for (int64_t s = 0; s < COUNT(shapes); s++)
        for (int strided = 0; strided < 4; strided++) {
            const enum dtype dtype = s % 2 ? DTYPE_E5M2 : DTYPE_E4M3;
            const int64_t rows = shapes[s][0], cols = shapes[s][1];
            struct trial *trial =
                trial_create("%s %d x %d, strided %d", dtype_name(dtype), (int)rows, (int)cols, strided);
            struct transpose_args args = {.from = trial_matrix(trial, dtype, rows, cols, strided & 1, 10.0),
                                          .to = trial_strided(trial, dtype, cols, rows, rows + (strided & 2 ? 16 : 0))};
            check_op_exact(trial, OP_TRANSPOSE, &args);
        }
}

/* To nearest even, as all ops store bf16: every tie and every neighbour of a tie between bf16 numbers of one binade,
 * and the overflow to infinity. */
static void test_ties(void)
{
    enum { TIES = 130, SIDES = 3, HIDDEN = 9 };
    struct trial *trial = trial_create("bf16 ties");
    const struct embedding_forward_args args = {.tokens = trial_draw_integers(trial, TIES * SIDES, 1),
                                                .scale = trial_empty(trial, DTYPE_F32, 1, TIES * SIDES),
                                                .weight = trial_empty(trial, DTYPE_BF16, 1, HIDDEN),
                                                .y = trial_empty(trial, DTYPE_BF16, TIES * SIDES, HIDDEN)};
    for (int64_t h = 0; h < HIDDEN; h++)
        reference_store(&args.weight, 0, h, 1.0);
    for (int64_t i = 0; i < TIES; i++)
        for (int64_t side = 0; side < SIDES; side++) {
            double tie = i < 128 ? 1.0 + (double)(2 * i + 1) * 0x1p-8 : (i == 128 ? 0x1.ffp127 : -0x1.ffp127);
            reference_store(&args.scale, 0, i * SIDES + side, tie * (1.0 + (double)(side - 1) * 0x1p-23));
        }
    check_op_exact(trial, OP_EMBEDDING_FORWARD, &args);
}

/* Every bf16 number with lows around zero, around the ties and at the ends, and f32's own edges. Rounded alone, with
 * infinities and NaNs, of which the largest would become -0. */
static void test_halves(void)
{
    static const int16_t lows[] = {0, 1, -1, 77, -12345, 0x7fff, -0x7fff, -0x8000};
    const int64_t count = 0x10000 + 3; /* no multiple of a pack */
    for (int64_t l = 0; l < COUNT(lows); l++)
        for (int what = 0; what < 4; what++) {
            static const char *const names[4] = {"split", "high", "join", "widen"};
            struct trial *trial = trial_create("low %d, %s", lows[l], names[what]);
            struct split_args split = {.from = trial_empty(trial, DTYPE_F32, 1, count),
                                       .high = trial_empty(trial, DTYPE_BF16, 1, count),
                                       .low = trial_empty(trial, DTYPE_I16, 1, count)};
            for (int64_t i = 0; i < count; i++) {
                float x = f32_joined((uint16_t)i, lows[l]);
                x = isfinite(x) || what == 1 ? x : 0.0f;
                ((float *)split.from.data)[i] = x;
                ((uint16_t *)split.high.data)[i] = f32_high(x);
                ((int16_t *)split.low.data)[i] = f32_low(x);
            }
            if (what % 2 == 1)
                split.low = (struct tensor){0};
            const struct join_args join = {split.high, split.low, split.from};
            check_op_exact(trial, what >= 2 ? OP_JOIN : OP_SPLIT, what >= 2 ? (const void *)&join : &split);
        }
}

int main(int count, char **arguments)
{
    executors_open(count, arguments);
    test_affine();
    for (int i = 0; i < executor_count; i++)
        test_exact(executors[i]);
    test_moves();
    test_transpose();
    test_ties();
    test_halves();
    executors_close();
    return check_end();
}
