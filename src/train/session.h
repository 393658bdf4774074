/* A session: everything that a setup describes, made and ready to run: process grid, executor, loaders, model and
 * engine. */
#ifndef TRAIN_SESSION_H
#define TRAIN_SESSION_H

#include "comm/grid.h"
#include "core/device.h"
#include "loader/loader.h"
#include "monitor/validation.h"
#include "setup/setup.h"

struct session {
    struct setup setup; /* with the layout and the recompute policy, if the deck left them to the program */
    struct comm *world; /* borrowed */
    struct grid grid;
    struct parallel_groups groups; /* owned */
    struct executor *executor;
    int threads;
    struct loader *train;
    struct loader *valid; /* NULL if the deck does not name data.valid */
    int64_t valid_steps;  /* loader_next calls per validation */
    float *class_weights; /* [setup.model.task.labels] train.class_weights; NULL: none */
    struct model model;
    struct engine engine;
    struct schedule schedule;
    int made; /* how far session_create has come, for session_destroy */
};

/* Makes the session; weights are zero. Destroy the session also after an error. checkpoint: the one to resume from,
 * whose tuned kernels the executor loads; NULL: none. make_executor: core/device.h. Collective over world; returns an
 * agreed code. */
int session_create(struct session *session, const struct deck *deck, struct comm *world, const char *checkpoint,
                   device_make *make_executor);
void session_destroy(struct session *session);

struct session_validation {
    double loss; /* mean, nats per label */
    double labels;
    double metrics[VALIDATION_METRICS]; /* of a fine-tuning head; NaN: does not apply */
};

/* Evaluates the validation set. Every rank calls stopping(self) before each batch; if it returns true, the validation
 * is abandoned and returns false. stopping must return the same on all ranks. Collective. */
bool session_validate(struct session *session, bool (*stopping)(void *self), void *self,
                      struct session_validation *result);

#endif
