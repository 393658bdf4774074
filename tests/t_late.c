/* On an executor that does everything later, a training that runs ahead of it, and replays parts of its steps, finds
 * what one that waits finds, to the bit, though the host's batches are written over as soon as a step has begun. */
#include "check.h"

#include "cpu/cpu.h"
#include "ref/late.h"
#include "ref/toy.h"
#include "ref/wrapper.h"

#include <stdlib.h>
#include <string.h>

enum { MICRO_BATCHES = 5, STEPS = 7, WAYS = 3 };

struct way {
    bool replays, ahead;
};

struct found {
    struct engine_result results[STEPS];
    char *state;
    int64_t bytes;
    int replays; /* that the flight recorder has at the end */
};

static int recorded_replays(void)
{
    char *text, *at;
    size_t bytes;
    int count = 0;
    FILE *file = open_memstream(&text, &bytes);
    launch_dump(file);
    fclose(file);
    for (at = text; (at = strstr(at, "replay ")) != NULL; at++)
        count++;
    free(text);
    return count;
}

static void destroy_batches(struct batch *batches)
{
    for (int m = 0; m < MICRO_BATCHES; m++) {
        memset(batches[m].tokens, 0x7f, (size_t)batch_bytes(&batches[m]));
        batch_destroy(&batches[m]);
    }
}

static void train(struct found *found, struct toy_options options, struct executor *executor, struct way way)
{
    struct toy toy;
    options.executor = executor;
    options.replays = way.replays;
    toy_create(&toy, &options);
    struct schedule schedule = schedule_create(MICRO_BATCHES, options.slots, options.split_backward);
    int taken = 0;
    for (int s = 0; s < STEPS; s++) {
        struct batch batches[MICRO_BATCHES];
        for (int m = 0; m < MICRO_BATCHES; m++)
            toy_batch(&batches[m], options.rows, options.row_tokens, (uint64_t)(s * MICRO_BATCHES + m));
        engine_begin(&toy.engine, &schedule, batches, 1e-2 / (s + 1));
        destroy_batches(batches);
        if (!way.ahead)
            CHECK(engine_ready(&toy.engine) == (executor->class->event_passed == NULL));
        while (taken <= s - (way.ahead ? 1 : 0))
            found->results[taken++] = engine_take(&toy.engine);
    }
    while (taken < STEPS)
        found->results[taken++] = engine_take(&toy.engine);
    CHECK(!engine_ready(&toy.engine));
    found->replays = recorded_replays();
    engine_synchronize(&toy.engine);
    found->state = toy_state(&toy, &found->bytes);
    schedule_destroy(&schedule);
    toy_destroy(&toy);
}

static void test(struct executor *cpu, enum toy_kind kind, int slots, bool split)
{
    static const struct way ways[WAYS] = {{false, false}, {false, true}, {true, true}};
    struct toy_options options = toy_options(cpu);
    options.settings = toy_settings(kind);
    options.slots = slots;
    options.split_backward = split;
    options.recompute = DECK_RECOMPUTE_NORMS;
    struct found plain, other;
    train(&plain, options, cpu, ways[0]);
    for (int w = 0; w < WAYS; w++) {
        struct executor *late = late_executor_create(cpu);
        train(&other, options, late, ways[w]);
        CHECK(other.bytes == plain.bytes && memcmp(other.state, plain.state, (size_t)plain.bytes) == 0);
        CHECK(memcmp(other.results, plain.results, sizeof plain.results) == 0);
        /* all but the first of its kind */
        CHECK((late_replays(late) > STEPS * MICRO_BATCHES) == ways[w].replays);
        CHECK(ways[w].replays ? other.replays > MICRO_BATCHES : other.replays == 0);
        free(other.state);
        late->class->destroy(late);
    }
    for (int s = 1; s < STEPS; s++)
        CHECK(plain.results[s].loss_sum != plain.results[s - 1].loss_sum);
    free(plain.state);
}

/* -- Micro-batches of as many tokens and slots, in rows of another length ----------------------------------------- */

/* Counts the launches of attention that say that segments are shorter than they are. */
static void look_at_segments(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    const struct attention_segments *said = NULL;
    if (op == OP_ATTENTION_FORWARD)
        said = &((const struct attention_forward_args *)args)->segments;
    if (op == OP_ATTENTION_BACKWARD)
        said = &((const struct attention_backward_args *)args)->segments;
    for (int64_t s = 0; said != NULL && s < said->q_length.cols; s++)
        *(int *)wrapper->self += ((const int32_t *)said->q_length.data)[s] > said->longest;
    wrapper_pass(wrapper, stream, op, args);
}

/* One row that is one segment. */
static void join_rows(struct batch *batch)
{
    const int64_t tokens = batch->rows * batch->row_tokens, slots = batch->rows * batch->max_segments;
    memset(batch->segment_start, 0, (size_t)slots * sizeof *batch->segment_start);
    memset(batch->segment_length, 0, (size_t)slots * sizeof *batch->segment_length);
    batch->segment_length[0] = (int32_t)tokens;
    batch->rows = 1;
    batch->row_tokens = tokens;
    batch->max_segments = slots;
}

static void test_rows(struct executor *cpu)
{
    int short_of = 0;
    struct wrapper wrapper;
    wrapper_create(&wrapper, cpu, look_at_segments, &short_of);
    struct executor *late = late_executor_create(&wrapper.executor);
    struct toy_options options = toy_options(late);
    struct toy toy;
    options.replays = true;
    toy_create(&toy, &options);
    struct schedule schedule = schedule_create(MICRO_BATCHES, 1, false);
    for (int s = 0; s < 2; s++) {
        struct batch batches[MICRO_BATCHES];
        for (int m = 0; m < MICRO_BATCHES; m++) {
            toy_batch(&batches[m], options.rows, options.row_tokens, (uint64_t)m);
            if (m % 2 == 0)
                join_rows(&batches[m]);
        }
        engine_step(&toy.engine, &schedule, batches, 1e-3);
        destroy_batches(batches);
    }
    CHECK(late_replays(late) > MICRO_BATCHES && short_of == 0);
    schedule_destroy(&schedule);
    toy_destroy(&toy);
    late->class->destroy(late);
}

int main(void)
{
    struct executor *cpu = cpu_executor_create(2);
    test_rows(cpu);
    for (enum toy_kind kind = TOY_LLAMA; kind < TOY_KINDS; kind++) {
        test(cpu, kind, 1, false);
        test(cpu, kind, 2, kind == TOY_ESM2);
    }
    cpu->class->destroy(cpu);
    return check_end();
}
