/* The ops of the CPU executor against the oracle: loss, optimizer, moves, collectives; f32 and bf16 storage, odd
 * shapes, strided views, aliases and accumulation. And the comparison itself. Products and embedding: t_ops_matrix.c;
 * norms, rope and activations: t_ops_layer.c; attention: t_attention.c. */
#include "ops.h"

/* -- Loss and optimizer -------------------------------------------------------------------------------------------- */

static void test_xent(void)
{
    static const int64_t vocabularies[5] = {5, 33, 64, 256, 1000};
    for (int64_t d = 0; d < 2; d++)
        for (int64_t v = 0; v < COUNT(vocabularies); v++)
            for (int64_t t = 0; t < COUNT(lengths); t++)
                for (int ignore = 0; ignore < 3; ignore++) { /* 0 none, 1 some, 2 all labels */
                    int64_t tokens = lengths[t], vocabulary = vocabularies[v];
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

                    /* the gradient reads the statistics as stored */
                    reference_xent_stat(&stat);
                    struct xent_grad_args grad = {.logits = stat.logits, .labels = labels, .lse = stat.lse};
                    check_op(trial, OP_XENT_GRAD, &grad);
                }
}

static void test_sum_squares(void)
{
    static const int64_t shapes[6][2] = {{1, 1}, {1, 7}, {64, 33}, {129, 20}, {1, 100003}, {7, 20011}};
    for (int64_t s = 0; s < COUNT(shapes); s++) {
        struct trial *trial = trial_create("%d x %d", (int)shapes[s][0], (int)shapes[s][1]);
        struct sum_squares_args args = {.x = trial_matrix(trial, DTYPE_F32, shapes[s][0], shapes[s][1], s % 2, 1.0),
                                        .sum = trial_empty(trial, DTYPE_F64, 1, 1)};
        double first = NAN;
        for (int i = 0; i < executor_count && !on_device;
             i++) { /* the order depends on the shape alone: not on the threads */
            struct stream stream = {.executor = executors[i]};
            const struct executor_class *class = executors[i]->class;
            class->reserve(executors[i], class->workspace(executors[i], OP_SUM_SQUARES, &args));
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
                                                   .max_norm = max_norms[i]};
                for (int64_t j = 0; j < n; j++)
                    reference_store(&args.squares, 0, j, 1e4 * (double)(j + 1));
                reference_store(&args.total, 0, 0, 321.0);
                reference_store(&args.total, 0, 1, count);
                check_op(trial, OP_GRADIENT_SCALE, &args);
            }
}

static void test_adamw(void)
{
    static const int64_t counts[5] = {1, 7, 64, 129, 40001};
    for (int64_t c = 0; c < COUNT(counts); c++)
        for (int copy = 0; copy < 2; copy++) {
            struct trial *trial = trial_create("n %d, copy %d", (int)counts[c], copy);
            struct adamw_args args = {.weight = trial_normal(trial, DTYPE_F32, 1, counts[c], 1.0),
                                      .gradient = trial_normal(trial, DTYPE_F32, 1, counts[c], 50.0),
                                      .m = trial_normal(trial, DTYPE_F32, 1, counts[c], 0.5),
                                      .v = trial_normal(trial, DTYPE_F32, 1, counts[c], 0.5),
                                      .step = trial_empty(trial, DTYPE_F32, 1, ADAMW_STEP_COUNT),
                                      .scale = trial_empty(trial, DTYPE_F32, 1, 1),
                                      .beta1 = 0.9f,
                                      .beta2 = 0.95f,
                                      .eps = 1e-3f,
                                      .weight_decay = 0.1f,
                                      .lr_factor = 2.0f};
            for (int64_t i = 0; i < counts[c]; i++)
                reference_store(&args.v, 0, i, fabs(reference_load(&args.v, 0, i)));
            if (copy)
                args.copy = trial_empty(trial, DTYPE_BF16, 1, counts[c]);
            reference_store(&args.step, 0, ADAMW_LR, 0.05);
            reference_store(&args.step, 0, ADAMW_CORRECTION_1, 1.0 - pow(0.9, 3.0));
            reference_store(&args.step, 0, ADAMW_CORRECTION_2, 1.0 - pow(0.95, 3.0));
            reference_store(&args.scale, 0, 0, 0.02);
            struct adamw_args mistaken = args;
            mistaken.weight_decay = 0.101f;
            check_noticed(trial, OP_ADAMW, &args, &mistaken);
            mistaken = args;
            mistaken.eps = 2e-3f;
            check_noticed(trial, OP_ADAMW, &args, &mistaken);
            check_op(trial, OP_ADAMW, &args);
        }
}

/* -- Moves and collectives ----------------------------------------------------------------------------------------- */

static void test_moves(void)
{
    static const enum dtype floats[3] = {DTYPE_F32, DTYPE_BF16, DTYPE_F64};
    static const enum dtype any[4] = {DTYPE_F32, DTYPE_BF16, DTYPE_E4M3, DTYPE_I32};
    for (int64_t t = 0; t < COUNT(lengths); t++)
        for (int from = 0; from < 4; from++)
            for (int strided = 0; strided < 2; strided++) {
                int64_t rows = lengths[t], cols = rows == 129 ? 257 : 33;
                struct trial *trial;
                for (int to = 0; to < 3 && from < 3; to++) {
                    trial = trial_create("T %d %s to %s", (int)rows, dtype_name(floats[from]), dtype_name(floats[to]));
                    struct cast_args cast = {.from = trial_matrix(trial, floats[from], rows, cols, strided, 1.0),
                                             .to = trial_matrix(trial, floats[to], rows, cols, strided, 1.0)};
                    check_op_exact(trial, OP_CAST, &cast);
                }
                trial = trial_create("T %d %s, strided %d", (int)rows, dtype_name(any[from]), strided);
                struct copy_args copy = {.from = trial_matrix(trial, any[from], rows, cols, strided, 100.0),
                                         .to = trial_matrix(trial, any[from], rows, cols, !strided, 100.0)};
                check_op_exact(trial, OP_COPY, &copy);
                if (from == 3)
                    continue;
                trial = trial_create("T %d %s, strided %d", (int)rows, dtype_name(floats[from]), strided);
                struct fill_args fill = {.x = trial_matrix(trial, floats[from], rows, cols, strided, 1.0),
                                         .value = strided ? 0.1 : 0.0};
                check_op_exact(trial, OP_FILL, &fill);
            }
    /* every tie and every neighbour of a tie between bf16 numbers of one binade, and the overflow to infinity */
    struct trial *trial = trial_create("bf16 ties");
    struct cast_args cast = {.from = trial_empty(trial, DTYPE_F32, 3, 130),
                             .to = trial_empty(trial, DTYPE_BF16, 3, 130)};
    for (int64_t i = 0; i < 130; i++)
        for (int64_t side = 0; side < 3; side++) {
            double tie = i < 128 ? 1.0 + (double)(2 * i + 1) * 0x1p-8 : (i == 128 ? 0x1.ffp127 : -0x1.ffp127);
            reference_store(&cast.from, side, i, tie * (1.0 + (double)(side - 1) * 0x1p-23));
        }
    check_op_exact(trial, OP_CAST, &cast);

    /* f64 to bf16 is one rounding: by way of f32 each of these would become a tie and go to the wrong side */
    trial = trial_create("f64 to bf16 beside ties");
    cast =
        (struct cast_args){.from = trial_empty(trial, DTYPE_F64, 2, 128), .to = trial_empty(trial, DTYPE_BF16, 2, 128)};
    for (int64_t i = 0; i < 128; i++)
        for (int64_t side = 0; side < 2; side++)
            reference_store(&cast.from, side, i, 1.0 + (double)(2 * i + 1) * 0x1p-8 + (side ? 0x1p-40 : -0x1p-40));
    check_op_exact(trial, OP_CAST, &cast);
}

/* Collectives go to the group's table, once each, with the arguments as they are. */
static struct tensor seen[4];

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

static void test_collectives(struct executor *executor)
{
    static const struct group_class class = {.name = "seen",
                                             .all_reduce = see_all_reduce,
                                             .reduce_scatter = see_reduce_scatter,
                                             .all_gather = see_all_gather,
                                             .broadcast = see_broadcast};
    struct group group = {.name = "test", .rank = 0, .size = 2, .class = &class};
    float data[8] = {0};
    struct tensor one = tensor_vector(data, DTYPE_F32, 4), two = tensor_matrix(data, DTYPE_F32, 2, 4);
    struct stream stream = {.executor = executor, .id = STREAM_COMMUNICATION};
    memset(seen, 0, sizeof seen);
    LAUNCH(&stream, ALL_REDUCE, all_reduce, .group = &group, .x = one);
    LAUNCH(&stream, REDUCE_SCATTER, reduce_scatter, .group = &group, .in = two, .out = one);
    LAUNCH(&stream, ALL_GATHER, all_gather, .group = &group, .in = one, .out = two);
    LAUNCH(&stream, BROADCAST, broadcast, .group = &group, .x = one, .root = 1);
    stream_synchronize(&stream);
    for (int i = 0; i < 4; i++)
        CHECK(seen[i].data == data);
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

static void faulty_reserve(struct executor *executor, int64_t bytes)
{
    (void)executor, (void)bytes;
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
    test_sum_squares();
    test_gradient_scale();
    test_adamw();
    test_moves();
    for (int i = 0; i < executor_count; i++)
        test_collectives(executors[i]);
    executors_close();
    return check_end();
}
