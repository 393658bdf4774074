#include "comm/placement.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* Returns the index of an id among the first `count`; `count` if it is missing. */
static int find(const struct placement_id *ids, int count, const struct placement_id *id)
{
    int i = 0;
    while (i < count && memcmp(&ids[i], id, sizeof *id) != 0)
        i++;
    return i;
}

static int compare(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct placement_id));
}

bool placement_repeats(const struct placement_id *ids, int count)
{
    struct placement_id *sorted = memory_allocate((int64_t)sizeof *sorted * (count + 1));
    bool repeats = false;
    memcpy(sorted, ids, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, compare);
    for (int i = 1; i < count; i++)
        repeats = repeats || compare(&sorted[i - 1], &sorted[i]) == 0;
    memory_free(sorted);
    return repeats;
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
