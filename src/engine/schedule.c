#include "engine/schedule.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/range.h"
#include "architecture/stages.h"

static void add_backward(struct schedule *s, int micro_batch, int slot, int micro_batches, bool split)
{
    struct schedule_action action = {.kind = ACTION_BACKWARD,
                                     .micro_batch = micro_batch,
                                     .slot = slot,
                                     .first = micro_batch == 0,
                                     .last = micro_batch == micro_batches - 1,
                                     .gradients = GRADIENT_BOTH};
    if (split) {
        action.gradients = GRADIENT_INPUT;
        s->actions[s->count++] = action;
        action.gradients = GRADIENT_WEIGHT;
    }
    s->actions[s->count++] = action;
}

struct schedule schedule_create(int micro_batches, int slots, bool split)
{
    struct schedule s = {.slots = {slots}, .split_backward = split};
    s.actions = memory_allocate((int64_t)sizeof *s.actions * 3 * micro_batches);
    for (int start = 0; start < micro_batches; start += slots) {
        int end = MIN(start + slots, micro_batches);
        for (int m = start; m < end; m++)
            s.actions[s.count++] =
                (struct schedule_action){.kind = ACTION_FORWARD, .micro_batch = m, .slot = m - start};
        for (int m = start; m < end; m++)
            add_backward(&s, m, m - start, micro_batches, split);
    }
    return s;
}

/* -- Pipelines --------------------------------------------------------------------------------------------------- */

/* A pipeline schedule. Pass k of the forwards, or of the backwards, is a pair of chunk and micro-batch. */
struct pipeline {
    struct schedule schedule;
    struct pipeline_parallel pipeline;
    int micro_batches, passes;   /* passes: number of forwards, and of backwards */
    int in_flight[MODEL_CHUNKS]; /* micro-batches between forward and backward */
};

static int micro_batch_of(const struct pipeline *p, int pass)
{
    const int stages = p->pipeline.stages;
    return pass / (stages * p->pipeline.chunks) * stages + pass % stages;
}

static int chunk_of(const struct pipeline *p, int pass, bool backward)
{
    const int chunk = pass / p->pipeline.stages % p->pipeline.chunks;
    if (p->pipeline.chunks == 1)
        return 0;
    return backward ? p->pipeline.chunks - 1 - chunk : chunk;
}

static void add_pass(struct pipeline *p, int pass, bool backward)
{
    const int chunk = chunk_of(p, pass, backward), micro_batch = micro_batch_of(p, pass);
    struct schedule_action action = {.kind = backward ? ACTION_BACKWARD : ACTION_FORWARD,
                                     .chunk = chunk,
                                     .micro_batch = micro_batch,
                                     .first = backward && micro_batch == 0,
                                     .last = backward && micro_batch == p->micro_batches - 1,
                                     .gradients = backward ? GRADIENT_BOTH : 0};
    p->schedule.actions[p->schedule.count++] = action;
    p->in_flight[chunk] += backward ? -1 : 1;
    if (p->in_flight[chunk] > p->schedule.slots[chunk])
        p->schedule.slots[chunk] = p->in_flight[chunk];
}

/* A chunk's micro-batches enter and leave in numerical order, so slots can be used in rotation. */
static void number_slots(struct schedule *s)
{
    for (int i = 0; i < s->count; i++)
        s->actions[i].slot = s->actions[i].micro_batch % s->slots[s->actions[i].chunk];
}

/* Returns the number of forwards before the first backward. */
static int warm_up(const struct pipeline *p)
{
    const int behind = p->pipeline.stages - p->pipeline.stage - 1;
    const int passes = p->pipeline.chunks == 1 ? behind : 2 * behind + (p->pipeline.chunks - 1) * p->pipeline.stages;
    return MIN(passes, p->passes);
}

static void add_actions(struct pipeline *p)
{
    const int filling = warm_up(p);
    for (int k = 0; k < filling; k++)
        add_pass(p, k, false);
    for (int k = 0; k < p->passes; k++) {
        if (filling + k < p->passes)
            add_pass(p, filling + k, false);
        add_pass(p, k, true);
    }
}

struct schedule schedule_pipeline(int micro_batches, const struct pipeline_parallel *pipeline)
{
    struct pipeline p = {
        .pipeline = *pipeline, .micro_batches = micro_batches, .passes = micro_batches * pipeline->chunks};
    if (pipeline->chunks > MODEL_CHUNKS || (pipeline->chunks > 1 && micro_batches % pipeline->stages != 0))
        error_fatal("bug: %d micro-batches do not go through %d chunks of %d stages", micro_batches, pipeline->chunks,
                    pipeline->stages);
    p.schedule.actions = memory_allocate(2 * p.passes * (int64_t)sizeof *p.schedule.actions);
    add_actions(&p);
    number_slots(&p.schedule);
    return p.schedule;
}

void schedule_destroy(struct schedule *schedule)
{
    memory_free(schedule->actions);
    schedule->actions = NULL;
}
