/* A session: everything that a setup describes, made and ready to run: ranks, device, model, data, weights. */
#ifndef TRAIN_SESSION_H
#define TRAIN_SESSION_H

#include "comm/grid.h"
#include "core/device.h"
#include "loader/loader.h"
#include "setup/setup.h"

struct session {
    struct setup setup; /* with the layout and what blocks recompute, where the deck left them to the program */
    struct comm *world; /* borrowed */
    struct grid grid;
    struct parallel_groups groups; /* owned */
    struct executor *executor;
    int threads;
    struct loader *train;
    struct loader *valid; /* NULL when the deck names no data.valid */
    int64_t valid_steps;  /* loader_next calls of one validation */
    struct model model;
    struct engine engine;
    struct schedule schedule;
    int made; /* how far session_create came */
};

/* Collective over world. Makes all of it; weights are zero. Returns an agreed code; destroy the session in any case.
 * checkpoint: that the run goes on from, whose choices the executor takes over; NULL: none. make_executor: as
 * core/device.h has it. */
int session_create(struct session *session, const struct deck *deck, struct comm *world, const char *checkpoint,
                   device_make *make_executor);
void session_destroy(struct session *session);

struct session_validation {
    double loss; /* mean, nats per label */
    double labels;
};

/* Evaluates the validation set. stopping is asked before each of its batches, on every rank alike, whether to give up;
 * false when it was. Collective. */
bool session_validate(struct session *session, bool (*stopping)(void *self), void *self,
                      struct session_validation *result);

#endif
