#include "data/packer.h"
#include "base/error.h"

struct packer packer_create(const struct packer_settings *settings, const struct windows *windows)
{
    struct packer packer = {.settings = *settings, .windows = windows};
    packer_seek(&packer, (struct packer_position){0});
    return packer;
}

void packer_seek(struct packer *packer, struct packer_position position)
{
    CHECK_BUG(position.window >= 0 && position.window <= packer->windows->header.windows);
    packer->position = position;
    packer->order = shuffle_create(packer->windows->header.windows, packer->settings.seed, position.epoch);
}

static bool at_end(const struct packer *packer)
{
    return packer->settings.once && packer->position.window == packer->windows->header.windows;
}

static void advance(struct packer *packer, int64_t tokens, int64_t window_tokens)
{
    struct packer_position position = packer->position;
    position.offset += tokens;
    if (position.offset == window_tokens) {
        position.offset = 0;
        position.window++;
    }
    packer->position = position;
    if (position.window == packer->windows->header.windows && !packer->settings.once)
        packer_seek(packer, (struct packer_position){.epoch = position.epoch + 1});
}

int64_t packer_next(struct packer *packer, struct packer_segment *segments)
{
    const struct packer_settings *settings = &packer->settings;
    int64_t used = 0, count = 0;
    while (count < settings->max_segments && used < settings->row_tokens && !at_end(packer)) {
        struct packer_position position = packer->position;
        int64_t number = settings->shuffle ? shuffle_at(&packer->order, position.window) : position.window;
        struct packer_segment *segment = &segments[count];
        segment->window = windows_locate(packer->windows, number, &packer->hint);
        segment->offset = position.offset;
        int64_t total = window_length(&segment->window), room = settings->row_tokens - used;
        segment->length = total - position.offset;
        if (segment->length > room && !settings->split)
            break;
        if (segment->length > room)
            segment->length = room;
        used += segment->length;
        count++;
        advance(packer, segment->length, total);
    }
    return count;
}
