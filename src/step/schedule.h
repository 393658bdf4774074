/* A schedule is an array of actions; the engine interprets it. "No pipeline" is a schedule too. */
#ifndef STEP_SCHEDULE_H
#define STEP_SCHEDULE_H

#include "model/unit.h"

enum action_kind { ACTION_FORWARD, ACTION_BACKWARD };

struct action {
    enum action_kind kind;
    int micro_batch;
    int slot;                    /* of activations */
    bool first;                  /* the step's first micro-batch: its gradients replace what the buffers hold */
    bool last;                   /* the step's last micro-batch: gradients are complete after it */
    enum gradient_set gradients; /* of a backward */
};

struct schedule {
    struct action *actions; /* owned */
    int count;
    int slots;           /* activation slots that it needs */
    bool split_backward; /* has backwards with less than GRADIENT_BOTH: gradients of tensors are kept between them */
};

/* Groups of `slots` forwards followed by their backwards in the same order: slots = 1 is F0 B0 F1 B1 ...,
 * slots = 2 is F0 F1 B0 B1 .... With split, each backward is an input part followed by a weight part. */
struct schedule schedule_create(int micro_batches, int slots, bool split);
void schedule_destroy(struct schedule *schedule);

#endif
