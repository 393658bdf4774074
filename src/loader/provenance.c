#include "loader/provenance.h"
#include "base/memory.h"

#include <stdbool.h>
#include <string.h>
#include <xxhash.h>

struct data_provenance provenance_create(int64_t stores)
{
    int64_t *numbers = memory_allocate(2 * stores * (int64_t)sizeof *numbers);
    return (struct data_provenance){stores, numbers, numbers + stores};
}

void provenance_destroy(struct data_provenance *provenance)
{
    memory_free(provenance->content); /* one allocation has both arrays */
    *provenance = (struct data_provenance){0};
}

int64_t provenance_path(const char *path)
{
    return (int64_t)XXH3_64bits(path, strlen(path));
}

/* Returns the first store of `old` that has this number and is not matched; -1: none. */
static int64_t find(const struct data_provenance *old, const bool *matched, const int64_t *numbers, int64_t wanted)
{
    for (int64_t d = 0; d < old->stores; d++)
        if (!matched[d] && numbers[d] == wanted)
            return d;
    return -1;
}

int64_t provenance_match(const struct data_provenance *old, const struct data_provenance *new_, int64_t *from)
{
    bool *matched = memory_allocate(old->stores * (int64_t)sizeof *matched);
    int64_t changed = -1;
    for (int64_t d = 0; d < new_->stores; d++) {
        from[d] = find(old, matched, old->content, new_->content[d]);
        if (from[d] >= 0)
            matched[from[d]] = true;
    }
    for (int64_t d = new_->stores - 1; d >= 0; d--)
        if (from[d] < 0 && find(old, matched, old->path, new_->path[d]) >= 0)
            changed = d;
    memory_free(matched);
    return changed;
}
