/* On an executor that does everything later, a training that runs ahead of it, and replays parts of its steps, finds
 * what one that waits finds, to the bit, though the host's batches are written over as soon as a step has begun. */
#include "check.h"

#include "cpu/cpu.h"
#include "ref/late.h"
#include "ref/toy.h"

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

int main(void)
{
    struct executor *cpu = cpu_executor_create(2);
    for (enum toy_kind kind = TOY_LLAMA; kind < TOY_KINDS; kind++) {
        test(cpu, kind, 1, false);
        test(cpu, kind, 2, kind == TOY_ESM2);
    }
    cpu->class->destroy(cpu);
    return check_end();
}
