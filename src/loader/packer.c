#include "loader/packer.h"
#include "base/range.h"

int64_t packer_next(const struct packer_settings *settings, struct data_blend *blend, struct packer_segment *segments)
{
    int64_t used = 0, count = 0;
    while (count < settings->max_segments && used < settings->row_tokens && !blend_ended(blend)) {
        struct packer_segment *segment = &segments[count];
        segment->window = blend_window(blend, &segment->store);
        segment->epoch = blend->position.epoch[segment->store];
        segment->offset = blend->position.offset;
        int64_t rest = window_length(&segment->window) - segment->offset, left = settings->row_tokens - used;
        if (rest > left && !settings->split)
            break;
        segment->length = MIN(rest, left);
        used += segment->length;
        count++;
        if (segment->length == rest)
            blend_advance(blend, segment->store);
        else
            blend->position.offset += segment->length;
    }
    return count;
}
