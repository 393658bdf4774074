/* A schedule is an array of actions; the engine interprets it. "No pipeline" is a schedule too. */
#ifndef ENGINE_SCHEDULE_H
#define ENGINE_SCHEDULE_H

#include "model/execution.h"
#include "model/model.h"

enum action_kind { ACTION_FORWARD, ACTION_BACKWARD };

struct schedule_action {
    enum action_kind kind;
    int chunk; /* of the stage's, number 0 on; 0 where there is one */
    int micro_batch;
    int slot;                    /* of the chunk's activations */
    bool first;                  /* the step's first micro-batch: its gradients replace what the buffers hold */
    bool last;                   /* the step's last micro-batch: the chunk's gradients are complete after it */
    enum gradient_set gradients; /* of a backward */
};

struct schedule {
    struct schedule_action *actions; /* owned */
    int count;
    int slots[MODEL_CHUNKS]; /* activation slots that each chunk needs */
    bool split_backward; /* has backwards with less than GRADIENT_BOTH: gradients of tensors are kept between them */
};

/* Groups of `slots` forwards followed by their backwards in the same order: slots = 1 is F0 B0 F1 B1 ...,
 * slots = 2 is F0 F1 B0 B1 .... With split, each backward is an input part followed by a weight part. */
struct schedule schedule_create(int micro_batches, int slots, bool split);

/* One stage of a pipeline. With one chunk to a stage: one forward, one backward (Narayanan et al. 2019,
 * PipeDream-Flush). With more: interleaved (Narayanan et al. 2021), in which as many micro-batches as there are stages
 * go through a chunk before the next chunk has them; their number divides by that of stages. In both a stage first
 * computes forwards that fill the pipeline, then a forward and a backward in turn, then the backwards that are left; of
 * a step's time a share of (stages - 1) / (chunks * micro_batches), relative to that of computing, is spent waiting.
 *
 * An action waits for what the stage beside it sends, and sends on what it has made. A chunk's neighbours have its
 * micro-batches in the same order, so between two stages each message of a way is the next that is waited for. A stage
 * need not wait until what it has sent is received, but for the message before on the same way. */
struct schedule schedule_pipeline(int micro_batches, const struct stage_cut *cut);

void schedule_destroy(struct schedule *schedule);

#endif
