/* Gradient norms, AdamW and Muon of an executor match the oracle. A weight of bf16 and remainder is updated as an fp32
 * weight is, to the bit, and AdamW in bf16 is PyTorch's. */
#include "ops.h"

#include "base/memory.h"
#include "ref/fetch.h"

static void test_sum_squares(void)
{
    static const int64_t shapes[6][2] = {{1, 1}, {1, 7}, {64, 33}, {129, 20}, {1, 100003}, {7, 20011}};
    for (int64_t s = 0; s < 2 * COUNT(shapes); s++) {
        const enum dtype dtype = storage[s / COUNT(shapes)];
        const int64_t *shape = shapes[s % COUNT(shapes)];
        struct trial *trial = trial_create("%s %d x %d", dtype_name(dtype), (int)shape[0], (int)shape[1]);
        struct sum_squares_args args = {.x = trial_matrix(trial, dtype, shape[0], shape[1], s % 2, 1.0),
                                        .sum = trial_empty(trial, DTYPE_F64, 1, 1)};
        double first = NAN;
        for (int i = 0; i < executor_count && !on_device;
             i++) { /* the order depends on the shape alone: not on the threads */
            struct stream stream = {.executor = executors[i]};
            const struct executor_class *class = executors[i]->class;
            class->reserve(executors[i], STREAM_COMPUTE, class->workspace(executors[i], OP_SUM_SQUARES, &args));
            LAUNCH(&stream, SUM_SQUARES, sum_squares, .x = args.x, .sum = args.sum);
            stream_synchronize(&stream);
            first = i == 0 ? reference_load(&args.sum, 0, 0) : first;
            CHECK(reference_load(&args.sum, 0, 0) == first);
        }
        check_op(trial, OP_SUM_SQUARES, &args);
    }
}

static void test_gradient_scale(void)
{
    static const float max_norms[3] = {0.0f, 0.01f, 100.0f};
    for (int64_t n = 1; n < 10; n += 4)
        for (int count = 0; count < 200; count += 123)
            for (int i = 0; i < 3; i++) {
                struct trial *trial = trial_create("n %d, count %d, max_norm %g", (int)n, count, (double)max_norms[i]);
                struct gradient_scale_args args = {.squares = trial_empty(trial, DTYPE_F64, 1, n),
                                                   .total = trial_empty(trial, DTYPE_F64, 1, 2),
                                                   .scale = trial_empty(trial, DTYPE_F32, 1, 1),
                                                   .norm = trial_empty(trial, DTYPE_F32, 1, 1),
                                                   .updates = trial_empty(trial, DTYPE_F64, 1, 1),
                                                   .corrections = trial_empty(trial, DTYPE_F32, 1, 2),
                                                   .beta1 = 0.9,
                                                   .beta2 = 0.999,
                                                   .max_norm = max_norms[i]};
                reference_store(&args.updates, 0, 0, count);
                for (int64_t j = 0; j < n; j++)
                    reference_store(&args.squares, 0, j, 1e4 * (double)(j + 1));
                reference_store(&args.total, 0, 0, 321.0);
                reference_store(&args.total, 0, 1, count);
                struct gradient_scale_args mistaken = args;
                mistaken.beta1 = 0.91;
                check_noticed(trial, OP_GRADIENT_SCALE, &args, &mistaken);
                check_op(trial, OP_GRADIENT_SCALE, &args);
            }
}

/* Gradients that are not finite make no update, so they are not counted, and what they give does not stay. */
static void test_updates(struct executor *executor)
{
    static const double squares[5] = {4, INFINITY, 9, NAN, 16}, losses[5] = {1, 1, NAN, 1, 1};
    enum { SQUARES, TOTAL, SCALE, NORM, UPDATES, CORRECTIONS, TENSORS };
    static const int counts[TENSORS] = {1, 2, 1, 1, 1, 2};
    struct stream stream = {.executor = executor};
    struct tensor at[TENSORS];
    for (int i = 0; i < TENSORS; i++) {
        enum dtype dtype = i == SQUARES || i == TOTAL || i == UPDATES ? DTYPE_F64 : DTYPE_F32;
        void *data = executor->class->allocate(executor, counts[i] * dtype_size(dtype), MEMORY_DEVICE);
        at[i] = tensor_vector(data, dtype, counts[i]);
    }
    for (int i = 0, made = 0; i < 5; i++) {
        const bool finite = isfinite(squares[i]) && isfinite(losses[i]);
        double updates;
        float scale, corrections[2];
        made += finite;
        LAUNCH(&stream, FILL, fill, .x = at[SQUARES], .value = squares[i]);
        LAUNCH(&stream, FILL, fill, .x = at[TOTAL], .value = losses[i]);
        LAUNCH(&stream, GRADIENT_SCALE, gradient_scale, .squares = at[SQUARES], .total = at[TOTAL], .scale = at[SCALE],
               .norm = at[NORM], .updates = at[UPDATES], .corrections = at[CORRECTIONS], .beta1 = 0.9, .beta2 = 0.95);
        LAUNCH(&stream, COPY, copy, .from = at[SCALE], .to = tensor_vector(&scale, DTYPE_F32, 1));
        LAUNCH(&stream, COPY, copy, .from = at[UPDATES], .to = tensor_vector(&updates, DTYPE_F64, 1));
        LAUNCH(&stream, COPY, copy, .from = at[CORRECTIONS], .to = tensor_vector(corrections, DTYPE_F32, 2));
        stream_synchronize(&stream);
        CHECK(updates == made && isfinite(scale) == finite);
        CHECK_NEAR((double)corrections[0], 1 - pow(0.9, made), 1e-6, 0);
        CHECK_NEAR((double)corrections[1], 1 - pow(0.95, made), 1e-6, 0);
    }
    for (int i = 0; i < TENSORS; i++)
        executor->class->release(executor, at[i].data, MEMORY_DEVICE);
}

static void test_adamw(void)
{
    static const int64_t counts[5] = {1, 7, 64, 129, 40001};
    for (int64_t c = 0; c < COUNT(counts); c++)
        for (int kind = 0; kind < 4; kind++) { /* all in f32, a weight in halves, and its gradient bf16, all bf16 */
            const bool halves = kind == 1 || kind == 2;
            const enum dtype moments = storage[kind / 3], gradient = storage[kind / 2];
            struct trial *trial = trial_create("n %d, kind %d", (int)counts[c], kind);
            struct adamw_args args = {.weight = trial_normal(trial, storage[kind > 0], 1, counts[c], 1.0),
                                      .gradient = trial_normal(trial, gradient, 1, counts[c], 50.0),
                                      .m = trial_normal(trial, moments, 1, counts[c], 0.5),
                                      .v = trial_normal(trial, moments, 1, counts[c], 0.5),
                                      .step = trial_empty(trial, DTYPE_F32, 1, ADAMW_STEP_COUNT),
                                      .scale = trial_empty(trial, DTYPE_F32, 1, 1),
                                      .beta1 = 0.9f,
                                      .beta2 = 0.95f,
                                      .eps = 1e-3f,
                                      .weight_decay = 0.1f,
                                      .lr_factor = 2.0f};
            for (int64_t i = 0; i < counts[c]; i++)
                reference_store(&args.v, 0, i, fabs(reference_load(&args.v, 0, i)));
            if (halves)
                args.low = trial_normal(trial, DTYPE_I16, 1, counts[c], 8000.0);
            reference_store(&args.step, 0, ADAMW_LR, 0.05);
            reference_store(&args.step, 0, ADAMW_CORRECTION_1, 1.0 - pow(0.9, 3.0));
            reference_store(&args.step, 0, ADAMW_CORRECTION_2, 1.0 - pow(0.95, 3.0));
            reference_store(&args.scale, 0, 0, 0.02);
            struct adamw_args mistaken = args;
            mistaken.weight_decay = 0.101f;
            if (kind == 0) /* others' values show no more than the moments */
                check_noticed(trial, OP_ADAMW, &args, &mistaken);
            mistaken = args;
            mistaken.eps = 2e-3f;
            if (kind == 0)
                check_noticed(trial, OP_ADAMW, &args, &mistaken);
            check_op(trial, OP_ADAMW, &args);
        }
}

static const int64_t muon_counts[5] = {1, 7, 64, 129, 40001};

/* skipped: the scale is NaN. */
static void test_momentum(bool nesterov, bool skipped)
{
    for (int64_t c = 0; c < COUNT(muon_counts); c++)
        for (int kind = 0; kind < 4; kind++) { /* all in f32, a bf16 update, and a bf16 gradient, all bf16 */
            struct trial *trial =
                trial_create("momentum n %d, kind %d, nesterov %d", (int)muon_counts[c], kind, nesterov);
            struct momentum_args args = {.gradient = trial_normal(trial, storage[kind / 2], 1, muon_counts[c], 50.0),
                                         .m = trial_normal(trial, storage[kind / 3], 1, muon_counts[c], 0.5),
                                         .update = trial_empty(trial, storage[kind > 0], 1, muon_counts[c]),
                                         .scale = trial_empty(trial, DTYPE_F32, 1, 1),
                                         .momentum = 0.9f,
                                         .nesterov = nesterov};
            reference_store(&args.scale, 0, 0, skipped ? NAN : 0.02);
            struct momentum_args mistaken = args;
            mistaken.nesterov = !nesterov;
            if (!skipped)
                check_noticed(trial, OP_MOMENTUM, &args, &mistaken);
            mistaken = args;
            mistaken.momentum = 0.95;
            if (!skipped && muon_counts[c] > 1)
                check_noticed(trial, OP_MOMENTUM, &args, &mistaken);
            check_op(trial, OP_MOMENTUM, &args);
        }
}

static void test_muon(void)
{
    for (int64_t c = 0; c < COUNT(muon_counts); c++)
        for (int kind = 0; kind < 4; kind++) { /* all in f32, a weight in halves with a bf16 update, bf16, skipped */
            struct trial *trial = trial_create("muon n %d, kind %d", (int)muon_counts[c], kind);
            struct muon_args args = {.weight =
                                         trial_normal(trial, storage[kind == 1 || kind == 2], 1, muon_counts[c], 1.0),
                                     .update = trial_normal(trial, storage[kind > 0], 1, muon_counts[c], 1.0),
                                     .rate = trial_empty(trial, DTYPE_F32, 1, 1),
                                     .scale = trial_empty(trial, DTYPE_F32, 1, 1),
                                     .lr_factor = 2.0,
                                     .weight_decay = 0.1,
                                     .adjustment = 3.0};
            if (kind == 1)
                args.low = trial_normal(trial, DTYPE_I16, 1, muon_counts[c], 8000.0);
            reference_store(&args.rate, 0, 0, 0.05);
            reference_store(&args.scale, 0, 0, kind == 3 ? NAN : 0.02);
            struct muon_args mistaken = args;
            mistaken.weight_decay = 0.101;
            if (kind == 0)
                check_noticed(trial, OP_MUON, &args, &mistaken);
            mistaken = args;
            mistaken.adjustment = 3.01;
            if (kind == 0)
                check_noticed(trial, OP_MUON, &args, &mistaken);
            check_op(trial, OP_MUON, &args);
        }
}

/* A weight in halves goes the way of a whole one, to the bit. */
static void test_muon_halves(struct executor *executor)
{
    enum { COUNT_OF_NUMBERS = 40001, WHOLE = 0, UPDATE, RATE, SCALE, HIGH, LOW, JOINED, TENSORS };
    struct stream stream = {.executor = executor};
    struct tensor at[TENSORS], drawn[2], host[2];
    struct trial *trial = trial_create("muon in halves");
    for (int i = 0; i < TENSORS; i++) {
        const enum dtype dtype = i == HIGH ? DTYPE_BF16 : i == LOW ? DTYPE_I16 : DTYPE_F32;
        const int64_t count = i == RATE || i == SCALE ? 1 : COUNT_OF_NUMBERS;
        at[i] =
            tensor_vector(executor->class->allocate(executor, count * dtype_size(dtype), MEMORY_DEVICE), dtype, count);
    }
    for (int i = WHOLE; i <= UPDATE; i++) {
        drawn[i] = trial_normal(trial, DTYPE_F32, 1, COUNT_OF_NUMBERS, 1.0);
        LAUNCH(&stream, COPY, copy, .from = drawn[i], .to = at[i]);
    }
    LAUNCH(&stream, FILL, fill, .x = at[RATE], .value = 0.05);
    LAUNCH(&stream, FILL, fill, .x = at[SCALE], .value = 1);
    LAUNCH(&stream, SPLIT, split, .from = at[WHOLE], .high = at[HIGH], .low = at[LOW]);
    struct muon_args args = {.weight = at[WHOLE],
                             .update = at[UPDATE],
                             .rate = at[RATE],
                             .scale = at[SCALE],
                             .lr_factor = 1,
                             .weight_decay = 0.1,
                             .adjustment = 0.7};
    launch(&stream, OP_MUON, &args);
    args.weight = at[HIGH];
    args.low = at[LOW];
    launch(&stream, OP_MUON, &args);
    LAUNCH(&stream, JOIN, join, .high = at[HIGH], .low = at[LOW], .to = at[JOINED]);
    for (int i = 0; i < 2; i++) {
        host[i] = trial_empty(trial, DTYPE_F32, 1, COUNT_OF_NUMBERS);
        LAUNCH(&stream, COPY, copy, .from = at[i == 0 ? WHOLE : JOINED], .to = host[i]);
    }
    stream_synchronize(&stream);
    CHECK(memcmp(host[0].data, host[1].data, COUNT_OF_NUMBERS * sizeof(float)) == 0);
    CHECK(memcmp(host[0].data, drawn[WHOLE].data, COUNT_OF_NUMBERS * sizeof(float)) != 0);
    for (int i = 0; i < TENSORS; i++)
        executor->class->release(executor, at[i].data, MEMORY_DEVICE);
    trial_destroy(trial);
}

/* A weight in halves goes the way of a whole one, to the bit. */
static void test_adamw_halves(struct executor *executor)
{
    enum { COUNT_OF_NUMBERS = 40001, WHOLE = 0, GRADIENT, M, V, STEP, SCALE, HIGH, LOW, M_TOO, V_TOO, JOINED, TENSORS };
    struct stream stream = {.executor = executor};
    struct tensor at[TENSORS];
    for (int i = 0; i < TENSORS; i++) {
        enum dtype dtype = i == HIGH ? DTYPE_BF16 : i == LOW ? DTYPE_I16 : DTYPE_F32;
        int64_t count = i == SCALE ? 1 : i == STEP ? ADAMW_STEP_COUNT : COUNT_OF_NUMBERS;
        at[i] =
            tensor_vector(executor->class->allocate(executor, count * dtype_size(dtype), MEMORY_DEVICE), dtype, count);
    }
    struct trial *trial = trial_create("halves");
    for (int i = WHOLE; i <= M; i++) {
        struct tensor drawn = trial_normal(trial, DTYPE_F32, 1, COUNT_OF_NUMBERS, 1.0);
        LAUNCH(&stream, COPY, copy, .from = drawn, .to = at[i]);
        stream_synchronize(&stream);
    }
    LAUNCH(&stream, FILL, fill, .x = at[V], .value = 0.3);
    LAUNCH(&stream, FILL, fill, .x = at[STEP], .value = 0.05);
    LAUNCH(&stream, FILL, fill, .x = at[SCALE], .value = 0.7);
    LAUNCH(&stream, COPY, copy, .from = at[M], .to = at[M_TOO]);
    LAUNCH(&stream, COPY, copy, .from = at[V], .to = at[V_TOO]);
    LAUNCH(&stream, SPLIT, split, .from = at[WHOLE], .high = at[HIGH], .low = at[LOW]);
    struct adamw_args args = {.weight = at[WHOLE],
                              .gradient = at[GRADIENT],
                              .m = at[M],
                              .v = at[V],
                              .step = at[STEP],
                              .scale = at[SCALE],
                              .beta1 = 0.9,
                              .beta2 = 0.95,
                              .eps = 1e-8,
                              .weight_decay = 0.1,
                              .lr_factor = 1};
    for (int update = 0; update < 3; update++) {
        launch(&stream, OP_ADAMW, &args);
        struct adamw_args halves = args;
        halves.weight = at[HIGH], halves.low = at[LOW], halves.m = at[M_TOO], halves.v = at[V_TOO];
        launch(&stream, OP_ADAMW, &halves);
    }
    LAUNCH(&stream, JOIN, join, .high = at[HIGH], .low = at[LOW], .to = at[JOINED]);
    struct tensor whole = fetch(&stream, &at[WHOLE]), joined = fetch(&stream, &at[JOINED]);
    CHECK(memcmp(whole.data, joined.data, (size_t)tensor_extent(&whole)) == 0);
    memory_free(whole.data);
    memory_free(joined.data);
    for (int i = 0; i < TENSORS; i++)
        executor->class->release(executor, at[i].data, MEMORY_DEVICE);
    trial_destroy(trial);
}

/* One step of torch.optim.AdamW(fused=True) on bf16 tensors, on its CPU (PyTorch 2.15): lr 0.05, betas (0.9, 0.95), eps
 * 1e-8, weight decay 0.1, the third step. */
static void test_adamw_bf16(struct executor *executor)
{
    enum { NUMBERS = 12, WEIGHT = 0, GRADIENT, M, V, STEP, SCALE, TENSORS };
    static const uint16_t before[4][NUMBERS] = {
        {0xc022, 0x4009, 0x3fd2, 0x3f91, 0x3f22, 0x3e01, 0xbec2, 0xbf62, 0xbfb2, 0xbff2, 0xc01a, 0x4011},
        {0xbfb2, 0x3fa6, 0x3f8e, 0x3f6d, 0x3f3d, 0x3f0e, 0x3ebd, 0x3e3d, 0x0000, 0xbe3d, 0xbebd, 0xbf0e},
        {0xbe4c, 0x3ddf, 0x0000, 0xbddf, 0x3e4c, 0x3dba, 0xbc94, 0xbe02, 0x3e3a, 0x3d94, 0xbd14, 0xbe14},
        {0x3c88, 0x3e6d, 0x3e08, 0x3d08, 0x3e7e, 0x3e19, 0x3d4c, 0x3e88, 0x3e2a, 0x3d88, 0x3e90, 0x3e3b}};
    static const uint16_t after[4][NUMBERS] = {
        {0xc01d, 0x4006, 0x3fcf, 0x3f90, 0x3f18, 0x3dcf, 0xbec4, 0xbf5d, 0xbfb5, 0xbff2, 0xc019, 0x4012},
        {0xbfb2, 0x3fa6, 0x3f8e, 0x3f6d, 0x3f3d, 0x3f0e, 0x3ebd, 0x3e3d, 0x0000, 0xbe3d, 0xbebd, 0xbf0e},
        {0xbea3, 0x3e69, 0x3de3, 0xbbb2, 0x3e82, 0x3e0c, 0x3ca9, 0xbdc4, 0x3e27, 0x3d3f, 0xbd8e, 0xbe3e},
        {0x3de6, 0x3e9c, 0x3e40, 0x3d98, 0x3e87, 0x3e21, 0x3d5e, 0x3e82, 0x3e22, 0x3d85, 0x3e8c, 0x3e41}};
    float step[ADAMW_STEP_COUNT] = {
        [ADAMW_LR] = 0.05f,
        [ADAMW_CORRECTION_1] = (float)(1 - 0.9 * 0.9 * 0.9),
        [ADAMW_CORRECTION_2] = (float)(1 - 0.95 * 0.95 * 0.95),
    };
    float scale = 1.0f;
    struct stream stream = {.executor = executor};
    struct tensor host[TENSORS], at[TENSORS];
    uint16_t numbers[4][NUMBERS];
    memcpy(numbers, before, sizeof numbers);
    for (int i = 0; i < TENSORS; i++) {
        host[i] = i < STEP    ? tensor_vector(numbers[i], DTYPE_BF16, NUMBERS)
                  : i == STEP ? tensor_vector(step, DTYPE_F32, ADAMW_STEP_COUNT)
                              : tensor_vector(&scale, DTYPE_F32, 1);
        at[i] = host[i];
        at[i].data = executor->class->allocate(executor, tensor_extent(&host[i]), MEMORY_DEVICE);
        LAUNCH(&stream, COPY, copy, .from = host[i], .to = at[i]);
    }
    LAUNCH(&stream, ADAMW, adamw, .weight = at[WEIGHT], .gradient = at[GRADIENT], .m = at[M], .v = at[V],
           .step = at[STEP], .scale = at[SCALE], .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1,
           .lr_factor = 1);
    for (int i = 0; i < STEP; i++)
        LAUNCH(&stream, COPY, copy, .from = at[i], .to = host[i]);
    stream_synchronize(&stream);
    CHECK(memcmp(numbers, after, sizeof after) == 0);
    for (int i = 0; i < TENSORS; i++)
        executor->class->release(executor, at[i].data, MEMORY_DEVICE);
}

int main(int count, char **arguments)
{
    executors_open(count, arguments);
    test_sum_squares();
    test_gradient_scale();
    test_adamw();
    for (int i = 0; i < 4; i++)
        test_momentum(i % 2, i / 2);
    test_muon();
    for (int i = 0; i < executor_count; i++) {
        test_updates(executors[i]);
        test_adamw_halves(executors[i]), test_muon_halves(executors[i]), test_adamw_bf16(executors[i]);
    }
    executors_close();
    return check_end();
}
