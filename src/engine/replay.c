#include "engine/replay.h"
#include "base/memory.h"
#include "core/profile.h"

#include <stdlib.h>

static const char *const names[] = {[REPLAY_FORWARD] = "replay forward",
                                    [REPLAY_BACKWARD] = "replay backward",
                                    [REPLAY_UPDATE] = "replay update",
                                    [REPLAY_GENERATE] = "replay generate"};

void replay_create(struct step_replay *replay, struct executor *executor, bool enabled)
{
    *replay = (struct step_replay){.executor = executor, .enabled = enabled && executor->capture != NULL};
}

void replay_destroy(struct step_replay *replay)
{
    for (int i = 0; i < replay->count; i++)
        if (replay->entries[i].recording != NULL)
            replay->executor->capture->discard(replay->executor->owner, replay->entries[i].recording);
    free(replay->entries);
}

static bool same(const struct replay_key *a, const struct replay_key *b)
{
    return a->part == b->part && a->chunk == b->chunk && a->slot == b->slot && a->gradients == b->gradients &&
           a->first == b->first && a->last == b->last && a->written == b->written && a->measures == b->measures &&
           a->statistics == b->statistics && a->tokens == b->tokens && a->segments == b->segments &&
           a->labelled == b->labelled && a->longest == b->longest && a->full == b->full;
}

/* Returns NULL if the key is new. */
static struct replay_entry *find(struct step_replay *replay, const struct replay_key *key)
{
    for (int i = 0; i < replay->count; i++)
        if (same(&replay->entries[i].key, key))
            return &replay->entries[i];
    return NULL;
}

void replay_run(struct step_replay *replay, const struct replay_key *key, struct stream *stream,
                void (*run)(void *self), void *self)
{
    const struct executor *executor = replay->executor;
    if (!replay->enabled || profile_running()) {
        run(self);
        return;
    }
    struct replay_entry *entry = find(replay, key);
    if (entry == NULL) {
        replay->entries = memory_grow(replay->entries, (int64_t)sizeof *replay->entries * (replay->count + 1));
        replay->entries[replay->count++] = (struct replay_entry){*key, NULL};
        run(self);
        return;
    }
    if (entry->recording == NULL) {
        executor->capture->begin(executor->owner, stream);
        run(self);
        entry->recording = executor->capture->end(executor->owner, stream);
    }
    launch_replay(stream, entry->recording, names[key->part], key->slot);
}
