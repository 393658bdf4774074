/* Parts of a step that an executor records once and then launches as a whole (CUDA graphs). Addresses and shapes are
 * fixed after planning, and what changes from step to step is read from device memory, so a recording does the same as
 * its launches would. */
#ifndef ENGINE_REPLAY_H
#define ENGINE_REPLAY_H

#include "core/launch.h"

enum replay_part { REPLAY_FORWARD, REPLAY_BACKWARD, REPLAY_UPDATE, REPLAY_GENERATE };

/* What makes two parts launch the same. */
struct replay_key {
    enum replay_part part;
    int chunk, slot, gradients; /* as in struct schedule_action; 0 where the part has none */
    bool first, last;
    bool written;             /* a forward in which weights reach all ranks, and copies of them are made */
    bool measures;            /* a backward at whose end the gradient is measured */
    bool statistics;          /* what quantization loses is measured too */
    int64_t tokens, segments; /* of the batch */
    int64_t longest;          /* as in struct attention_segments, which launches hold */
    bool regular, full;
};

struct step_replay {
    struct executor *executor; /* borrowed */
    bool enabled;
    struct replay_entry {
        struct replay_key key;
        void *recording; /* NULL: not yet made */
    } * entries;
    int count;
};

/* enabled: else every part is launched anew each time, as it is where the executor cannot record. */
void replay_create(struct step_replay *replay, struct executor *executor, bool enabled);
void replay_destroy(struct step_replay *replay);

/* Runs `run(self)` eagerly when the key is new (kernels are chosen and loaded then), captures it on the second call,
 * and replays the recording afterwards. `run` launches on `stream` and on streams that events fork from it and join to
 * it again; it never waits on the host. While a profile is taken, which times single launches, it always runs eagerly.
 */
void replay_run(struct step_replay *replay, const struct replay_key *key, struct stream *stream,
                void (*run)(void *self), void *self);

#endif
