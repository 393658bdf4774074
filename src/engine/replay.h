/* Parts of a step that an executor captures once (as CUDA graphs) and then replays. Addresses and shapes are fixed
 * after planning, and everything that changes from step to step is read from device memory, so a replay has the same
 * effect as the launches. */
#ifndef ENGINE_REPLAY_H
#define ENGINE_REPLAY_H

#include "core/launch.h"
#include "store/store.h"

enum replay_part { REPLAY_FORWARD, REPLAY_BACKWARD, REPLAY_UPDATE, REPLAY_GENERATE };

/* Parts with equal keys have the same launches. */
struct replay_key {
    enum replay_part part;
    int chunk, slot, gradients; /* as in struct schedule_action; 0 where the part has none */
    bool first, last;
    enum store_written written; /* a forward distributes these weights to all ranks and quantizes them */
    bool measures;              /* a backward that ends with the measurement of the gradient */
    bool statistics;            /* quantization errors are measured */
    int64_t tokens, segments;   /* of the batch */
    int64_t labelled;           /* number of rows that the head computes (data/labelled_rows.h); 0: all */
    int64_t longest;            /* as in struct attention_segments; an argument of launches */
    bool full;
};

struct step_replay {
    struct executor *executor; /* borrowed */
    bool enabled;
    struct replay_entry {
        struct replay_key key;
        void *recording; /* the captured graph; NULL: not captured yet */
    } * entries;
    int count;
};

/* Makes an empty cache of captured graphs. If enabled is false, or the executor cannot capture, every part is launched
 * each time. */
void replay_create(struct step_replay *replay, struct executor *executor, bool enabled);
void replay_destroy(struct step_replay *replay);

/* Runs `run(self)`: eagerly when the key is new (kernels are chosen and loaded then), captured on the second call, and
 * replayed afterwards. `run` launches on `stream` and on streams that events fork from it and join to it; it never
 * waits on the host. While a profile is measured, which times single launches, it always runs eagerly. */
void replay_run(struct step_replay *replay, const struct replay_key *key, struct stream *stream,
                void (*run)(void *self), void *self);

#endif
