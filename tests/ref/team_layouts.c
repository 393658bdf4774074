#include "ref/team_layouts.h"

#include <stdio.h>

const struct layout team_layouts[TEAM_LAYOUTS] = {
    {.context = 1, .shard = 2, .tensor = 2, .sharding.level = SHARD_FULL},
    {.context = 1, .shard = 1, .tensor = 4, .whole_rows = true},
    {.context = 2, .method = DECK_CONTEXT_RING, .shard = 4, .sharding.level = SHARD_FULL},
    {.context = 1, .shard = 2, .stages = 2, .chunks = 1, .sharding.level = SHARD_FULL},
    {.context = 1, .shard = 1, .stages = 2, .chunks = 2},
    {.context = 1, .shard = 1, .stages = 4, .chunks = 1}};

bool layout_is_near(struct comm *comm, struct executor *executor, const struct layout *layout, const struct form *form,
                    const struct run_outcome *alone, bool reports)
{
    struct distances apart;
    const bool equal = layout_is_equal(comm, executor, layout, form, alone, &bound_f32, &apart);
    if (comm->rank == 0 && !equal && reports)
        fprintf(stderr, "%s:\n    loss %.2e, norm %.2e, gradients %.2e and %.2e\n", team_text(comm->size, layout, form),
                apart.loss, apart.norm, apart.first, apart.last);
    return equal;
}

bool shardings_are_near(struct comm *comm, struct executor *executor, const struct form *form)
{
    struct run_outcome alone = train_alone(comm, executor, form, false);
    bool near = true;
    for (int i = 0; i < TEAM_SHARDINGS; i++)
        for (int shard = 2; shard <= 4; shard += 2) {
            const bool whole = team_shardings[i].level == SHARD_NONE; /* then all ranks are replicas */
            const struct layout layout = {.context = 1, .shard = whole ? 1 : shard, .sharding = team_shardings[i]};
            near &= layout_is_near(comm, executor, &layout, form, &alone, true);
        }
    outcome_destroy(&alone);
    return near;
}

bool layouts_are_near(struct comm *comm, struct executor *executor, const struct form *form)
{
    struct run_outcome alone = train_alone(comm, executor, form, false);
    bool near = true;
    for (int l = 0; l < TEAM_LAYOUTS; l++)
        near &= layout_is_near(comm, executor, &team_layouts[l], form, &alone, true);
    outcome_destroy(&alone);
    return near;
}
