/* Loss, optimizer, moves and collectives of an executor match the oracle within bounds from eps and length: f32 and
 * bf16 storage, odd shapes, strided views, aliases, accumulation. AdamW in bf16 is PyTorch's. The comparison itself
 * is checked too. Runs on the CPU executor, or with "cuda" on a GPU; so do t_ops_layer, t_ops_matrix and
 * t_ops_quantize. */
#include "ops.h"

#include "base/memory.h"
#include "ref/fetch.h"

/* -- Loss and optimizer -------------------------------------------------------------------------------------------- */

static void test_xent(void)
{
    static const int64_t vocabularies[] = {5, 33, 64, 256, 1000, 9001, 41000};
    for (int64_t d = 0; d < 2; d++)
        for (int64_t v = 0; v < COUNT(vocabularies); v++)
            for (int64_t t = 0; t < COUNT(lengths); t++)
                for (int ignore = 0; ignore < 3; ignore++) { /* 0 none, 1 some, 2 all labels */
                    int64_t vocabulary = vocabularies[v], tokens = vocabulary > 1000 ? 1 + 2 * t : lengths[t];
                    double deviation = (v + t) % 3 == 2 ? 40.0 : 2.0;
                    struct trial *trial = trial_create("%s T %d V %d, ignored %d, deviation %g", dtype_name(storage[d]),
                                                       (int)tokens, (int)vocabulary, ignore, deviation);
                    struct tensor labels = trial_draw_integers(trial, tokens, (int32_t)vocabulary);
                    for (int64_t i = 0; i < tokens; i++)
                        if (ignore == 2 || (ignore == 1 && i % 3 == 0))
                            reference_store(&labels, 0, i, -100);
                    struct xent_stat_args stat = {
                        .logits = trial_matrix(trial, storage[d], tokens, vocabulary, t % 2, deviation),
                        .labels = labels,
                        .loss = trial_empty(trial, DTYPE_F32, 1, tokens),
                        .lse = trial_empty(trial, DTYPE_F32, 1, tokens),
                        .total = trial_empty(trial, DTYPE_F64, 1, 2)};
                    reference_store(&stat.total, 0, 0, 1000.0);
                    reference_store(&stat.total, 0, 1, 300.0);
                    compare_op(trial, OP_XENT_STAT, &stat);
                    const float z_loss = t % 2 == 0 ? 0.0f : 0.01f;
                    struct xent_both_args both = {stat.logits, stat.labels, stat.loss, stat.total, z_loss};
                    compare_op(trial, OP_XENT_BOTH, &both);

                    /* the gradient reads the statistics as stored */
                    reference_xent_stat(&stat);
                    struct xent_grad_args grad = {
                        .logits = stat.logits, .labels = labels, .lse = stat.lse, .z_loss = z_loss};
                    check_op(trial, OP_XENT_GRAD, &grad);
                }
}

static void draw_none(const struct tensor *labels)
{
    for (int64_t t = 1; t < labels->cols; t += 4)
        reference_store(labels, 0, t, -100);
}

static void test_mse(void)
{
    static const int64_t numbers[3] = {1, 3, 40};
    for (int64_t d = 0; d < 2; d++)
        for (int64_t n = 0; n < COUNT(numbers); n++)
            for (int64_t t = 0; t < COUNT(lengths); t++) {
                struct trial *trial =
                    trial_create("mse: %s T %d N %d", dtype_name(storage[d]), (int)lengths[t], (int)numbers[n]);
                struct mse_args mse = {.predictions =
                                           trial_matrix(trial, storage[d], lengths[t], numbers[n], t % 2, 1.0),
                                       .labels = trial_draw_integers(trial, lengths[t], 7),
                                       .targets = trial_normal(trial, DTYPE_F32, 7, numbers[n], 1.0),
                                       .loss = trial_empty(trial, DTYPE_F32, 1, lengths[t]),
                                       .total = trial_empty(trial, DTYPE_F64, 1, 2)};
                draw_none(&mse.labels);
                reference_store(&mse.total, 0, 0, 1000.0);
                reference_store(&mse.total, 0, 1, 300.0);
                if (t % 3 > 0)
                    mse.gradient =
                        t % 3 == 1 ? mse.predictions : trial_empty(trial, storage[d], lengths[t], numbers[n]);
                struct mse_args mistaken = mse; /* targets of other rows */
                mistaken.labels = trial_draw_integers(trial, lengths[t], 7);
                if (lengths[t] > 60)
                    check_noticed(trial, OP_MSE, &mse, &mistaken);
                check_op(trial, OP_MSE, &mse);
            }
}

static void test_class_weight(void)
{
    enum { CLASSES = 5 };
    for (int64_t d = 0; d < 2; d++)
        for (int64_t t = 0; t < COUNT(lengths); t++) {
            struct trial *trial = trial_create("class_weight: %s T %d", dtype_name(storage[d]), (int)lengths[t]);
            struct class_weight_args args = {.labels = trial_draw_integers(trial, lengths[t], CLASSES),
                                             .weights = trial_normal(trial, DTYPE_F32, 1, CLASSES, 1.0),
                                             .loss = trial_normal(trial, DTYPE_F32, 1, lengths[t], 1.0),
                                             .total = trial_empty(trial, DTYPE_F64, 1, 2)};
            draw_none(&args.labels);
            reference_store(&args.total, 0, 0, 10.0);
            reference_store(&args.total, 0, 1, 3.0);
            if (t % 3 > 0)
                args.gradient = trial_matrix(trial, storage[d], lengths[t], CLASSES, t % 2, 1.0);
            struct class_weight_args mistaken = args;
            mistaken.weights = trial_normal(trial, DTYPE_F32, 1, CLASSES, 1.0);
            if (lengths[t] > 60)
                check_noticed(trial, OP_CLASS_WEIGHT, &args, &mistaken);
            check_op(trial, OP_CLASS_WEIGHT, &args);
        }
}

/* A part of the vocabulary that starts at `vocabulary / 2`: labels are drawn from twice as many, so some are of parts
 * before it and behind it. */
static void test_xent_part(enum dtype dtype, int64_t tokens, int64_t vocabulary, bool ignores, double deviation)
{
    struct trial *trial = trial_create("part: %s T %d V %d%s, deviation %g", dtype_name(dtype), (int)tokens,
                                       (int)vocabulary, ignores ? ", some ignored" : "", deviation);
    struct tensor labels = trial_draw_integers(trial, tokens, (int32_t)(2 * vocabulary));
    for (int64_t t = 0; ignores && t < tokens; t += 3)
        reference_store(&labels, 0, t, -100);
    struct xent_part_args part = {.logits = trial_matrix(trial, dtype, tokens, vocabulary, tokens % 2, deviation),
                                  .labels = labels,
                                  .statistics = trial_strided(trial, DTYPE_F32, XENT_STATISTICS, tokens, tokens + 3),
                                  .origin = vocabulary / 2};
    struct xent_part_args mistaken = part;
    mistaken.origin++;
    if (tokens > 60)
        check_noticed(trial, OP_XENT_PART, &part, &mistaken);
    compare_op(trial, OP_XENT_PART, &part);

    struct tensor lse = trial_normal(trial, DTYPE_F32, 1, tokens, 1.0);
    reference_xent_part(&part);
    for (int64_t t = 0; t < tokens; t++) { /* of a whole vocabulary: above the part's largest */
        double above = fabs(reference_load(&lse, 0, t));
        reference_store(&lse, 0, t, above + reference_load(&part.statistics, XENT_LARGEST, t));
    }
    struct xent_grad_args grad = {
        .logits = part.logits, .labels = labels, .lse = lse, .origin = part.origin, .z_loss = 0.001f};
    struct xent_grad_args displaced = grad, without = grad;
    displaced.origin++;
    without.z_loss = 0.0f;
    if (tokens > 60) {
        check_noticed(trial, OP_XENT_GRAD, &grad, &displaced);
        check_noticed(trial, OP_XENT_GRAD, &grad, &without);
    }
    check_op(trial, OP_XENT_GRAD, &grad);
}

/* Of parts whose largest elements are near each other or far apart. */
static void test_xent_merge(int64_t parts, int64_t tokens, bool ignores, double deviation)
{
    struct trial *trial = trial_create("merge: %d parts, T %d%s, deviation %g", (int)parts, (int)tokens,
                                       ignores ? ", some ignored" : "", deviation);
    struct tensor labels = trial_draw_integers(trial, tokens, (int32_t)parts);
    struct xent_merge_args merge = {
        .statistics = trial_matrix(trial, DTYPE_F32, parts * XENT_STATISTICS, tokens, tokens % 2, deviation),
        .loss = trial_empty(trial, DTYPE_F32, 1, tokens),
        .lse = trial_empty(trial, DTYPE_F32, 1, tokens),
        .total = trial_empty(trial, DTYPE_F64, 1, 2)};
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t p = 0; p < parts; p++) { /* the label's number is that of its part */
            const int64_t sum = p * XENT_STATISTICS + XENT_SUM, target = p * XENT_STATISTICS + XENT_TARGET;
            reference_store(&merge.statistics, sum, t, 1.0 + fabs(reference_load(&merge.statistics, sum, t)));
            if (reference_index(&labels, t) != p)
                reference_store(&merge.statistics, target, t, 0.0);
        }
    for (int64_t t = 0; ignores && t < tokens; t += 3)
        reference_store(&labels, 0, t, -100);
    merge.labels = labels;
    reference_store(&merge.total, 0, 0, 1000.0);
    reference_store(&merge.total, 0, 1, 300.0);
    struct xent_merge_args mistaken = merge; /* the last part left out */
    mistaken.statistics = tensor_rows(&merge.statistics, 0, (parts - 1) * XENT_STATISTICS);
    if (parts > 1 && tokens > 60)
        check_noticed(trial, OP_XENT_MERGE, &merge, &mistaken);
    check_op(trial, OP_XENT_MERGE, &merge);
}

static void test_xent_parts(void)
{
    static const int64_t vocabularies[4] = {1, 17, 64, 1003};
    for (int64_t t = 0; t < COUNT(lengths); t++)
        for (int64_t v = 0; v < COUNT(vocabularies); v++) {
            const double deviation = (v + t) % 3 == 2 ? 40.0 : 2.0;
            for (int64_t d = 0; d < 2; d++)
                test_xent_part(storage[d], lengths[t], vocabularies[v], (v + d) % 2, deviation);
            test_xent_merge(1 + 2 * v, 5 * lengths[t], v % 2, deviation);
        }
}

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

enum { EXACT_NUMBERS = 37 * SQUARES_BLOCK, EXACT_CUT = 5 * SQUARES_BLOCK };
static const double exact_quantum = 0x1p-30, exact_most = 1000, squares_quantum = 0x1p8;

/* The sum of squares of elements first .. end - 1, added to what parts hold. */
static void add_squares(struct stream *stream, const struct tensor *x, int64_t first, int64_t end,
                        const struct tensor *sum, double parts[SQUARES_PARTS])
{
    const struct sum_squares_args args = {tensor_columns(x, first, end - first), *sum, squares_quantum};
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

/* -- Moves and collectives ----------------------------------------------------------------------------------------- */

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

/* Collectives go to the group's table, once each, with the arguments as they are. */
static struct tensor seen[7];

static void see_all_reduce(struct group *group, struct stream *stream, const struct all_reduce_args *args)
{
    (void)stream;
    CHECK(args->group == group);
    seen[0] = args->x;
}

static void see_reduce_scatter(struct group *group, struct stream *stream, const struct reduce_scatter_args *args)
{
    (void)stream;
    CHECK(args->group == group && args->in.rows == 2);
    seen[1] = args->out;
}

static void see_all_gather(struct group *group, struct stream *stream, const struct all_gather_args *args)
{
    (void)stream;
    CHECK(args->group == group && args->in.rows == 1);
    seen[2] = args->out;
}

static void see_broadcast(struct group *group, struct stream *stream, const struct broadcast_args *args)
{
    (void)stream;
    CHECK(args->group == group && args->root == 1);
    seen[3] = args->x;
}

static void see_all_to_all(struct group *group, struct stream *stream, const struct all_to_all_args *args)
{
    (void)stream;
    CHECK(args->group == group && args->in.rows == 2);
    seen[4] = args->out;
}

static void see_shift(struct group *group, struct stream *stream, const struct shift_args *args)
{
    (void)stream;
    CHECK(args->group == group && args->in.rows == 1);
    seen[5] = args->out;
}

static void see_send_receive(struct group *group, struct stream *stream, const struct send_receive_args *args)
{
    (void)stream;
    CHECK(args->group == group && !tensor_present(&args->to_next) && !tensor_present(&args->from_previous));
    CHECK(args->to_previous.rows == 2 && args->to_previous.data == args->from_next.data);
    seen[6] = args->from_next;
}

static void test_collectives(struct executor *executor)
{
    static const struct group_class class = {.name = "seen",
                                             .all_reduce = see_all_reduce,
                                             .reduce_scatter = see_reduce_scatter,
                                             .all_gather = see_all_gather,
                                             .broadcast = see_broadcast,
                                             .all_to_all = see_all_to_all,
                                             .shift = see_shift,
                                             .send_receive = see_send_receive};
    struct group group = {.name = "test", .rank = 0, .size = 2, .class = &class};
    float data[8] = {0};
    struct tensor one = tensor_vector(data, DTYPE_F32, 4), two = tensor_matrix(data, DTYPE_F32, 2, 4);
    struct stream stream = {.executor = executor, .id = STREAM_REDUCE};
    memset(seen, 0, sizeof seen);
    LAUNCH(&stream, ALL_REDUCE, all_reduce, .group = &group, .x = one);
    LAUNCH(&stream, REDUCE_SCATTER, reduce_scatter, .group = &group, .in = two, .out = one);
    LAUNCH(&stream, ALL_GATHER, all_gather, .group = &group, .in = one, .out = two);
    LAUNCH(&stream, BROADCAST, broadcast, .group = &group, .x = one, .root = 1);
    LAUNCH(&stream, ALL_TO_ALL, all_to_all, .group = &group, .in = two, .out = two);
    LAUNCH(&stream, SHIFT, shift, .group = &group, .in = one, .out = one);
    LAUNCH(&stream, SEND_RECEIVE, send_receive, .group = &group, .to_previous = two, .from_next = two);
    stream_synchronize(&stream);
    for (int i = 0; i < COUNT(seen); i++)
        CHECK(seen[i].data == data);
}

/* Ops with scratch on either stream, side by side; and a recording that worked in scratch which has since grown. */
static void test_scratch(struct executor *executor)
{
    enum { TERMS = 300007, TIMES = 8 };
    const struct executor_class *class = executor->class;
    struct stream streams[STREAM_COUNT];
    struct tensor host = tensor_vector(class->allocate(executor, TERMS * 4, MEMORY_HOST), DTYPE_F32, TERMS), x = host;
    struct tensor found =
                      tensor_vector(class->allocate(executor, STREAM_COUNT * 8, MEMORY_HOST), DTYPE_F64, STREAM_COUNT),
                  sums = found;
    x.data = class->allocate(executor, TERMS * 4, MEMORY_DEVICE);
    sums.data = class->allocate(executor, STREAM_COUNT * 8, MEMORY_DEVICE);
    for (int64_t i = 0; i < TERMS; i++)
        ((float *)host.data)[i] = i % 2 ? 1.0f : 2.0f;
    struct sum_squares_args args[STREAM_COUNT];
    int64_t bytes = 0;
    for (int s = 0; s < STREAM_COUNT; s++) {
        streams[s] = (struct stream){executor, s, NULL};
        args[s] = (struct sum_squares_args){.x = x, .sum = tensor_columns(&sums, s, 1)};
        bytes = class->workspace(executor, OP_SUM_SQUARES, &args[s]);
        class->reserve(executor, s, bytes);
    }
    CHECK(bytes > 0);
    LAUNCH(&streams[0], COPY, copy, .from = host, .to = x);
    stream_synchronize(&streams[0]);
    for (int i = 0; i < TIMES; i++)
        launch(&streams[i % STREAM_COUNT], OP_SUM_SQUARES, &args[i % STREAM_COUNT]);
    if (executor->capture != NULL) {
        executor->capture->begin(executor->owner, &streams[0]);
        launch(&streams[0], OP_SUM_SQUARES, &args[0]);
        void *recording = executor->capture->end(executor->owner, &streams[0]);
        class->reserve(executor, 0, 100 * bytes);
        struct tensor other = tensor_vector(class->allocate(executor, bytes, MEMORY_DEVICE), DTYPE_I16, bytes / 2);
        struct tensor seen_of_it = other;
        seen_of_it.data = class->allocate(executor, bytes, MEMORY_HOST);
        launch_replay(&streams[0], recording, "replay", 0);
        LAUNCH(&streams[0], COPY, copy, .from = other, .to = seen_of_it);
        stream_synchronize(&streams[0]);
        for (int64_t i = 0; i < bytes; i++)
            if (((char *)seen_of_it.data)[i] != 0) {
                CHECK(!"what was allocated since is written to");
                break;
            }
        executor->capture->discard(executor->owner, recording);
        class->release(executor, seen_of_it.data, MEMORY_HOST);
        class->release(executor, other.data, MEMORY_DEVICE);
    }
    for (int s = STREAM_COUNT - 1; s >= 0; s--)
        stream_synchronize(&streams[s]);
    LAUNCH(&streams[0], COPY, copy, .from = sums, .to = found);
    stream_synchronize(&streams[0]);
    for (int s = 0; s < STREAM_COUNT; s++)
        CHECK(((double *)found.data)[s] == (TERMS / 2) * 5 + 4);
    class->release(executor, x.data, MEMORY_DEVICE);
    class->release(executor, sums.data, MEMORY_DEVICE);
    class->release(executor, host.data, MEMORY_HOST);
    class->release(executor, found.data, MEMORY_HOST);
}

/* -- The comparison itself ------------------------------------------------------------------------------------------
 */

/* An executor that runs swiglu on another one and then does one thing wrong. */
enum fault {
    FAULT_NONE,
    FAULT_VALUE,
    FAULT_UNWRITTEN,
    FAULT_BEYOND,
    FAULT_GAP,
    FAULT_INPUT,
    FAULT_UNSTEADY,
    FAULT_COUNT
};

struct faulty {
    struct executor executor; /* first, so that a pointer to it is a pointer to this */
    enum fault fault;
    int launches;
};

static void faulty_launch(struct executor *executor, struct stream *stream, enum op op, const void *args)
{
    struct faulty *faulty = (struct faulty *)executor;
    const struct swiglu_forward_args *a = args;
    int64_t row = a->y.rows - 1, col = a->y.cols - 1;
    executors[0]->class->launch(executors[0], stream, op, args);
    faulty->launches++;
    float *last = tensor_at(&a->y, row, col);
    switch (faulty->fault) {
    case FAULT_VALUE:
        *last *= 1.001f;
        break;
    case FAULT_UNWRITTEN:
        memset(last, 0xff, sizeof *last);
        break;
    case FAULT_BEYOND:
        last[1] = 0.0f;
        break;
    case FAULT_GAP:
        *(float *)tensor_at(&a->y, 0, col + 1) = 0.0f;
        break;
    case FAULT_INPUT:
        *(float *)tensor_at(&a->x, 0, 0) += 1.0f;
        break;
    case FAULT_UNSTEADY: /* within the bounds, yet not the same twice */
        *last = faulty->launches % 2 ? nextafterf(*last, 0.0f) : *last;
        break;
    case FAULT_NONE:
    case FAULT_COUNT:
        break;
    }
}

/* swiglu needs no scratch */
static int64_t faulty_workspace(struct executor *executor, enum op op, const void *args)
{
    (void)executor, (void)op, (void)args;
    return 0;
}

static void faulty_reserve(struct executor *executor, int stream, int64_t bytes)
{
    (void)executor, (void)stream, (void)bytes;
}

static void test_comparison(void)
{
    struct executor_class class = *executors[0]->class;
    class.launch = faulty_launch;
    class.workspace = faulty_workspace;
    class.reserve = faulty_reserve;
    for (enum fault fault = FAULT_NONE; fault < FAULT_COUNT; fault++) {
        struct faulty faulty = {.executor = {.class = &class}, .fault = fault};
        struct trial *trial = trial_create("fault %d", (int)fault);
        struct swiglu_forward_args args = {.x = trial_matrix(trial, DTYPE_F32, 3, 10, true, 1.0),
                                           .y = trial_strided(trial, DTYPE_F32, 3, 5, 8)};
        bounds_set(trial, OP_SWIGLU_FORWARD, &args);
        trial_expect(trial, OP_SWIGLU_FORWARD, &args);
        trial->quiet = true;
        CHECK((trial_compare(trial, &faulty.executor, OP_SWIGLU_FORWARD, &args) == 0) == (fault == FAULT_NONE));
        trial_destroy(trial);
    }
}

int main(int count, char **arguments)
{
    executors_open(count, arguments);
    if (!on_device) /* its faults write where the host can */
        test_comparison();
    test_xent();
    test_xent_parts();
    test_mse();
    test_class_weight();
    test_sum_squares();
    test_gradient_scale();
    test_adamw();
    test_affine();
    for (int i = 0; i < 4; i++)
        test_momentum(i % 2, i / 2);
    test_muon();
    for (int i = 0; i < executor_count; i++) {
        test_updates(executors[i]);
        test_adamw_halves(executors[i]), test_muon_halves(executors[i]), test_adamw_bf16(executors[i]),
            test_exact(executors[i]);
    }
    test_moves();
    test_ties();
    test_halves();
    for (int i = 0; i < executor_count; i++)
        test_collectives(executors[i]);
    for (int i = 0; i < executor_count; i++)
        test_scratch(executors[i]);
    executors_close();
    return check_end();
}
