/* A stretch of the model's state on the host, as it is handed to files and digests. */
#ifndef STATE_FETCHED_H
#define STATE_FETCHED_H

#include "state/piece.h"

/* Elements of a parameter's weight or moments that follow one another in the global tensor. */
struct fetched_elements {
    enum piece_kind kind;
    const struct parameter *parameter;
    int number; /* of the parameter, as model_parameters counts */
    enum dtype dtype;
    struct slab_run run;
};
typedef int fetch_visit(void *self, const struct fetched_elements *fetched, const void *content);

#endif
