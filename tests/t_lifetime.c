/* Buffers of a planned step share an arena, also across streams, in every order that events allow; random lifetimes fit
 * within 1.3 of the lower bound. */
#include "check.h"
#include "programs.h"

#include "base/memory.h"
#include "cpu/cpu.h"
#include "plan/lifetime.h"
#include "plan/plan.h"
#include "plan/race.h"
#include "plan/record.h"

#include <string.h>

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

int main(void)
{
    test_lifetimes();
    test_lifetime_streams();
    test_lifetime_chain();
    return check_end();
}
