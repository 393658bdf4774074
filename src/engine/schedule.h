/* Key header: a schedule is an array of actions (forward or backward of one micro-batch), which the engine interprets.
 * Gradient accumulation without a pipeline is one schedule, and each pipeline schedule is another. */
#ifndef ENGINE_SCHEDULE_H
#define ENGINE_SCHEDULE_H

#include "model/execution.h"
#include "model/model.h"

enum action_kind { ACTION_FORWARD, ACTION_BACKWARD };

struct schedule_action {
    enum action_kind kind;
    int chunk; /* the stage's model chunk, from 0; 0 where a stage has one */
    int micro_batch;
    int slot;                    /* which of the chunk's activation buffers */
    bool first;                  /* the step's first micro-batch: its gradients overwrite the buffers */
    bool last;                   /* the step's last micro-batch: the chunk's gradients are complete after it */
    enum gradient_set gradients; /* which gradients a backward computes */
};

struct schedule {
    struct schedule_action *actions; /* owned */
    int count;
    int slots[MODEL_CHUNKS]; /* activation buffers that each chunk needs: its micro-batches in flight */
    bool split_backward;     /* some backwards compute only input or only weight gradients; output gradients are kept in
                                between */
};

/* Makes a schedule without a pipeline: `slots` forwards, then their backwards in the same order. slots = 1 is F0 B0 F1
 * B1 ..., slots = 2 is F0 F1 B0 B1 .... With split, each backward is an input part followed by a weight part. */
struct schedule schedule_create(int micro_batches, int slots, bool split);

/* Makes the schedule of one pipeline stage. With one chunk per stage it is 1F1B (PipeDream-Flush, Narayanan et al.
 * 2019). With more it is interleaved 1F1B (Narayanan et al. 2021): a chunk runs as many micro-batches as there are
 * stages before the next chunk runs them, and the number of micro-batches must be a multiple of the stages. Both have a
 * warm-up of forwards, a steady state of one forward and one backward, and a cool-down of backwards. The bubble is
 * (stages - 1) / (chunks * micro_batches) of the compute time.
 *
 * An action first waits for the message of the neighbouring stage, and last sends its own. Neighbouring chunks have the
 * micro-batches in the same order, so the messages of one direction between two stages arrive in the order in which
 * they are awaited. A send waits only for the previous message of the same direction to be received. */
struct schedule schedule_pipeline(int micro_batches, const struct pipeline_parallel *pipeline);

/* Frees the actions. */
void schedule_destroy(struct schedule *schedule);

#endif
