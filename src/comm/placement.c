#include "comm/placement.h"
#include "base/memory.h"

#include <string.h>

/* Returns the index of an id among the first `count`; `count` if it is missing. */
static int find(const struct placement_id *ids, int count, const struct placement_id *id)
{
    int i = 0;
    while (i < count && memcmp(&ids[i], id, sizeof *id) != 0)
        i++;
    return i;
}

bool placement_repeats(const struct placement_id *ids, int count)
{
    for (int i = 0; i < count; i++)
        if (find(ids, i, &ids[i]) < i)
            return true;
    return false;
}

int placement_choose(struct device_placement *places, const struct placement_id *ids, const int64_t *counts,
                     int64_t most, int ranks)
{
    /* all: the different devices; users: the ranks of each; taken: each rank's device */
    struct placement_id *all = memory_allocate((int64_t)sizeof *all * ranks * most);
    int *users = memory_allocate((int64_t)sizeof *users * ranks * most);
    int *chosen = memory_allocate((int64_t)sizeof *chosen * ranks);
    int devices = 0;
    for (int64_t seen = 1; seen <= most; seen++)
        for (int r = 0; r < ranks; r++) {
            for (int64_t i = 0; counts[r] == seen && i < seen; i++) {
                const struct placement_id *id = &ids[r * most + i];
                int at = find(all, devices, id);
                if (at == devices)
                    all[devices++] = *id;
                if (i == 0 || users[at] < users[chosen[r]]) {
                    places[r].device = (int)i;
                    chosen[r] = at;
                }
            }
            if (counts[r] == seen)
                users[chosen[r]]++;
        }
    for (int r = 0; r < ranks; r++)
        places[r].sharing = users[chosen[r]];
    memory_free(all);
    memory_free(users);
    memory_free(chosen);
    return devices;
}
