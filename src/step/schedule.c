#include "step/schedule.h"
#include "base/memory.h"

static void add_backward(struct schedule *s, int micro_batch, int slot, int micro_batches, bool split)
{
    struct action action = {ACTION_BACKWARD, micro_batch, slot, micro_batch == 0, micro_batch == micro_batches - 1,
                            GRADIENT_BOTH};
    if (split) {
        action.gradients = GRADIENT_INPUT;
        s->actions[s->count++] = action;
        action.gradients = GRADIENT_WEIGHT;
    }
    s->actions[s->count++] = action;
}

struct schedule schedule_create(int micro_batches, int slots, bool split)
{
    struct schedule s = {.slots = slots, .split_backward = split};
    s.actions = memory_allocate((int64_t)sizeof *s.actions * 3 * micro_batches);
    for (int start = 0; start < micro_batches; start += slots) {
        int end = start + slots < micro_batches ? start + slots : micro_batches;
        for (int m = start; m < end; m++)
            s.actions[s.count++] = (struct action){.kind = ACTION_FORWARD, .micro_batch = m, .slot = m - start};
        for (int m = start; m < end; m++)
            add_backward(&s, m, m - start, micro_batches, split);
    }
    return s;
}

void schedule_destroy(struct schedule *schedule)
{
    memory_free(schedule->actions);
    schedule->actions = NULL;
}
