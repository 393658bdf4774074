/* The planning and the record executors at op level: the log, the race check, lifetimes, the recompute closure, replay.
 * Whole steps are t_seams's business. */
#include "check.h"
#include "ref/reference.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"
#include "cpu/cpu.h"
#include "plan/closure.h"
#include "plan/lifetime.h"
#include "plan/plan.h"
#include "plan/race.h"
#include "plan/record.h"
#include "step/budget.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t draws;

/* Uniform in 0 .. n - 1. */
static int64_t draw(int64_t n)
{
    struct random_key key = {17, RANDOM_TEST, 4};
    return (int64_t)(random_bits(&key, draws++) % (uint64_t)n);
}

static struct tensor matrix(struct executor *executor, int64_t rows, int64_t cols)
{
    int64_t bytes = rows * cols * dtype_size(DTYPE_F32);
    return tensor_matrix(executor->class->allocate(executor, bytes, MEMORY_DEVICE), DTYPE_F32, rows, cols);
}

/* -- Two streams: weights are gathered ahead of their use, into two buffers --------------------------------------- */

enum { LAYERS = 6, WIDTH = 8, ROWS = 4 };

struct loop {
    struct executor *executor;
    struct stream compute, communication;
    struct tensor shard[LAYERS], buffer[2], x[LAYERS + 1];
    struct event ready[2], freed[2];
};

static void loop_open(struct loop *loop, struct executor *executor)
{
    *loop = (struct loop){.executor = executor,
                          .compute = {executor, STREAM_COMPUTE, NULL},
                          .communication = {executor, STREAM_REDUCE, NULL}};
    for (int i = 0; i < LAYERS; i++)
        loop->shard[i] = matrix(executor, WIDTH, WIDTH);
    for (int i = 0; i < 2; i++)
        loop->buffer[i] = matrix(executor, WIDTH, WIDTH);
    for (int i = 0; i <= LAYERS; i++)
        loop->x[i] = matrix(executor, ROWS, WIDTH);
}

static void loop_close(struct loop *loop)
{
    struct executor *executor = loop->executor;
    for (int i = 0; i < LAYERS; i++)
        executor->class->release(executor, loop->shard[i].data, MEMORY_DEVICE);
    for (int i = 0; i < 2; i++)
        executor->class->release(executor, loop->buffer[i].data, MEMORY_DEVICE);
    for (int i = 0; i <= LAYERS; i++)
        executor->class->release(executor, loop->x[i].data, MEMORY_DEVICE);
}

static void loop_run(struct loop *loop)
{
    for (int i = 0; i < LAYERS; i++) {
        int slot = i % 2;
        event_wait(&loop->freed[slot], &loop->communication);
        LAUNCH(&loop->communication, COPY, copy, .from = loop->shard[i], .to = loop->buffer[slot]);
        event_record(&loop->ready[slot], &loop->communication);
        event_wait(&loop->ready[slot], &loop->compute);
        LAUNCH(&loop->compute, GEMM, gemm, .a = loop->x[i], .b = loop->buffer[slot], .d = loop->x[i + 1]);
        event_record(&loop->freed[slot], &loop->compute);
    }
}

static void test_double_buffer(void)
{
    struct executor *plan = plan_executor_create(NULL);
    struct loop loop;
    loop_open(&loop, plan);
    loop_run(&loop);
    const struct plan_log *log = plan_executor_log(plan);
    CHECK(log->count == 6 * LAYERS);
    CHECK(race_check(log, -1, NULL, 0) == 0);
    int waits = 0;
    for (int64_t i = 0; i < log->count; i++) {
        if (log->entries[i].kind != PLAN_WAIT || log->entries[i].record < 0)
            continue;
        waits++;
        struct race race;
        CHECK(race_check(log, i, &race, 1) >= 1);
        CHECK(race.first.entry < race.second.entry && race.first.stream != race.second.stream);
    }
    CHECK(waits == 2 * LAYERS - 2); /* nobody has freed the buffers before their first use */

    /* what the report says: the first gemm reads what the first copy writes */
    struct race race;
    CHECK(race_check(log, 3, &race, 1) == 1);
    CHECK(race.first.op == OP_COPY && race.second.op == OP_GEMM);
    CHECK_STRING(race.first.field, "to");
    CHECK_STRING(race.second.field, "b");
    CHECK(race.first.access == OP_WRITE && race.second.access == OP_READ);
    char *line = race_describe(&race);
    CHECK_STRING(line,
                 "launch 1 (copy on stream 1) writes to while launch 4 (gemm on stream 0) reads b: no event orders "
                 "them");
    free(line);

    plan_executor_clear(plan);
    CHECK(plan_executor_log(plan)->count == 0);
    loop_close(&loop);
    plan->class->destroy(plan);
}

/* -- The race check on random programs, against reachability in the graph of entries ------------------------------ */

static bool touch_each_other(const struct plan_log *log, const struct plan_entry *a, const struct plan_entry *b)
{
    const struct fill_args *p = plan_log_args(log, a), *q = plan_log_args(log, b);
    return p->x.data == q->x.data;
}

static int64_t races_by_reachability(const struct plan_log *log)
{
    enum { MAX = 128 };
    static bool before[MAX][MAX];
    memset(before, 0, sizeof before);
    int64_t races = 0;
    for (int64_t j = 0; j < log->count; j++) {
        const struct plan_entry *b = &log->entries[j];
        for (int64_t i = 0; i < j; i++) {
            bool edge = log->entries[i].stream == b->stream || (b->kind == PLAN_WAIT && b->record == i);
            for (int64_t k = 0; edge && k < j; k++)
                before[k][j] |= before[k][i];
            before[i][j] |= edge;
        }
        for (int64_t i = 0; b->kind == PLAN_LAUNCH && i < j; i++)
            races += log->entries[i].kind == PLAN_LAUNCH && !before[i][j] && touch_each_other(log, &log->entries[i], b);
    }
    return races;
}

static void test_random_programs(void)
{
    int64_t found = 0, clean = 0;
    for (int program = 0; program < 600; program++) {
        struct executor *plan = plan_executor_create(NULL);
        struct stream streams[STREAM_COUNT];
        for (int s = 0; s < STREAM_COUNT; s++)
            streams[s] = (struct stream){plan, s, NULL};
        struct event events[3] = {{0}};
        struct tensor x[4];
        for (int i = 0; i < 4; i++)
            x[i] = matrix(plan, 1, 8);
        const int64_t share = 1 + draw(8); /* of launches, in ten steps */
        const int64_t used = program % 4 > 0 ? 2 : STREAM_COUNT;
        for (int step = 0; step < 100; step++) {
            struct stream *stream = &streams[draw(used)];
            if (draw(10) < share)
                LAUNCH(stream, FILL, fill, .x = x[draw(4)], .value = 1);
            else if (draw(2))
                event_record(&events[draw(3)], stream);
            else
                event_wait(&events[draw(3)], stream);
        }
        const struct plan_log *log = plan_executor_log(plan);
        int64_t races = race_check(log, -1, NULL, 0);
        CHECK(races == races_by_reachability(log));
        found += races;
        clean += races == 0;
        plan->class->destroy(plan);
    }
    CHECK(found > 1000 && clean > 10); /* both outcomes are met */
}

static void test_large_log(void)
{
    struct executor *plan = plan_executor_create(NULL);
    struct loop loop;
    loop_open(&loop, plan);
    while (plan_executor_log(plan)->count < 150000)
        loop_run(&loop);
    double start = clock_seconds();
    /* a run's first copy waits for the buffer that the run before freed; x is used by one stream alone */
    CHECK(race_check(plan_executor_log(plan), -1, NULL, 0) == 0);
    CHECK(clock_seconds() - start < 5);
    plan->class->destroy(plan);
}

/* -- Regions ------------------------------------------------------------------------------------------------------- */

static int64_t races_of_two_fills(struct executor *plan, struct tensor a, struct tensor b)
{
    struct stream compute = {plan, STREAM_COMPUTE, NULL}, communication = {plan, STREAM_REDUCE, NULL};
    plan_executor_clear(plan);
    LAUNCH(&compute, FILL, fill, .x = a);
    LAUNCH(&communication, FILL, fill, .x = b);
    return race_check(plan_executor_log(plan), -1, NULL, 0);
}

static void test_views(void)
{
    struct executor *plan = plan_executor_create(NULL);
    struct tensor qkv = matrix(plan, 16, 24);
    struct tensor q = tensor_columns(&qkv, 0, 8), k = tensor_columns(&qkv, 8, 8), wide = tensor_columns(&qkv, 7, 3);
    CHECK(races_of_two_fills(plan, q, k) == 0);
    CHECK(races_of_two_fills(plan, q, q) == 1);
    CHECK(races_of_two_fills(plan, q, wide) == 1);
    CHECK(races_of_two_fills(plan, k, wide) == 1);
    CHECK(races_of_two_fills(plan, q, qkv) == 1);
    CHECK(races_of_two_fills(plan, tensor_rows(&q, 0, 8), tensor_rows(&q, 8, 8)) == 0);
    CHECK(races_of_two_fills(plan, tensor_rows(&q, 0, 8), tensor_rows(&k, 4, 8)) == 0);
    CHECK(races_of_two_fills(plan, tensor_rows(&q, 0, 9), tensor_rows(&q, 8, 8)) == 1);
    /* one element between two columns' runs; the same bytes seen with another row length */
    CHECK(races_of_two_fills(plan, q, tensor_vector(tensor_at(&qkv, 3, 8), DTYPE_F32, 1)) == 0);
    CHECK(races_of_two_fills(plan, q, tensor_vector(tensor_at(&qkv, 3, 7), DTYPE_F32, 1)) == 1);
    struct tensor flat = tensor_matrix(qkv.data, DTYPE_F32, 8, 48);
    CHECK(races_of_two_fills(plan, q, tensor_columns(&flat, 8, 16)) == 0);
    CHECK(races_of_two_fills(plan, q, tensor_columns(&flat, 8, 17)) == 1);

    /* random regions, against a map of bytes */
    for (int i = 0; i < 20000; i++) {
        struct plan_region r[2];
        unsigned char map[1024] = {0};
        bool meet = false;
        for (int side = 0; side < 2; side++) {
            r[side].base = (uintptr_t)(64 + draw(200));
            r[side].rows = 1 + draw(6);
            r[side].row_bytes = 1 + draw(12);
            r[side].stride =
                side == 1 && draw(2) && r[0].stride >= r[1].row_bytes ? r[0].stride : r[side].row_bytes + draw(40);
            for (int64_t row = 0; row < r[side].rows; row++) {
                for (int64_t byte = 0; byte < r[side].row_bytes; byte++) {
                    unsigned char *at = &map[r[side].base + (uintptr_t)(row * r[side].stride + byte)];
                    meet |= side == 1 && *at;
                    *at |= side == 0;
                }
            }
        }
        if (plan_region_overlap(&r[0], &r[1]) != meet || plan_region_overlap(&r[1], &r[0]) != meet) {
            CHECK(!"regions overlap as their bytes do");
            break;
        }
    }
    plan->class->destroy(plan);
}

/* -- Lifetimes ----------------------------------------------------------------------------------------------------- */

static bool share_bytes(const struct lifetime *a, const struct lifetime *b)
{
    return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

static void test_lifetimes(void)
{
    enum { BUFFERS = 60, TURNS = 120 };
    double worst = 0;
    for (int trial = 0; trial < 100; trial++) {
        struct executor *plan = plan_executor_create(NULL);
        struct stream compute = {plan, STREAM_COMPUTE, NULL}, communication = {plan, STREAM_REDUCE, NULL};
        struct lifetime buffers[BUFFERS];
        struct tensor tensors[BUFFERS];
        int64_t first[BUFFERS], last[BUFFERS];
        int shared = trial % 4, untouched = BUFFERS - 1; /* `shared` buffers are used by communication too */
        for (int i = 0; i < BUFFERS; i++) {
            tensors[i] = matrix(plan, 1, trial % 2 ? 1 + draw(4000) : 64 << draw(6));
            buffers[i] = (struct lifetime){.base = tensors[i].data, .bytes = tensor_extent(&tensors[i])};
            first[i] = draw(TURNS);
            last[i] = first[i] + draw(trial % 3 ? 20 : TURNS);
        }
        for (int64_t turn = 0; turn < 2 * TURNS; turn++)
            for (int i = 0; i < BUFFERS; i++)
                if (i != untouched && (turn == first[i] || turn == last[i]))
                    LAUNCH(i < shared && turn == last[i] ? &communication : &compute, FILL, fill, .x = tensors[i]);
        struct lifetime_arena arena = lifetime_plan(plan_executor_log(plan), buffers, BUFFERS);
        CHECK(buffers[untouched].first == -1 && buffers[untouched].offset == 0);
        int64_t end = 0;
        bool apart = true;
        for (int i = 0; i < untouched; i++) {
            CHECK(buffers[i].pinned == (i < shared));
            CHECK(buffers[i].offset % LIFETIME_ALIGNMENT == 0);
            for (int j = 0; j < i; j++) {
                bool together = j < shared || (first[i] * BUFFERS + i <= last[j] * BUFFERS + j &&
                                               first[j] * BUFFERS + j <= last[i] * BUFFERS + i);
                apart &= !together || !share_bytes(&buffers[i], &buffers[j]);
            }
            if (buffers[i].offset + buffers[i].bytes > end)
                end = buffers[i].offset + buffers[i].bytes;
        }
        CHECK(apart);
        CHECK(arena.bytes >= end && arena.bytes - end < LIFETIME_ALIGNMENT);
        CHECK(arena.bytes >= arena.lower_bound && arena.lower_bound > 0);
        double ratio = (double)arena.bytes / (double)arena.lower_bound;
        worst = ratio > worst ? ratio : worst;
        plan->class->destroy(plan);
    }
    printf("arena of random lifetimes: at most %.3f of the lower bound\n", worst);
    CHECK(worst <= 1.3);
}

/* -- Lifetimes on two streams: a program in an arena, in every order that its events allow ------------------------- */

enum { PROGRAM_BUFFERS = 24, PROGRAM_WIDTH = 64 };

/* Each buffer is filled at one turn on some stream and added to that stream's or the other's sum at a later turn. */
struct program {
    int64_t filled[PROGRAM_BUFFERS], added[PROGRAM_BUFFERS];
    int fills[PROGRAM_BUFFERS], adds[PROGRAM_BUFFERS]; /* streams */
};

static void program_draw(struct program *p)
{
    for (int i = 0; i < PROGRAM_BUFFERS; i++) {
        p->filled[i] = draw(100);
        p->added[i] = p->filled[i] + 1 + draw(12);
        p->fills[i] = draw(3) == 0;
        p->adds[i] = draw(3) == 0;
    }
}

/* Its sums end in the first row of sums, which both streams' rows make up. */
static void program_run(const struct program *p, struct executor *executor, const struct tensor *buffers,
                        const struct tensor *sums)
{
    static struct stream streams[STREAM_COUNT]; /* for replays */
    static struct event begun, ended, ready[PROGRAM_BUFFERS];
    for (int s = 0; s < STREAM_COUNT; s++)
        streams[s] = (struct stream){executor, s, NULL};
    event_record(&begun, &streams[STREAM_COMPUTE]);
    event_wait(&begun, &streams[STREAM_REDUCE]);
    for (int s = 0; s < STREAM_COUNT; s++)
        LAUNCH(&streams[s], FILL, fill, .x = sums[s], .value = 0);
    for (int64_t turn = 0; turn < 120; turn++)
        for (int i = 0; i < PROGRAM_BUFFERS; i++) {
            if (turn == p->filled[i]) {
                LAUNCH(&streams[p->fills[i]], FILL, fill, .x = buffers[i], .value = 1 + 0.37 * i);
                event_record(&ready[i], &streams[p->fills[i]]);
            }
            if (turn == p->added[i]) {
                if (p->adds[i] != p->fills[i])
                    event_wait(&ready[i], &streams[p->adds[i]]);
                LAUNCH(&streams[p->adds[i]], ADD, add, .from = buffers[i], .to = sums[p->adds[i]]);
            }
        }
    event_record(&ended, &streams[STREAM_REDUCE]);
    event_wait(&ended, &streams[STREAM_COMPUTE]);
    LAUNCH(&streams[STREAM_COMPUTE], ADD, add, .from = sums[1], .to = sums[0]);
}

static void test_lifetime_streams(void)
{
    struct executor *cpu = cpu_executor_create(1);
    double share = 0;
    int64_t reused = 0;
    for (int trial = 0; trial < 40; trial++) {
        struct program p;
        program_draw(&p);
        struct lifetime buffers[PROGRAM_BUFFERS];
        struct tensor tensors[PROGRAM_BUFFERS], sums[STREAM_COUNT];
        struct executor *plan = plan_executor_create(NULL);
        for (int s = 0; s < STREAM_COUNT; s++)
            sums[s] = matrix(plan, 1, PROGRAM_WIDTH);
        for (int i = 0; i < PROGRAM_BUFFERS; i++) {
            tensors[i] = matrix(plan, 1, PROGRAM_WIDTH);
            buffers[i] = (struct lifetime){.base = tensors[i].data, .bytes = tensor_extent(&tensors[i])};
        }
        program_run(&p, plan, tensors, sums);
        struct lifetime_arena arena = lifetime_plan(plan_executor_log(plan), buffers, PROGRAM_BUFFERS);
        CHECK(arena.pinned == 0);
        share += (double)arena.bytes / (PROGRAM_BUFFERS * LIFETIME_ALIGNMENT) / 40;

        float sum[STREAM_COUNT][PROGRAM_WIDTH], wanted[PROGRAM_WIDTH];
        char *memory = memory_allocate(arena.bytes);
        for (int s = 0; s < STREAM_COUNT; s++)
            sums[s].data = sum[s];
        for (int i = 0; i < PROGRAM_BUFFERS; i++) {
            tensors[i].data = memory + buffers[i].offset;
            for (int j = 0; j < i; j++)
                reused += share_bytes(&buffers[i], &buffers[j]) && p.fills[i] + p.adds[i] + p.fills[j] + p.adds[j] > 0;
        }
        struct executor *record = record_executor_create(cpu);
        program_run(&p, record, tensors, sums);
        memcpy(wanted, sum[0], sizeof wanted);
        CHECK(race_check(record_executor_log(record), -1, NULL, 0) == 0);
        for (uint64_t order = 0; order < 10; order++) {
            memset(sum, 0, sizeof sum);
            record_replay(record, RECORD_RANDOM, order, -1);
            CHECK(memcmp(wanted, sum[0], sizeof wanted) == 0);
        }
        record->class->destroy(record);
        memory_free(memory);
        plan->class->destroy(plan);
    }
    printf("arena of two streams: %.2f of the buffers, %lld pairs share memory across streams\n", share,
           (long long)reused);
    CHECK(share < 0.6 && reused > 100);
    cpu->class->destroy(cpu);
}

static void test_lifetime_chain(void)
{
    /* a chain of gemms: each result is dead after the next, so two buffers' worth of memory serves all */
    struct executor *plan = plan_executor_create(NULL);
    struct loop loop;
    loop_open(&loop, plan);
    loop_run(&loop);
    struct lifetime buffers[LAYERS + 1];
    for (int i = 0; i <= LAYERS; i++)
        buffers[i] = (struct lifetime){.base = loop.x[i].data, .bytes = tensor_extent(&loop.x[i])};
    struct lifetime_arena arena = lifetime_plan(plan_executor_log(plan), buffers, LAYERS + 1);
    CHECK(arena.bytes == 2 * LIFETIME_ALIGNMENT && arena.lower_bound == arena.bytes);
    CHECK(buffers[1].first == 4 && buffers[1].last == 10); /* entries of the first and the second gemm */

    /* one launch ends a small buffer's life and begins a large one's */
    struct tensor wide = matrix(plan, 1, 256), narrow = wide;
    narrow.data = plan->class->allocate(plan, 512, MEMORY_DEVICE);
    narrow.dtype = DTYPE_BF16;
    struct tensor low = narrow;
    low.data = plan->class->allocate(plan, 512, MEMORY_DEVICE);
    low.dtype = DTYPE_I16;
    plan_executor_clear(plan);
    LAUNCH(&loop.compute, FILL, fill, .x = narrow);
    LAUNCH(&loop.compute, JOIN, join, .high = narrow, .low = low, .to = wide);
    LAUNCH(&loop.compute, FILL, fill, .x = wide);
    buffers[0] = (struct lifetime){.base = narrow.data, .bytes = 512};
    buffers[1] = (struct lifetime){.base = wide.data, .bytes = 1024};
    arena = lifetime_plan(plan_executor_log(plan), buffers, 2);
    CHECK(arena.bytes == 1536 && arena.lower_bound == 1536);
    plan->class->destroy(plan);
}

static void test_touched(void)
{
    struct executor *plan = plan_executor_create(NULL);
    struct stream compute = {plan, STREAM_COMPUTE, NULL};
    struct tensor a = matrix(plan, 10, 16), b = matrix(plan, 4, 4), part;
    const struct plan_log *log = plan_executor_log(plan);
    CHECK(lifetime_touched(log, a.data, 640) == 0 && lifetime_covered(log, a.data, 640) == 0);
    part = tensor_columns(&a, 2, 3);
    part = tensor_rows(&part, 1, 5);
    LAUNCH(&compute, FILL, fill, .x = part); /* rows 1 to 5, columns 2 to 4 */
    CHECK(lifetime_touched(log, a.data, 640) == (5 * 16 + 5) * 4);
    CHECK(lifetime_covered(log, a.data, 640) == 5 * 3 * 4);
    part = tensor_columns(&a, 4, 2);
    LAUNCH(&compute, FILL, fill, .x = part); /* all rows, columns 4 and 5 */
    LAUNCH(&compute, FILL, fill, .x = part);
    CHECK(lifetime_touched(log, a.data, 640) == (9 * 16 + 6) * 4);
    CHECK(lifetime_covered(log, a.data, 640) == (5 * 3 + 10 * 2 - 5) * 4);
    /* a window on the first three rows and half an element */
    CHECK(lifetime_touched(log, a.data, 3 * 64 + 18) == 3 * 64 + 18);
    CHECK(lifetime_covered(log, a.data, 3 * 64 + 18) == (2 * 3 + 3 * 2 - 2) * 4 + 10);
    LAUNCH(&compute, FILL, fill, .x = b);
    struct lifetime_block blocks[] = {{a.data, 640, 0}, {b.data, 64, 1}, {tensor_at(&a, 0, 0), 64, 1}};
    int64_t high_water[3] = {1, 1, 1};
    lifetime_high_water(log, blocks, 3, high_water, 3);
    CHECK(high_water[0] == 600 && high_water[1] == 64 + 24 && high_water[2] == 0);
    plan->class->destroy(plan);
}

/* -- The recompute closure ---------------------------------------------------------------------------------------- */

/* A unit: norm (writes H and RSTD), up (H -> UP), act (UP -> ACT), down (ACT -> Y). */
enum { ID_H, ID_RSTD, ID_UP, ID_ACT, ID_Y, IDS };
#define BIT(id) ((uint64_t)1 << (id))

/* By hand: what each section reads and writes, and what the unit's backward reads. */
static const struct {
    uint64_t reads, writes;
} section_use[IDS] = {
    [ID_H] = {0, BIT(ID_H) | BIT(ID_RSTD)},
    [ID_UP] = {BIT(ID_H), BIT(ID_UP)},
    [ID_ACT] = {BIT(ID_UP), BIT(ID_ACT)},
    [ID_Y] = {BIT(ID_ACT), BIT(ID_Y)},
};

/* Do the sections of `set`, run in order on what was not dropped, leave all that backward reads? */
static bool enough(uint64_t set, uint64_t dropped, uint64_t backward_reads)
{
    uint64_t present = ~dropped;
    for (int s = 0; s < IDS; s++) {
        if ((set & BIT(s)) == 0)
            continue;
        if (section_use[s].reads & ~present)
            return false;
        present |= section_use[s].writes;
    }
    return (backward_reads & ~present) == 0;
}

/* closure_find on sets of ids below 64. */
static uint64_t closure_bits(const struct closure_unit *unit, uint64_t dropped)
{
    const struct id_set set = {{dropped}};
    return closure_find(unit, &set).words[0];
}

static void test_closure(void)
{
    enum { T = 8, H = 16, F = 24 };
    struct executor *plan = plan_executor_create(NULL);
    struct stream s = {plan, STREAM_COMPUTE, NULL};
    struct tensor x = matrix(plan, T, H), gain = matrix(plan, 1, H), w_up = matrix(plan, 2 * F, H),
                  w_down = matrix(plan, H, F);
    struct tensor h = matrix(plan, T, H), rstd = matrix(plan, 1, T), up = matrix(plan, T, 2 * F),
                  act = matrix(plan, T, F), y = matrix(plan, T, H);
    struct tensor dy = matrix(plan, T, H), d_act = matrix(plan, T, F), d_up = matrix(plan, T, 2 * F),
                  d_h = matrix(plan, T, H), dx = matrix(plan, T, H), dw_up = matrix(plan, 2 * F, H),
                  dw_down = matrix(plan, H, F), d_gain = matrix(plan, 1, H);
    struct closure_tensor tensors[] = {
        {h.data, tensor_extent(&h), ID_H},    {rstd.data, tensor_extent(&rstd), ID_RSTD},
        {up.data, tensor_extent(&up), ID_UP}, {act.data, tensor_extent(&act), ID_ACT},
        {y.data, tensor_extent(&y), ID_Y},
    };
    const struct plan_log *log = plan_executor_log(plan);
    const int section[] = {ID_H, ID_UP, ID_ACT, ID_Y};
    LAUNCH(&s, RMSNORM_FORWARD, rmsnorm_forward, .x = x, .weight = gain, .y = h, .rstd = rstd, .eps = 1e-5f);
    LAUNCH(&s, GEMM, gemm, .a = h, .b = w_up, .d = up, .transpose_b = true);
    LAUNCH(&s, SWIGLU_FORWARD, swiglu_forward, .x = up, .y = act);
    LAUNCH(&s, GEMM, gemm, .a = act, .b = w_down, .c = x, .d = y, .transpose_b = true);
    int64_t forward_end = log->count;
    LAUNCH(&s, GEMM, gemm, .a = dy, .b = act, .d = dw_down, .transpose_a = true);
    int64_t weight_end = log->count;
    LAUNCH(&s, GEMM, gemm, .a = dy, .b = w_down, .d = d_act);
    LAUNCH(&s, SWIGLU_BACKWARD, swiglu_backward, .x = up, .dy = d_act, .dx = d_up);
    LAUNCH(&s, GEMM, gemm, .a = d_up, .b = h, .d = dw_up, .transpose_a = true);
    LAUNCH(&s, GEMM, gemm, .a = d_up, .b = w_up, .d = d_h);
    LAUNCH(&s, RMSNORM_BACKWARD, rmsnorm_backward, .x = x, .weight = gain, .rstd = rstd, .dy = d_h, .residual = dy,
           .dx = dx, .dweight = d_gain);

    struct closure_unit unit = {{log, 0, forward_end}, section, {log, forward_end, log->count}, tensors, IDS};
    CHECK(closure_bits(&unit, 0) == 0);
    CHECK(closure_bits(&unit, BIT(ID_Y)) == 0); /* backward does not read the unit's output */
    CHECK(closure_bits(&unit, BIT(ID_ACT)) == BIT(ID_ACT));
    CHECK(closure_bits(&unit, BIT(ID_H)) == BIT(ID_H));
    CHECK(closure_bits(&unit, BIT(ID_RSTD)) == (BIT(ID_RSTD) | BIT(ID_H))); /* the norm's section makes it */
    CHECK(closure_bits(&unit, BIT(ID_H) | BIT(ID_ACT)) == (BIT(ID_H) | BIT(ID_ACT)));
    /* a section whose id is that of a dropped tensor which it does not write: what makes copies of ACT, and no ACT */
    const int copies[] = {ID_H, ID_UP, IDS, ID_Y};
    struct closure_unit other = unit;
    other.section = copies;
    CHECK(closure_bits(&other, BIT(ID_ACT) | BIT(IDS)) == (BIT(ID_ACT) | BIT(IDS)));
    /* backward's weight gradient alone reads ACT: UP and H are wanted only because ACT is made from them */
    struct closure_unit weight = unit;
    weight.backward.end = weight_end;
    CHECK(closure_bits(&weight, BIT(ID_H)) == 0);
    CHECK(closure_bits(&weight, BIT(ID_UP)) == 0);
    CHECK(closure_bits(&weight, BIT(ID_ACT) | BIT(ID_H)) == BIT(ID_ACT));
    CHECK(closure_bits(&weight, BIT(ID_ACT) | BIT(ID_UP)) == (BIT(ID_ACT) | BIT(ID_UP)));
    CHECK(closure_bits(&weight, BIT(ID_ACT) | BIT(ID_UP) | BIT(ID_H)) == (BIT(ID_ACT) | BIT(ID_UP) | BIT(ID_H)));

    /* every drop set, against the smallest of all sets of sections that are enough */
    const uint64_t sections = BIT(ID_H) | BIT(ID_UP) | BIT(ID_ACT) | BIT(ID_Y);
    for (uint64_t dropped = 0; dropped < BIT(IDS); dropped++) {
        uint64_t all_reads = BIT(ID_ACT) | BIT(ID_UP) | BIT(ID_H) | BIT(ID_RSTD);
        for (int half = 0; half < 2; half++) {
            uint64_t reads = half ? BIT(ID_ACT) : all_reads, smallest = sections;
            for (uint64_t set = 0; set < BIT(IDS); set++)
                if ((set & ~sections) == 0 && enough(set, dropped, reads) &&
                    __builtin_popcountll(set) < __builtin_popcountll(smallest))
                    smallest = set;
            CHECK((closure_bits(half ? &weight : &unit, dropped) & sections) == smallest);
        }
    }
    plan->class->destroy(plan);
}

/* -- The planning executor ----------------------------------------------------------------------------------------- */

static int64_t target_workspace(struct executor *executor, enum op op, const void *args)
{
    (void)executor;
    return op == OP_GEMM ? ((const struct gemm_args *)args)->d.rows * 1000 : 0;
}

/* The exit status of a process that runs this; its messages are thrown away. */
static int status_of(void (*run)(struct executor *plan))
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        int null = open("/dev/null", O_WRONLY);
        dup2(null, STDERR_FILENO);
        run(plan_executor_create(NULL));
        _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void launch_wrong_shapes(struct executor *plan)
{
    struct stream compute = {plan, STREAM_COMPUTE, NULL};
    LAUNCH(&compute, GEMM, gemm, .a = matrix(plan, 4, 8), .b = matrix(plan, 4, 8), .d = matrix(plan, 4, 8));
}

static void launch_nothing_required(struct executor *plan)
{
    struct stream compute = {plan, STREAM_COMPUTE, NULL};
    LAUNCH(&compute, SWIGLU_FORWARD, swiglu_forward, .x = matrix(plan, 4, 8));
}

static void see_nothing(struct group *group, struct stream *stream, const struct all_reduce_args *args)
{
    (void)group, (void)stream, (void)args;
}

/* Groups know no sums of these, and executors that run ask before they do. */
static void sum_integers(struct executor *plan)
{
    static const struct group_class class = {.name = "none", .all_reduce = see_nothing};
    struct group pair = {.name = "pair", .size = 2, .class = &class};
    struct executor *reference = reference_executor_create();
    struct stream compute = {reference, STREAM_COMPUTE, NULL};
    int16_t integers[4] = {0};
    (void)plan;
    LAUNCH(&compute, ALL_REDUCE, all_reduce, .group = &pair, .x = tensor_vector(integers, DTYPE_I16, 4));
}

static void release_twice(struct executor *plan)
{
    void *memory = plan->class->allocate(plan, 100, MEMORY_DEVICE);
    plan->class->release(plan, memory, MEMORY_DEVICE);
    plan->class->release(plan, memory, MEMORY_DEVICE);
}

static void test_plan(void)
{
    static const struct executor_class target_class = {.name = "target", .workspace = target_workspace};
    struct executor target = {.class = &target_class};
    struct executor *plan = plan_executor_create(&target);
    CHECK_STRING(plan->class->name, "plan");
    struct stream compute = {plan, STREAM_COMPUTE, NULL};

    struct tensor x = matrix(plan, 1000, 300), y = matrix(plan, 300, 200), z = matrix(plan, 1000, 200);
    void *host = plan->class->allocate(plan, 77, MEMORY_HOST);
    const struct plan_block *blocks;
    CHECK(plan_executor_blocks(plan, &blocks) == 4);
    for (int i = 0; i < 4; i++) {
        CHECK((uintptr_t)blocks[i].base % 256 == 0);
        CHECK(i == 0 || (uintptr_t)blocks[i].base > (uintptr_t)blocks[i - 1].base + (uintptr_t)blocks[i - 1].bytes);
    }
    CHECK(blocks[0].bytes == 1000 * 300 * 4 && blocks[0].kind == MEMORY_DEVICE);
    CHECK(blocks[3].base == host && blocks[3].bytes == 77 && blocks[3].kind == MEMORY_HOST && !blocks[3].released);
    plan->class->release(plan, host, MEMORY_HOST);
    CHECK(blocks[3].released);

    CHECK(plan_workspace(plan, STREAM_COMPUTE) == 0);
    LAUNCH(&compute, GEMM, gemm, .a = x, .b = y, .d = z);
    LAUNCH(&compute, GEMM, gemm, .a = tensor_rows(&x, 0, 10), .b = y, .d = tensor_rows(&z, 0, 10), .accumulate = true);
    CHECK(plan_workspace(plan, STREAM_COMPUTE) == 1000 * 1000 && plan_workspace(plan, STREAM_REDUCE) == 0);
    const struct plan_log *log = plan_executor_log(plan);
    struct plan_cost cost = plan_log_cost(plan_log_all(log));
    CHECK(cost.launches == 2);
    CHECK(cost.flops == 2ll * 300 * 200 * (1000 + 10));
    CHECK(cost.bytes == 4ll * (1000 * 300 + 300 * 200 + 1000 * 200) + 4ll * (10 * 300 + 300 * 200 + 2 * 10 * 200));
    cost = plan_log_cost((struct plan_span){log, 1, 2});
    CHECK(cost.launches == 1 && cost.flops == 2ll * 300 * 200 * 10);

    struct group data = {.name = "data", .size = 4}, model = {.name = "model", .size = 2}, self = {"self", 0, 1, 0, 0};
    struct tensor whole = matrix(plan, 4, 100), part = matrix(plan, 1, 100);
    struct tensor whole_too = matrix(plan, 4, 100), part_too = matrix(plan, 1, 100);
    LAUNCH(&compute, ALL_GATHER, all_gather, .group = &data, .in = part, .out = whole);
    LAUNCH(&compute, REDUCE_SCATTER, reduce_scatter, .group = &data, .in = whole, .out = part);
    LAUNCH(&compute, ALL_REDUCE, all_reduce, .group = &model, .x = part);
    LAUNCH(&compute, BROADCAST, broadcast, .group = &model, .x = part);
    LAUNCH(&compute, ALL_TO_ALL, all_to_all, .group = &data, .in = whole, .out = whole_too);
    LAUNCH(&compute, SHIFT, shift, .group = &model, .in = part, .out = part_too);
    LAUNCH(&compute, ALL_REDUCE, all_reduce, .group = &self, .x = part);
    LAUNCH(&compute, SHIFT, shift, .group = &self, .in = part, .out = part_too);
    LAUNCH(&compute, RELAY, relay, .group = &model, .to_next = part, .from_before = part_too, .from_next = whole_too);
    struct plan_traffic traffic[3];
    CHECK(plan_log_traffic(plan_log_all(log), traffic, 3) == 3);
    CHECK_STRING(traffic[0].group, "data");
    CHECK(traffic[0].collectives == 3 && traffic[0].bytes == 3 * 3 * 400);
    CHECK_STRING(traffic[1].group, "model");
    CHECK(traffic[1].collectives == 4 && traffic[1].bytes == 400 + 400 + 400 + 5 * 400);
    CHECK_STRING(traffic[2].group, "self");
    CHECK(traffic[2].collectives == 2 && traffic[2].bytes == 0);

    struct stream communication = {plan, STREAM_REDUCE, NULL};
    LAUNCH(&communication, GEMM, gemm, .a = tensor_rows(&x, 0, 10), .b = y, .d = tensor_rows(&z, 0, 10));
    CHECK(plan_workspace(plan, STREAM_COMPUTE) == 1000 * 1000 && plan_workspace(plan, STREAM_REDUCE) == 10000);
    struct executor *other = plan_executor_create(NULL);
    struct budget budget;
    budget_create(&budget, other);
    for (int times = 0; times < 2; times++)
        budget_reserve(&budget, plan);
    CHECK(other->workspace_bytes[STREAM_COMPUTE] == 1000 * 1000 && other->workspace_bytes[STREAM_REDUCE] == 10000);
    CHECK(budget.bytes[BUDGET_WORKSPACE] == 1010 * 1000);
    budget_destroy(&budget);
    other->class->destroy(other);
    plan->class->destroy(plan);

    CHECK(status_of(launch_wrong_shapes) == ERROR_ENVIRONMENT);
    CHECK(status_of(launch_nothing_required) == ERROR_ENVIRONMENT);
    CHECK(status_of(sum_integers) == ERROR_ENVIRONMENT);
    CHECK(status_of(release_twice) == ERROR_ENVIRONMENT);
}

/* -- Replay -------------------------------------------------------------------------------------------------------- */

enum { RESULT_BYTES = ROWS * WIDTH * 4 };

/* Everything that the loop writes gets a value that no run leaves there, so a stale read shows. */
static void forget(struct loop *loop)
{
    for (int i = 0; i < 2; i++)
        for (int64_t j = 0; j < tensor_count(&loop->buffer[i]); j++)
            ((float *)loop->buffer[i].data)[j] = -1000.0f - (float)i;
    for (int i = 1; i <= LAYERS; i++)
        memset(loop->x[i].data, 0, RESULT_BYTES);
}

static bool replay_gives(struct loop *loop, enum record_order order, uint64_t seed, int64_t without,
                         const void *expected)
{
    forget(loop);
    record_replay(loop->executor, order, seed, without);
    return memcmp(loop->x[LAYERS].data, expected, RESULT_BYTES) == 0;
}

static void test_replay(void)
{
    struct executor *inner = reference_executor_create();
    struct executor *record = record_executor_create(inner);
    CHECK_STRING(record->class->name, "record");
    struct loop loop;
    loop_open(&loop, record);
    struct random_key key = {3, RANDOM_TEST, 1};
    for (int i = 0; i < LAYERS; i++)
        for (int j = 0; j < WIDTH * WIDTH; j++)
            ((float *)loop.shard[i].data)[j] = (float)random_normal(&key, (uint64_t)(i * WIDTH * WIDTH + j));
    for (int j = 0; j < ROWS * WIDTH; j++)
        ((float *)loop.x[0].data)[j] = (float)j;

    record_enable(record, false);
    loop_run(&loop);
    CHECK(record_executor_log(record)->count == 0);
    char eager[RESULT_BYTES];
    memcpy(eager, loop.x[LAYERS].data, RESULT_BYTES);
    record_enable(record, true);
    forget(&loop);
    loop_run(&loop);
    CHECK(memcmp(loop.x[LAYERS].data, eager, RESULT_BYTES) == 0);

    const struct plan_log *log = record_executor_log(record);
    int64_t recorded = log->count;
    CHECK(recorded == 6 * LAYERS);
    CHECK(race_check(log, -1, NULL, 0) == 0);
    CHECK(replay_gives(&loop, RECORD_AS_ISSUED, 0, -1, eager));
    for (uint64_t seed = 0; seed < 100; seed++)
        CHECK(replay_gives(&loop, RECORD_RANDOM, seed, -1, eager));
    CHECK(log->count == recorded); /* a replay is not recorded */

    /* Without any one wait some order gives other numbers; the race check says so without running anything. The first
     * two waits for freed buffers refer to the run before the recording, and leaving those out changes nothing. */
    for (int64_t i = 0; i < log->count; i++) {
        if (log->entries[i].kind != PLAN_WAIT)
            continue;
        int same = 0;
        for (uint64_t seed = 0; seed < 100; seed++)
            same += replay_gives(&loop, RECORD_RANDOM, seed, i, eager);
        bool needed = log->entries[i].record >= 0;
        CHECK(needed ? same < 100 : same == 100);
        CHECK((race_check(log, i, NULL, 0) > 0) == needed);
        CHECK(replay_gives(&loop, RECORD_AS_ISSUED, 0, i, eager)); /* the order as issued is one of the good ones */
    }
    record_clear(record);
    CHECK(log->count == 0);
    loop_close(&loop);
    record->class->destroy(record);
    inner->class->destroy(inner);
}

int main(void)
{
    test_double_buffer();
    test_random_programs();
    test_large_log();
    test_views();
    test_lifetimes();
    test_lifetime_streams();
    test_lifetime_chain();
    test_touched();
    test_closure();
    test_plan();
    test_replay();
    return check_end();
}
