/* A run of the model's state in host memory, as files and digests receive it. */
#ifndef STATE_FETCHED_H
#define STATE_FETCHED_H

#include "state/piece.h"

/* Consecutive elements of a parameter's weight or moment in the global tensor. */
struct fetched_elements {
    enum piece_kind kind;
    const struct parameter *parameter;
    int number; /* parameter number, as in model_parameters */
    enum dtype dtype;
    struct slab_run run;
};
typedef int fetch_visit(void *self, const struct fetched_elements *fetched, const void *content);

#endif
