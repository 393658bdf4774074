/* Parts of a step that an executor has recorded once and launches whole from then on, a CUDA graph, say. Addresses and
 * shapes are fixed after planning, and what changes by step is read from the device's memory, so a recording does what
 * its launches would do. */
#ifndef STEP_REPLAY_H
#define STEP_REPLAY_H

#include "core/launch.h"

enum replay_part { REPLAY_FORWARD, REPLAY_BACKWARD, REPLAY_UPDATE };

/* What makes two parts launch the same. */
struct replay_key {
    enum replay_part part;
    int slot, gradients; /* as in struct action; 0 where the part has none */
    bool first, last;
    bool measures;            /* a backward at whose end the gradient is measured */
    int64_t tokens, segments; /* of the batch */
    int64_t longest;          /* as in struct attention_segments, which launches hold */
    bool regular;
};

struct replay {
    struct executor *executor; /* borrowed */
    bool enabled;
    struct replay_entry {
        struct replay_key key;
        void *recording; /* NULL: not yet made */
    } * entries;
    int count;
};

/* enabled: else every part is launched anew each time, as it is where the executor cannot record. */
void replay_create(struct replay *replay, struct executor *executor, bool enabled);
void replay_destroy(struct replay *replay);

/* Runs `run(self)` when the key is new, for what is chosen or made at the first use; records it the second time, and
 * replays it from then on. It launches on the stream and on those that it forks from it and joins again by events, and
 * waits for none. During a profile, which looks at single launches, it is run. */
void replay_run(struct replay *replay, const struct replay_key *key, struct stream *stream, void (*run)(void *self),
                void *self);

#endif
