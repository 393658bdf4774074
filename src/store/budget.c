#include "store/budget.h"
#include "base/memory.h"
#include "plan/plan.h"

#include <stdlib.h>

void budget_create(struct budget *budget, struct executor *executor)
{
    *budget = (struct budget){.executor = executor};
    if (executor->device != NULL)
        budget->bytes[BUDGET_MARGIN] = executor->device->margin(executor->owner);
}

static enum memory_kind kind_of(enum budget_category category)
{
    return category == BUDGET_HOST ? MEMORY_HOST : MEMORY_DEVICE;
}

void budget_destroy(struct budget *budget)
{
    for (int i = 0; i < budget->count; i++) {
        const struct budget_block *block = &budget->blocks[i];
        if (block->group != NULL)
            block->group->class->release(block->group, block->address);
        else
            budget->executor->class->release(budget->executor, block->address, kind_of(block->category));
    }
    free(budget->blocks);
    *budget = (struct budget){0};
}

/* A planned group has no class. */
static bool gives(const struct group *group)
{
    return group != NULL && group->class != NULL && group->class->allocate != NULL;
}

void *budget_allocate_gathered(struct budget *budget, int64_t bytes, enum budget_category category, struct group *group)
{
    if (bytes == 0)
        return NULL;
    if (budget->count == budget->capacity) {
        budget->capacity = budget->capacity ? 2 * budget->capacity : 64;
        budget->blocks = memory_grow(budget->blocks, (int64_t)sizeof *budget->blocks * budget->capacity);
    }
    struct group *giver = gives(group) && !budget->executor->class->dry ? group : NULL;
    void *address = giver != NULL ? giver->class->allocate(giver, bytes)
                                  : budget->executor->class->allocate(budget->executor, bytes, kind_of(category));
    budget->blocks[budget->count++] = (struct budget_block){address, bytes, category, giver};
    budget->bytes[category] += bytes;
    return address;
}

void *budget_allocate(struct budget *budget, int64_t bytes, enum budget_category category)
{
    return budget_allocate_gathered(budget, bytes, category, NULL);
}

void budget_reserve(struct budget *budget, const struct executor *plan)
{
    for (int stream = 0; stream < STREAM_COUNT; stream++) {
        int64_t bytes = plan_workspace(plan, stream), more = bytes - budget->workspace[stream];
        budget->executor->class->reserve(budget->executor, stream, bytes);
        if (more > 0) {
            budget->workspace[stream] += more;
            budget->bytes[BUDGET_WORKSPACE] += more;
        }
    }
}

int64_t budget_total(const struct budget *budget)
{
    int64_t total = 0;
    for (int i = 0; i < BUDGET_HOST; i++)
        total += budget->bytes[i];
    return total;
}

const char *budget_category_name(enum budget_category category)
{
    static const char *const names[BUDGET_CATEGORIES] = {"weights",     "gradients", "optimizer", "exchange",
                                                         "activations", "transient", "batch",     "workspace",
                                                         "margin",      "host"};
    return names[category];
}
