/* Where a training step of a deck spends its time: for each op its share of the step, and how near it comes to what
 * the machine can do: the larger of its FLOPs over the best rate of a large matrix product and its bytes (each tensor
 * read or written once) over the rate of a large copy, both measured here on the same threads. What lies in the caches
 * may be faster than a large copy: more than 100 %.
 *   bench/cpu_step_time STEPS DECK [KEY=VALUE]...      the deck's output.folder is not touched */
#include "base/clock.h"
#include "cpu/cpu.h"
#include "plan/record.h"
#include "state/initialise.h"
#include "train/learning_rate.h"
#include "train/session.h"
#include "deck/fields.h"
#include "setup/settings.h"

#include <stdio.h>
#include <stdlib.h>

enum { WARM_UP = 3, RUNS = 7 };

static struct executor *cpu; /* behind the executor that records */

static int make_executor(struct executor **executor, const struct device_request *request)
{
    cpu = cpu_executor_create(request->threads);
    *executor = record_executor_create(cpu);
    return ERROR_NONE;
}

/* -- What the machine can do ------------------------------------------------------------------------------------- */

struct limits {
    double flops, bytes; /* a second */
};

static double best_seconds(struct stream *stream, enum op op, const void *args)
{
    double best = 1e30;
    for (int run = 0; run < RUNS; run++) {
        double start = clock_seconds();
        launch(stream, op, args);
        double seconds = clock_seconds() - start;
        best = seconds < best ? seconds : best;
    }
    return best;
}

static struct tensor filled(struct stream *stream, int64_t rows, int64_t cols)
{
    int64_t bytes = rows * cols * dtype_size(DTYPE_F32);
    struct tensor x =
        tensor_matrix(stream->executor->class->allocate(stream->executor, bytes, MEMORY_DEVICE), DTYPE_F32, rows, cols);
    LAUNCH(stream, FILL, fill, .x = x, .value = 0.5);
    return x;
}

static struct limits measure_limits(void)
{
    enum { SIDE = 2048, FAR = 1 << 26 }; /* FAR: elements that no cache holds */
    struct stream stream = {cpu, STREAM_COMPUTE, NULL};
    struct tensor a = filled(&stream, SIDE, SIDE), b = filled(&stream, SIDE, SIDE), d = filled(&stream, SIDE, SIDE);
    struct gemm_args product = {.a = a, .b = b, .d = d};
    struct copy_args copy = {.from = filled(&stream, 1, FAR), .to = filled(&stream, 1, FAR)};
    struct limits limits = {(double)op_flops(OP_GEMM, &product) / best_seconds(&stream, OP_GEMM, &product),
                            2.0 * FAR * (double)dtype_size(DTYPE_F32) / best_seconds(&stream, OP_COPY, &copy)};
    const struct tensor all[] = {a, b, d, copy.from, copy.to};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cpu->class->release(cpu, all[i].data, MEMORY_DEVICE);
    return limits;
}

/* -- The step ---------------------------------------------------------------------------------------------------- */

static void run_step(struct session *s, int64_t step)
{
    engine_step(&s->engine, &s->schedule, loader_next(s->train), learning_rate_at(&s->setup.learning_rate, step));
}

struct row {
    struct plan_cost cost;
    double seconds;
    int op;
};

static int by_seconds(const void *a, const void *b)
{
    double x = ((const struct row *)a)->seconds, y = ((const struct row *)b)->seconds;
    return (x < y) - (x > y);
}

/* op_flops cannot know the lengths of segments, which lie on the device; here that is the host's memory, where those of
 * the last micro-batch stand. */
static int64_t attention_flops(const struct attention_segments *segments, int64_t products, int64_t width, bool causal)
{
    int64_t pairs = 0;
    for (int64_t slot = 0; slot < segments->q_length.cols; slot++) {
        int64_t length = ((const int32_t *)segments->q_length.data)[slot];
        pairs += causal ? length * (length + 1) / 2 : length * length;
    }
    return 2 * products * pairs * width;
}

static int64_t flops_of(enum op op, const void *args, int64_t otherwise)
{
    if (op == OP_ATTENTION_FORWARD) {
        const struct attention_forward_args *a = args;
        return attention_flops(&a->segments, 2, a->q.cols, a->causal);
    }
    if (op == OP_ATTENTION_BACKWARD) {
        const struct attention_backward_args *a = args;
        return attention_flops(&a->segments, 5, a->q.cols, a->causal);
    }
    return otherwise;
}

static void add_costs(const struct plan_log *log, struct row *rows)
{
    for (int64_t i = 0; i < log->count; i++) {
        if (log->entries[i].kind != PLAN_LAUNCH)
            continue;
        enum op op = log->entries[i].op;
        struct plan_cost cost = plan_log_cost((struct plan_span){log, i, i + 1}), *sum = &rows[op].cost;
        sum->launches += cost.launches;
        sum->flops += flops_of(op, plan_log_args(log, &log->entries[i]), cost.flops);
        sum->bytes += cost.bytes;
    }
}

static void print_rows(struct row *rows, const struct limits *limits, double step)
{
    double in_ops = 0;
    printf("%-20s %8s %10s %7s %9s %9s %7s  %s\n", "op", "launches", "ms", "share %", "GFLOP/s", "GB/s", "bound %",
           "by");
    for (int i = 0; i < OP_COUNT; i++) {
        const struct row *row = &rows[i];
        if (row->cost.launches == 0)
            continue;
        double arithmetic = (double)row->cost.flops / limits->flops, memory = (double)row->cost.bytes / limits->bytes;
        double bound = arithmetic > memory ? arithmetic : memory;
        in_ops += row->seconds;
        printf("%-20s %8lld %10.3f %7.1f %9.1f %9.1f %7.0f  %s\n", op_info((enum op)row->op)->name,
               (long long)row->cost.launches, row->seconds * 1e3, 100 * row->seconds / step,
               (double)row->cost.flops / row->seconds * 1e-9, (double)row->cost.bytes / row->seconds * 1e-9,
               100 * bound / row->seconds, arithmetic > memory ? "arithmetic" : "memory");
    }
    printf("%-20s %8s %10.3f %7.1f\n", "outside ops", "", (step - in_ops) * 1e3, 100 * (1 - in_ops / step));
}

static void report(struct session *s, int steps)
{
    struct row rows[OP_COUNT] = {{{0}, 0, 0}};
    engine_initialise(&s->engine, s->setup.train.seed);
    record_enable(s->executor, false);
    for (int64_t step = 0; step < WARM_UP; step++)
        run_step(s, step);
    record_clear(s->executor);
    record_enable(s->executor, true);
    run_step(s, WARM_UP);
    add_costs(record_executor_log(s->executor), rows);
    record_enable(s->executor, false);

    for (int op = 0; op < OP_COUNT; op++)
        rows[op].seconds = -launch_timers()[op].seconds;
    double start = clock_seconds();
    for (int64_t step = 0; step < steps; step++)
        run_step(s, WARM_UP + 1 + step);
    double seconds = (clock_seconds() - start) / steps;
    for (int op = 0; op < OP_COUNT; op++) {
        rows[op].seconds = (rows[op].seconds + launch_timers()[op].seconds) / steps;
        rows[op].op = op;
    }
    qsort(rows, OP_COUNT, sizeof *rows, by_seconds);

    struct limits limits = measure_limits();
    printf("%d threads; matrix product %.1f GFLOP/s, copy %.1f GB/s\n", s->threads, limits.flops * 1e-9,
           limits.bytes * 1e-9);
    printf("step of %lld tokens: %.3f ms, %.0f tokens/s\n",
           (long long)(s->setup.train.global_rows * s->setup.train.row_tokens), seconds * 1e3,
           (double)(s->setup.train.global_rows * s->setup.train.row_tokens) / seconds);
    print_rows(rows, &limits, seconds);
}

int main(int count, char **arguments)
{
    if (count < 3 || atoi(arguments[1]) < 1) {
        fprintf(stderr, "usage: bench/cpu_step_time STEPS DECK [KEY=VALUE]...\n");
        return 2;
    }
    struct deck deck;
    struct comm *world = comm_self();
    struct session session = {0};
    int code = comm_agree(world, deck_read(&deck, arguments[2], arguments + 3, count - 3, NULL));
    if (code == 0)
        code = comm_agree(world, settings_check(&deck, world->size));
    if (code == 0)
        code = session_create(&session, &deck, world, NULL, make_executor);
    if (code == 0)
        report(&session, atoi(arguments[1]));
    session_destroy(&session);
    if (cpu != NULL)
        cpu->class->destroy(cpu);
    comm_destroy(world);
    return code;
}
