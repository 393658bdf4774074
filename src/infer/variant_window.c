/* A variant's letters, in the window in which it is scored. */
#include "base/range.h"
#include "infer/variant_score_private.h"

#include <string.h>

const struct variant_edit *variant_edits(const struct variant_list *v, const struct sequence_variant *variant)
{
    return v->edits + variant->first;
}

int64_t variant_growth(const struct variant_list *v, const struct sequence_variant *variant)
{
    int64_t growth = 0;
    for (int64_t i = 0; i < variant->count; i++)
        growth += variant_edits(v, variant)[i].count - variant_edits(v, variant)[i].removed;
    return growth;
}

struct variant_window variant_window_of(const struct variant_list *v, const struct sequence_variant *variant,
                                        int64_t room)
{
    const struct variant_edit *edits = variant_edits(v, variant), *last = &edits[variant->count - 1];
    const int64_t length = v->references->list[variant->record].length;
    const int64_t count = MIN(length, room - MAX(variant_growth(v, variant), 0));
    const int64_t end = MAX(last->position + MAX(last->removed, 1) - 1, edits[0].position);
    if (count < 1)
        return (struct variant_window){-1, 0};
    return (struct variant_window){site_window(length, count, edits[0].position, MIN(end, length - 1)), count};
}

int64_t variant_apply(const struct variant_list *v, const struct sequence_variant *variant,
                      struct variant_window window, uint8_t *letters)
{
    const uint8_t *record = reference_ids(v->references, variant->record);
    int64_t used = 0, at = window.first;
    for (int64_t i = 0; i < variant->count; i++) {
        const struct variant_edit *edit = &variant_edits(v, variant)[i];
        memcpy(letters + used, record + at, (size_t)(edit->position - at));
        used += edit->position - at;
        memcpy(letters + used, v->ids + edit->added, (size_t)edit->count);
        used += edit->count;
        at = edit->position + edit->removed;
    }
    memcpy(letters + used, record + at, (size_t)(window.first + window.count - at));
    return used + window.first + window.count - at;
}
