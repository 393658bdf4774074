/* The race check and the record executor agree: the check finds a race exactly where some order of the launches, which
 * events allow, changes results. Small and random programs are compared with reachability and a map of bytes. */
#include "check.h"
#include "programs.h"
#include "ref/reference.h"

#include "base/clock.h"
#include "plan/plan.h"
#include "plan/race.h"
#include "plan/record.h"

#include <stdlib.h>
#include <string.h>

/* -- A loop with two buffers ------------------------------------------------------------------------------------- */

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
        struct launch_race race;
        CHECK(race_check(log, i, &race, 1) >= 1);
        CHECK(race.first.entry < race.second.entry && race.first.stream != race.second.stream);
    }
    CHECK(waits == 2 * LAYERS - 2); /* nobody has freed the buffers before their first use */

    /* what the report says: the first gemm reads what the first copy writes */
    struct launch_race race;
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
    test_replay();
    return check_end();
}
